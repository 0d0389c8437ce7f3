package renewal

import (
	"errors"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// answer is what a call brought: a subscription or an error. whose and ours
// say whom the subscription belongs to, where that matters.
type answer struct {
	sub   graph.Subscription
	whose graph.Key
	ours  bool
	err   error
}

// settle says what a record becomes by the answer to an action. It is pure;
// draw is uniform in [0,1).
func settle(now time.Time, s Situation, a Action, got answer, p Policy, draw float64) graph.Change {
	r := s.Record
	switch a.Verb {
	case Create:
		if got.err != nil {
			return createFailed(now, r, got.err, p, draw)
		}
		return created(now, r, got.sub, p, draw)
	case Renew:
		if got.err != nil {
			return renewFailed(now, r, got.err, p, draw)
		}
		return graph.Change{Record: granted(now, r, got.sub.ExpiresAt, p, draw)}
	case Check:
		return checked(now, r, got, p, draw)
	case Inspect:
		return inspected(now, r, got, p, draw)
	case Seek:
		return sought(now, r, got, p, draw)
	case Delete:
		return deleted(now, s, got.err, p, draw)
	case Adopt:
		return created(now, r, *a.Found, p, draw)
	case Lapse:
		return lost(now, r, r.ExpiresAt, graph.GapLapsed)
	case Forget:
		return forgotten(now, s)
	case Wait, List:
	}
	return graph.Change{Record: r}
}

// forgotten ends a record that has nothing upstream, and the gap that it
// leaves: its successor ended that, or nobody waits for what came after.
func forgotten(now time.Time, s Situation) graph.Change {
	r := s.Record
	c := graph.Change{Record: r, Forget: true}
	if r.LostAt.IsZero() || !s.Replaced && s.Wish != nil {
		return c
	}
	end := now
	if s.Replaced {
		end = latest(s.ReplacedAt, r.LostAt)
	}
	gap := graph.Gap{Name: r.Name, From: r.LostAt, To: end, Cause: r.LostCause}
	c.Closed, c.Events = &gap, []graph.Event{gap.Event(graph.EventGapClosed, now)}
	return c
}

// granted is a record whose life was prolonged until expiresAt.
func granted(now time.Time, r graph.Record, expiresAt time.Time, p Policy, draw float64) graph.Record {
	r.State, r.Reason, r.Detail = graph.StateActive, "", ""
	r.Attempt, r.Checks, r.NextAt = 0, 0, time.Time{}
	r.GrantedAt, r.ExpiresAt = now, expiresAt
	r.RenewAt = RenewAt(now, expiresAt, p, draw)
	return r
}

// created is a record that has a subscription now. Where one was lost before,
// the gap ends.
func created(now time.Time, r graph.Record, sub graph.Subscription, p Policy, draw float64) graph.Change {
	c := graph.Change{}
	event := graph.Event{
		Type: graph.EventSubscriptionCreated, At: now, Name: r.Name,
		ID: sub.ID, ExpiresAt: sub.ExpiresAt, ResourcePath: r.Resource,
	}
	if !r.LostAt.IsZero() {
		event.Type, event.Cause = graph.EventSubscriptionRecreated, r.LostCause
		c.Closed = &graph.Gap{Name: r.Name, From: r.LostAt, To: now, Cause: r.LostCause}
	}
	c.Events = append(c.Events, event)
	if r.State == graph.StateParked {
		event.Type = graph.EventSubscriptionResumed
		c.Events = append(c.Events, event)
	}
	if c.Closed != nil {
		c.Events = append(c.Events, c.Closed.Event(graph.EventGapClosed, now))
	}
	r.ID, r.CreatedAt, r.Ambiguous = sub.ID, now, false
	r.LostAt, r.LostCause = time.Time{}, ""
	r.ConflictID, r.FormerID, r.Sought = "", "", false
	c.Record = granted(now, r, sub.ExpiresAt, p, draw)
	return c
}

// lost is a record whose subscription is gone. It begins a gap at the last
// instant at which it was known to live.
func lost(now time.Time, r graph.Record, since time.Time, cause graph.GapCause) graph.Change {
	gap := graph.Gap{Name: r.Name, From: since, Cause: cause}
	removed := gap.Event(graph.EventGapOpened, now)
	removed.FormerID = r.ID
	r.State, r.Reason, r.Detail = graph.StateRecreating, graph.ReasonGone, ""
	r.FormerID, r.Sought = r.ID, false
	r.ID, r.Attempt, r.Checks, r.NextAt = "", 0, 0, time.Time{}
	r.LostAt, r.LostCause = since, cause
	return graph.Change{Record: r, Opened: &gap, Events: []graph.Event{removed}}
}

// createFailed keeps the record for the next try. Where the call may have
// taken effect, or something exists already, a listing comes first.
func createFailed(now time.Time, r graph.Record, err error, p Policy, draw float64) graph.Change {
	again := r.Reason == graph.ReasonConflict
	r.Reason, r.Detail = graph.Classify(err), detail(err)
	r.Attempt++
	r.Sought = false
	var fault *graph.Error
	r.Ambiguous = !errors.As(err, &fault) || fault.Ambiguous()
	switch r.Reason {
	case graph.ReasonQuota:
		// Gone and then refused for quota: Graph may not have let go of the
		// former one yet, so that it is looked for by id and by list.
		r.Ambiguous = r.FormerID != ""
		return parked(now, r, r.Reason, r.Detail, p, draw)
	case graph.ReasonForbidden, graph.ReasonInvalid:
		return parked(now, r, r.Reason, r.Detail, p, draw)
	case graph.ReasonConflict:
		return conflicted(now, r, fault, again, p, draw)
	case graph.ReasonExpiryLimited:
		// The limit was learned from the answer; the next try asks for less.
		r.NextAt = now.Add(backoff(p.CheckEvery, p.RetryMax, r.Attempt, draw))
	default:
		r.NextAt = now.Add(max(retryAfter(err), backoff(p.RetryBase, p.RetryMax, r.Attempt, draw)))
	}
	return graph.Change{Record: r}
}

// parked is a record that a person, or time, has to mend. The sinks are told
// once.
func parked(now time.Time, r graph.Record, reason graph.Reason, text string, p Policy, draw float64) graph.Change {
	c := graph.Change{}
	r.Reason, r.Detail = reason, text
	r.NextAt = now.Add(backoff(p.ParkBase, p.ParkMax, max(r.Attempt, 1), draw))
	if r.State != graph.StateParked {
		c.Events = []graph.Event{{
			Type: graph.EventSubscriptionParked, At: now, Name: r.Name,
			Reason: r.Reason, NextTryAt: r.NextAt, ResourcePath: r.Resource,
		}}
	}
	r.State = graph.StateParked
	c.Record = r
	return c
}

// conflicted settles a 409: what it names is looked at, or the tenant listed.
// Where that has not helped before, it is parked.
func conflicted(now time.Time, r graph.Record, fault *graph.Error, again bool, p Policy, draw float64) graph.Change {
	r.ConflictID = fault.ConflictID()
	r.Ambiguous = r.ConflictID == ""
	if again && r.Ambiguous {
		return parked(now, r, graph.ReasonConflict,
			"Graph says that a subscription for this resource and these change types exists, but lists none of ours: "+r.Detail, p, draw)
	}
	r.NextAt = now.Add(backoff(p.CheckEvery, p.RetryMax, r.Attempt, draw))
	return graph.Change{Record: r}
}

// inspected settles the look at what a 409 named.
func inspected(now time.Time, r graph.Record, got answer, p Policy, draw float64) graph.Change {
	id := r.ConflictID
	r.ConflictID = ""
	switch {
	case got.err == nil && got.ours && got.whose == r.Key():
		return created(now, r, got.sub, p, draw)
	case got.err == nil && got.ours:
		return parked(now, r, graph.ReasonConflict, "Graph allows one subscription for this resource, and "+
			got.whose.Name+" ("+got.whose.Gen+") holds it: this one follows when that one ends", p, draw)
	case got.err == nil:
		return parked(now, r, graph.ReasonConflict, "subscription "+id+" holds this resource and is not ours, so it is left alone: "+
			"delete it, or change resource or changeTypes", p, draw)
	case errors.Is(got.err, graph.ErrSubscriptionGone):
		r.NextAt = now.Add(backoff(p.CheckEvery, p.RetryMax, r.Attempt, draw))
	default:
		r.ConflictID = id
		r.Attempt++
		r.NextAt = now.Add(max(retryAfter(got.err), backoff(p.RetryBase, p.RetryMax, r.Attempt, draw)))
	}
	return graph.Change{Record: r}
}

// sought settles the look for a former subscription: where Graph has it again,
// it is taken back, and otherwise a new one is tried.
func sought(now time.Time, r graph.Record, got answer, p Policy, draw float64) graph.Change {
	if got.err == nil && now.Before(got.sub.ExpiresAt) {
		return created(now, r, got.sub, p, draw)
	}
	r.Sought = true
	return graph.Change{Record: r}
}

// renewFailed decides what a failed renewal proves. Only Graph's own 404,
// outside the grace time after our own create, proves that it is gone.
func renewFailed(now time.Time, r graph.Record, err error, p Policy, draw float64) graph.Change {
	var fault *graph.Error
	needsGet := errors.As(err, &fault) && fault.NeedsGet()
	if errors.Is(err, graph.ErrSubscriptionGone) && !young(now, r, p) {
		return lost(now, r, r.GrantedAt, graph.GapRecreated)
	}
	r.Reason, r.Detail = graph.Classify(err), detail(err)
	r.Attempt++
	if errors.Is(err, graph.ErrSubscriptionGone) || needsGet {
		r.Checks = 1
		r.NextAt = now.Add(p.CheckEvery)
		return graph.Change{Record: r}
	}
	r.Checks = 0
	r.NextAt = retryAt(now, r, err, p, draw)
	return graph.Change{Record: r}
}

// checked settles a GET that had to decide a doubt.
func checked(now time.Time, r graph.Record, got answer, p Policy, draw float64) graph.Change {
	switch {
	case got.err == nil:
		// It lives, so only the renewal failed: that is tried again.
		r.Checks = 0
		if !got.sub.ExpiresAt.IsZero() {
			r.ExpiresAt = got.sub.ExpiresAt
		}
		r.NextAt = retryAt(now, r, nil, p, draw)
	case errors.Is(got.err, graph.ErrSubscriptionGone) && young(now, r, p):
		r.NextAt = now.Add(p.CheckEvery << min(r.Checks, 5))
		r.Checks++
	case errors.Is(got.err, graph.ErrSubscriptionGone):
		return lost(now, r, r.GrantedAt, graph.GapRecreated)
	default:
		r.Attempt++
		r.Reason, r.Detail = graph.Classify(got.err), detail(got.err)
		r.NextAt = retryAt(now, r, got.err, p, draw)
	}
	return graph.Change{Record: r}
}

func deleted(now time.Time, s Situation, err error, p Policy, draw float64) graph.Change {
	r := s.Record
	if err != nil && !errors.Is(err, graph.ErrSubscriptionGone) {
		r.State, r.Reason, r.Detail = graph.StateDeleting, graph.Classify(err), detail(err)
		r.Attempt++
		r.NextAt = now.Add(max(retryAfter(err), backoff(p.RetryBase, p.RetryMax, r.Attempt, draw)))
		return graph.Change{Record: r}
	}
	event := graph.Event{Type: graph.EventSubscriptionRemoved, At: now, Name: r.Name, FormerID: r.ID, ResourcePath: r.Resource}
	if s.Wish != nil && s.Wish.Paused && r.Gen == s.Wish.Gen {
		c := lost(now, r, now, graph.GapPaused)
		c.Record.State, c.Record.Reason, c.Record.Detail = graph.StateParked, "", "paused"
		return c
	}
	c := graph.Change{Record: r, Forget: true}
	switch {
	case s.Wish == nil:
		c.Events = []graph.Event{event}
	case err != nil && s.ReplacedAt.After(r.GrantedAt) && !strings.Contains(r.Gen, graph.TwinMark):
		// It was gone before its replacement lived, and nobody had noticed.
		closeGap(&c, now, graph.Gap{Name: r.Name, From: r.GrantedAt, To: s.ReplacedAt, Cause: graph.GapRecreated})
	}
	return c
}

// closeGap adds a gap that is over already.
func closeGap(c *graph.Change, now time.Time, gap graph.Gap) {
	open := gap.Opening()
	c.Opened, c.Closed = &open, &gap
	c.Events = append(c.Events, open.Event(graph.EventGapOpened, now), gap.Event(graph.EventGapClosed, now))
}

// young says that our own create is so recent that Graph may not know of it
// everywhere yet.
func young(now time.Time, r graph.Record, p Policy) bool {
	return !r.CreatedAt.IsZero() && now.Sub(r.CreatedAt) < p.Grace
}

// retryAt is when to try again to renew: what Graph asks for or the ladder,
// but always so soon that several more tries fit before the expiry.
func retryAt(now time.Time, r graph.Record, err error, p Policy, draw float64) time.Time {
	wait := max(retryAfter(err), backoff(p.RetryBase, p.RetryMax, max(r.Attempt, 1), draw))
	room := r.ExpiresAt.Sub(now) / time.Duration(p.TriesLeft)
	return now.Add(max(min(wait, room), p.CheckEvery))
}

func retryAfter(err error) time.Duration {
	if fault, ok := errors.AsType[*graph.Error](err); ok {
		return fault.RetryAfter
	}
	return 0
}

// detail is what a person reads about a failure: Graph's own words, which hold
// no secret of ours.
func detail(err error) string {
	const longest = 500
	text := err.Error()
	if len(text) > longest {
		text = text[:longest]
	}
	return strings.ToValidUTF8(text, "")
}
