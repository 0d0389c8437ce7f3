package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// SubscriptionList is one page of subscriptions.
type SubscriptionList struct {
	Items []Subscription `json:"items" nullable:"false" doc:"Subscriptions in the order of their names."`
	Next  string         `json:"next,omitempty" doc:"What to send as after to get the next page. Left out on the last one."`
}

// Subscription is all that is known of one name.
type Subscription struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant" doc:"Name of the tenant in the configuration."`
	State  string `json:"state" enum:"pending,active,recreating,parked,deleting" doc:"State of the record, and pending for a wish that has none yet."`

	Wish   *Wish   `json:"wish,omitempty" doc:"What is desired. Left out when nobody wishes for it any more."`
	Record *Record `json:"record,omitempty" doc:"What became of the wish. Left out while nothing was tried."`

	LastNotificationAt *time.Time `json:"lastNotificationAt,omitempty" doc:"When the last change that was forwarded had arrived."`
	SilentSince        *time.Time `json:"silentSince,omitempty" doc:"Since when nothing has come, where that is longer than the wish's silentAfter. Left out when it is not."`
	LastError          *Error     `json:"lastError,omitempty" doc:"Why it is not simply active. Left out when it is."`
	Replaces           []Record   `json:"replaces" nullable:"false" doc:"Subscriptions of older gens that are still there, until the present one lives."`
}

// Wish is one desired subscription.
type Wish struct {
	Source       string   `json:"source" doc:"Who wishes for it, such as file."`
	Gen          string   `json:"gen" doc:"Short hash of all that cannot be changed without a new subscription."`
	Resource     string   `json:"resource" doc:"What is watched, as Graph writes it."`
	ChangeTypes  []string `json:"changeTypes" nullable:"false" doc:"Kinds of changes: created, updated, deleted."`
	Lifetime     float64  `json:"lifetime" doc:"How long to ask for, in seconds; 0 is as long as Graph allows."`
	ImmutableIDs bool     `json:"immutableIDs" doc:"Whether ids stay when an item is moved."`
	SilentAfter  float64  `json:"silentAfter" doc:"After how long without a change it counts as silent, in seconds; 0 is never."`
	Rotation     int      `json:"rotation" doc:"Raised to replace URL token and clientState."`
	Paused       bool     `json:"paused" doc:"Whether it shall not exist for now."`
	Sinks        []string `json:"sinks" nullable:"false" doc:"Names of the sinks its events go to."`
}

// Record is what the store knows of one subscription.
type Record struct {
	Gen       string     `json:"gen" doc:"The gen it was made with."`
	ID        string     `json:"id,omitempty" doc:"Graph's id. Left out while there is none."`
	State     string     `json:"state" enum:"pending,active,recreating,parked,deleting"`
	Reason    string     `json:"reason,omitempty" doc:"Class of the last failure, one of the documented reasons. Left out when it is well."`
	Detail    string     `json:"detail,omitempty" doc:"Words on the last failure, mostly Graph's own."`
	CreatedAt *time.Time `json:"createdAt,omitempty" doc:"When Graph made it."`
	GrantedAt *time.Time `json:"grantedAt,omitempty" doc:"When it was made or last renewed."`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"When it ends, as Graph said."`
	RenewAt   *time.Time `json:"renewAt,omitempty" doc:"When it will be renewed."`
	NextTryAt *time.Time `json:"nextTryAt,omitempty" doc:"When the next try is due after a failure."`
	Attempts  int        `json:"attempts" doc:"Failures in a row."`
	LostAt    *time.Time `json:"lostAt,omitempty" doc:"Since when changes may be lost. Left out while none are."`
}

// Error is why a subscription is not simply active.
type Error struct {
	Reason string `json:"reason" doc:"Class of the failure, one of the documented reasons."`
	Text   string `json:"text" doc:"What fails, for a person."`
	Remedy string `json:"remedy" doc:"What to do about it."`
}

// Heard says what has come, by a look at an instant.
type Heard struct {
	Now       time.Time
	Receiving graph.Receiving
	Last      map[string]time.Time // by name, the last change
}

// List joins wishes, records and what was heard by name. The answer is in the
// order of the names.
func List(wishes []graph.Wish, records []graph.Record, heard Heard) []Subscription {
	wished := map[string]*graph.Wish{}
	known := map[string][]graph.Record{}
	names := make([]string, 0, len(wishes))
	for i := range wishes {
		wished[wishes[i].Name] = &wishes[i]
		names = append(names, wishes[i].Name)
	}
	for i := range records {
		name := records[i].Name
		if known[name] == nil && wished[name] == nil {
			names = append(names, name)
		}
		known[name] = append(known[name], records[i])
	}
	slices.Sort(names)
	list := make([]Subscription, 0, len(names))
	for _, name := range names {
		list = append(list, NewSubscription(name, wished[name], known[name], heard))
	}
	return list
}

// NewSubscription says what is known of one name. The wish is nil when nobody
// wishes for it any more.
func NewSubscription(name string, wish *graph.Wish, records []graph.Record, heard Heard) Subscription {
	last := heard.Last[name]
	s := Subscription{Name: name, State: string(graph.StatePending), LastNotificationAt: Instant(last), Replaces: []Record{}}
	if wish != nil {
		s.Tenant, s.Wish = wish.Tenant, newWish(wish)
	}
	present := presentGen(wish, records)
	for i := range records {
		r := newRecord(&records[i])
		s.Tenant = cmp.Or(s.Tenant, records[i].Tenant)
		if r.Gen != present {
			s.Replaces = append(s.Replaces, r)
			continue
		}
		s.Record, s.State = &r, r.State
		reason := records[i].Reason
		if since, silent := heard.Receiving.SilentSince(heard.Now, wish, records[i], last); silent {
			s.SilentSince = Instant(since)
			reason = cmp.Or(reason, graph.ReasonSilent) // a failure says more
		}
		if reason != "" {
			a := advise(reason)
			s.LastError = &Error{Reason: string(reason), Text: cmp.Or(r.Detail, a.text), Remedy: a.remedy}
		}
	}
	return s
}

// presentGen is the wish's, or else that of the newest record.
func presentGen(wish *graph.Wish, records []graph.Record) string {
	switch {
	case wish != nil:
		return wish.Gen
	case len(records) == 0:
		return ""
	}
	return slices.MaxFunc(records, func(a, b graph.Record) int { return a.CreatedAt.Compare(b.CreatedAt) }).Gen
}

// expiry is when a living subscription ends that shall live.
func (s *Subscription) expiry() *time.Time {
	if s.Record == nil || s.Record.ID == "" || s.State == string(graph.StateDeleting) {
		return nil
	}
	return s.Record.ExpiresAt
}

func newWish(w *graph.Wish) *Wish {
	changeTypes := make([]string, 0, len(w.ChangeTypes))
	for _, t := range w.ChangeTypes {
		changeTypes = append(changeTypes, string(t))
	}
	return &Wish{
		Source: string(w.Source), Gen: w.Gen, Resource: w.Resource, ChangeTypes: changeTypes,
		Lifetime: w.Lifetime.Seconds(), ImmutableIDs: w.ImmutableIDs, SilentAfter: w.SilentAfter.Seconds(), Rotation: w.Rotation,
		Paused: w.Paused, Sinks: append([]string{}, w.Sinks...),
	}
}

func newRecord(r *graph.Record) Record {
	return Record{
		Gen: r.Gen, ID: r.ID, State: string(r.State), Reason: string(r.Reason), Detail: r.Detail,
		CreatedAt: Instant(r.CreatedAt), GrantedAt: Instant(r.GrantedAt), ExpiresAt: Instant(r.ExpiresAt),
		RenewAt: Instant(r.RenewAt), NextTryAt: Instant(r.NextAt), Attempts: r.Attempt, LostAt: Instant(r.LostAt),
	}
}
