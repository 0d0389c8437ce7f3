package admin

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Status is how one process and the store that it uses are.
type Status struct {
	Instance string `json:"instance" doc:"Name of the instance, as configured."`
	Version  string `json:"version" doc:"Version of the process that answers."`
	Holder   string `json:"holder" doc:"Name of the process that answers, unique to it."`
	Leading  bool   `json:"leading" doc:"Whether this process leads."`
	Term     int64  `json:"term" doc:"The term this process leads in; 0 while it does not lead."`
	Leader   Leader `json:"leader" doc:"To whom the store issued the newest term."`

	Subscriptions  map[string]int64 `json:"subscriptions" doc:"Number of subscriptions by state. Each state is there, also at 0."`
	EarliestExpiry *time.Time       `json:"earliestExpiry,omitempty" doc:"When the first of the living subscriptions ends unless it is renewed. Left out when none lives."`
	Unrouted       int64            `json:"unrouted" doc:"Stored notifications that have not been handed to the sinks' backlogs yet."`
	Backlog        map[string]int64 `json:"backlog" doc:"Events that wait for delivery, by sink."`
	DeadLetters    map[string]int64 `json:"deadLetters" doc:"Events that were given up, by sink."`
	Quarantine     map[string]int64 `json:"quarantine" doc:"Items that were not forwarded, by reason. Each reason is there, also at 0."`
	OpenGaps       int64            `json:"openGaps" doc:"Gaps that have not ended yet: changes may be lost now."`
	Store          StoreStatus      `json:"store"`
	StartedAt      time.Time        `json:"startedAt" doc:"When the process that answers was started."`
	Problems       []Problem        `json:"problems" nullable:"false" doc:"What fails, by tenant and reason, with what to do. Empty when all is well."`
}

// Leader is whom the newest term belongs to.
type Leader struct {
	Holder string     `json:"holder" doc:"Name of the process. Empty when there never was one."`
	Term   int64      `json:"term" doc:"Number of the term. 0 when there never was one."`
	Since  *time.Time `json:"since,omitempty" doc:"When the term was issued."`
}

// StoreStatus is how much room the store takes.
type StoreStatus struct {
	Bytes int64 `json:"bytes" doc:"Size of the database with its log."`
}

// Problem is something that fails for several subscriptions in the same way.
type Problem struct {
	Subject string `json:"subject" doc:"Whom it is about, such as tenant contoso."`
	Reason  string `json:"reason" doc:"Class of the failure, one of the documented reasons."`
	Text    string `json:"text" doc:"What fails, for a person."`
	Remedy  string `json:"remedy" doc:"What to do about it."`
}

// Describe fills in what follows from the subscriptions: their number by
// state, the first expiry, the problems, and a backlog at 0 for each sink that
// is wished for and has none.
func (s *Status) Describe(subscriptions []Subscription) {
	s.Subscriptions = map[string]int64{}
	for _, state := range graph.States() {
		s.Subscriptions[string(state)] = 0
	}
	for i := range subscriptions {
		sub := &subscriptions[i]
		s.Subscriptions[sub.State]++
		if at := sub.expiry(); at != nil && (s.EarliestExpiry == nil || at.Before(*s.EarliestExpiry)) {
			s.EarliestExpiry = at
		}
		if sub.Wish == nil {
			continue
		}
		for _, sink := range sub.Wish.Sinks {
			s.Backlog[sink] += 0
			s.DeadLetters[sink] += 0
		}
	}
	s.Problems = Problems(subscriptions)
}

// Instant is t for an answer: in UTC, nil for the zero time.
func Instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
