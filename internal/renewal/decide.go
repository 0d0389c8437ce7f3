package renewal

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Verb is what to do with one record.
type Verb string

// The verbs. Wait does nothing until the wake-up time.
const (
	Wait   Verb = "wait"
	Create Verb = "create"
	Renew  Verb = "renew"
	Check  Verb = "check" // one GET decides whether it still exists
	List   Verb = "list"  // the tenant has to be listed first
	Adopt  Verb = "adopt" // take over what the listing found
	Delete Verb = "delete"
	Forget Verb = "forget" // drop the record, there is nothing upstream
	Lapse  Verb = "lapse"  // it expired; note the loss, then create
	// Inspect looks at the subscription that a 409 named.
	Inspect Verb = "inspect"
	// Seek looks whether Graph has the former subscription again.
	Seek Verb = "seek"
)

// calls says whether a verb is a call to Graph, and so needs budget.
func (v Verb) calls() bool {
	switch v {
	case Create, Renew, Check, Delete, Inspect, Seek:
		return true
	case Wait, List, Adopt, Forget, Lapse:
	}
	return false
}

// Action is a decision. Found is set for Adopt alone.
type Action struct {
	Verb  Verb
	Found *graph.Subscription
}

// Listing is the last complete listing of a tenant, reduced to what is ours.
type Listing struct {
	At    time.Time                          // when it began
	Found map[graph.Key][]graph.Subscription // more than one are duplicates
}

// pick gives the one of a key that lives longest.
func (l *Listing) pick(key graph.Key) (best graph.Subscription, found bool) {
	for _, sub := range l.Found[key] {
		if !found || sub.ExpiresAt.After(best.ExpiresAt) {
			best, found = sub, true
		}
	}
	return best, found
}

// Situation is all that a decision looks at.
type Situation struct {
	// Wish is nil when nobody wishes for the record's name any more.
	Wish   *graph.Wish
	Record graph.Record
	// Listing is nil when the tenant was not listed in this term.
	Listing *Listing
	// Replaced says that the wish's own gen lives, so that a record of an
	// older gen can go; ReplacedAt is since when, zero when not known.
	Replaced   bool
	ReplacedAt time.Time
	// MayCreate and MayDelete are false while the conditions for it are not
	// given: the listener is not proven, the store is away, or the desired
	// set was not read completely.
	MayCreate, MayDelete bool
}

// Never is the wake-up time of what only an event can change.
func Never() time.Time { return time.Unix(1<<40, 0) }

// DecideOne says what to do with one record now, and when to look again if
// nothing happens in between. It is pure.
func DecideOne(now time.Time, s Situation) (Action, time.Time) {
	switch {
	case !s.desired():
		return s.decideEnd(now)
	case s.Record.ID == "":
		return s.decideCreate(now)
	}
	return s.decideRenew(now)
}

// Decide is DecideOne over all situations, in their order: for a plan, and to
// see what a start or a reload would do.
func Decide(now time.Time, situations []Situation) []Action {
	actions := make([]Action, len(situations))
	for i := range situations {
		actions[i], _ = DecideOne(now, situations[i])
	}
	return actions
}

// desired says whether the record should have a subscription. A record of an
// older gen stays alive until its replacement lives.
func (s *Situation) desired() bool {
	if s.Wish == nil || s.Wish.Paused {
		return false
	}
	return s.Record.Gen == s.Wish.Gen || !s.Replaced
}

// decideEnd lets go of what is not desired. While it may not delete, it keeps
// alive what is there: another leader may know better.
func (s *Situation) decideEnd(now time.Time) (Action, time.Time) {
	switch {
	case s.Record.ID == "":
		return s.decideEndOfNone(now)
	case !now.Before(s.Record.ExpiresAt):
		return Action{Verb: Forget}, now
	case !s.MayDelete:
		return s.decideRenew(now)
	case now.Before(s.Record.NextAt) && s.Record.State == graph.StateDeleting:
		return Action{Verb: Wait}, s.Record.NextAt
	}
	return Action{Verb: Delete}, now
}

// decideEndOfNone lets go of a record without a subscription, after a look
// where a create may have taken effect.
func (s *Situation) decideEndOfNone(now time.Time) (Action, time.Time) {
	paused := s.Wish != nil && s.Wish.Paused && s.Record.Gen == s.Wish.Gen
	switch {
	case s.Record.Ambiguous && now.Before(s.Record.NextAt):
		return Action{Verb: Wait}, s.Record.NextAt
	case s.Record.Ambiguous:
		return s.decideLook(now, Action{Verb: Forget})
	case paused:
		return Action{Verb: Wait}, Never()
	}
	return Action{Verb: Forget}, now
}

func (s *Situation) decideCreate(now time.Time) (Action, time.Time) {
	switch {
	case s.Record.Gen != s.Wish.Gen && !s.Record.Ambiguous:
		return Action{Verb: Forget}, now
	case now.Before(s.Record.NextAt):
		return Action{Verb: Wait}, s.Record.NextAt
	case s.Record.ConflictID != "":
		return Action{Verb: Inspect}, now
	case s.Record.FormerID != "" && s.Record.Reason == graph.ReasonQuota && !s.Record.Sought:
		return Action{Verb: Seek}, now
	case s.Record.Ambiguous:
		return s.decideLook(now, Action{Verb: Create})
	case !s.MayCreate:
		return Action{Verb: Wait}, Never()
	}
	return Action{Verb: Create}, now
}

// decideLook decides about a record whose create may have taken effect: a
// listing that began after the last try has to show whether it did.
func (s *Situation) decideLook(now time.Time, absent Action) (Action, time.Time) {
	if s.Listing == nil || s.Listing.At.Before(s.Record.NextAt) {
		return Action{Verb: List}, now
	}
	if found, ok := s.Listing.pick(s.Record.Key()); ok {
		return Action{Verb: Adopt, Found: &found}, now
	}
	if absent.Verb == Create && !s.MayCreate {
		return Action{Verb: Wait}, Never()
	}
	if absent.Verb == Create && s.Record.Gen != s.Wish.Gen {
		absent = Action{Verb: Forget}
	}
	return absent, now
}

func (s *Situation) decideRenew(now time.Time) (Action, time.Time) {
	r := s.Record
	due := r.RenewAt
	if r.Attempt > 0 {
		due = r.NextAt
	}
	switch {
	case !now.Before(r.ExpiresAt):
		return Action{Verb: Lapse}, now
	case now.Before(due):
		return Action{Verb: Wait}, earlier(due, r.ExpiresAt)
	case r.Checks > 0:
		return Action{Verb: Check}, now
	}
	return Action{Verb: Renew}, now
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
