package renewal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

func answered(op graph.Operation, status int, code, message string) *graph.Error {
	return &graph.Error{
		Operation: op, Status: status, Code: code, Message: message,
		Enveloped: code != "", Embedded: graph.EmbeddedStatus(message),
	}
}

// start is the instant of the settling tests.
func start() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// alive is a record that was made long ago and is due.
func alive() graph.Record {
	now := start()
	return graph.Record{
		Name: "a", Gen: "g", ID: "s1", State: graph.StateActive, CreatedAt: now.Add(-24 * time.Hour),
		GrantedAt: now.Add(-time.Hour), RenewAt: now, ExpiresAt: now.Add(30 * time.Minute),
	}
}

func TestSettleRenewal(t *testing.T) {
	now, p := start(), renewal.DefaultPolicy()
	do := func(r graph.Record, sub graph.Subscription, err error) graph.Change {
		return renewal.Settle(now, renewal.Situation{Wish: &graph.Wish{Name: "a", Gen: "g"}, Record: r}, renewal.Action{Verb: renewal.Renew}, sub, err, p, 0.5)
	}
	t.Run("granted", func(t *testing.T) {
		r := alive()
		r.Attempt, r.Reason, r.NextAt, r.Checks = 3, graph.ReasonTransient, now, 2
		got := do(r, graph.Subscription{ID: "s1", ExpiresAt: now.Add(time.Hour)}, nil).Record
		if got.Attempt != 0 || got.Reason != "" || got.Checks != 0 || !got.ExpiresAt.Equal(now.Add(time.Hour)) || !got.GrantedAt.Equal(now) {
			t.Errorf("record %+v", got)
		}
		if life := got.RenewAt.Sub(now); life < 36*time.Minute || life > 40*time.Minute {
			t.Errorf("renewal after %v of an hour", life)
		}
	})
	t.Run("gone", func(t *testing.T) {
		c := do(alive(), graph.Subscription{}, answered(graph.OperationRenew, 404, "ResourceNotFound", ""))
		if c.Record.ID != "" || c.Record.State != graph.StateRecreating || c.Opened == nil || c.Opened.Cause != graph.GapRecreated {
			t.Errorf("change %+v", c)
		}
		if !c.Opened.From.Equal(alive().GrantedAt) || !c.Record.LostAt.Equal(alive().GrantedAt) {
			t.Error("the gap does not begin when the subscription was last known to live")
		}
		if len(c.Events) != 1 || c.Events[0].Type != graph.EventGapOpened || c.Events[0].FormerID != "s1" {
			t.Errorf("events %+v", c.Events)
		}
	})
	t.Run("404 within the grace time", func(t *testing.T) {
		r := alive()
		r.CreatedAt = now.Add(-10 * time.Second)
		c := do(r, graph.Subscription{}, answered(graph.OperationRenew, 404, "ResourceNotFound", ""))
		if c.Record.ID != "s1" || c.Record.Checks != 1 || c.Opened != nil {
			t.Errorf("change %+v", c)
		}
	})
	for name, err := range map[string]error{
		"embedded NotFound":     answered(graph.OperationRenew, 400, "ExtensionError", "[Status Code: NotFound; Reason: x]"),
		"ErrorInvalidParameter": answered(graph.OperationRenew, 400, "ErrorInvalidParameter", ""),
	} {
		t.Run(name, func(t *testing.T) {
			if c := do(alive(), graph.Subscription{}, err); c.Record.ID != "s1" || c.Record.Checks != 1 {
				t.Errorf("change %+v", c)
			}
		})
	}
	for name, test := range map[string]struct {
		err  error
		want graph.Reason
	}{
		"proxy's 404": {answered(graph.OperationRenew, 404, "", ""), graph.ReasonTransient},
		"503":         {answered(graph.OperationRenew, 503, "UnknownError", ""), graph.ReasonTransient},
		"no answer":   {&graph.Error{Operation: graph.OperationRenew, Err: errors.New("reset")}, graph.ReasonTransient},
		"401":         {answered(graph.OperationRenew, 401, "InvalidAuthenticationToken", ""), graph.ReasonUnauthorized},
		"403":         {answered(graph.OperationRenew, 403, "Forbidden", ""), graph.ReasonForbidden},
		"handshake":   {answered(graph.OperationRenew, 400, "InvalidRequest", "Subscription validation request timed out."), graph.ReasonHandshakeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := alive()
			for tries := 1; tries < 20; tries++ {
				c := do(r, graph.Subscription{}, test.err)
				if c.Record.ID != "s1" || c.Record.Reason != test.want || c.Opened != nil || c.Record.Attempt != tries {
					t.Fatalf("change %+v", c)
				}
				if room := r.ExpiresAt.Sub(now) / time.Duration(p.TriesLeft); c.Record.NextAt.Sub(now) > room {
					t.Fatalf("try %d waits %v, which leaves no room for %d more", tries, c.Record.NextAt.Sub(now), p.TriesLeft)
				}
				r = c.Record
			}
		})
	}
	t.Run("Retry-After", func(t *testing.T) {
		fault := answered(graph.OperationRenew, 429, "TooManyRequests", "")
		fault.RetryAfter = 2 * time.Minute
		if c := do(alive(), graph.Subscription{}, fault); c.Record.NextAt.Sub(now) != 2*time.Minute {
			t.Errorf("waits %v", c.Record.NextAt.Sub(now))
		}
	})
}

func TestSettleCheck(t *testing.T) {
	now, p := start(), renewal.DefaultPolicy()
	do := func(r graph.Record, sub graph.Subscription, err error) graph.Change {
		return renewal.Settle(now, renewal.Situation{Record: r}, renewal.Action{Verb: renewal.Check}, sub, err, p, 0.5)
	}
	doubted := alive()
	doubted.Checks, doubted.Attempt = 1, 1
	if c := do(doubted, graph.Subscription{ID: "s1", ExpiresAt: doubted.ExpiresAt}, nil); c.Record.Checks != 0 || c.Record.ID != "s1" || !c.Record.NextAt.After(now) {
		t.Errorf("alive: %+v", c)
	}
	gone := answered(graph.OperationGet, 404, "ResourceNotFound", "")
	if c := do(doubted, graph.Subscription{}, gone); c.Record.ID != "" || c.Opened == nil {
		t.Errorf("gone: %+v", c)
	}
	young := doubted
	young.CreatedAt = now.Add(-p.Grace / 2)
	first := do(young, graph.Subscription{}, gone)
	second := do(first.Record, graph.Subscription{}, gone)
	if first.Record.ID != "s1" || second.Record.NextAt.Sub(now) <= first.Record.NextAt.Sub(now) {
		t.Errorf("within the grace time: %+v, %+v", first, second)
	}
	if c := do(doubted, graph.Subscription{}, answered(graph.OperationGet, 503, "x", "")); c.Record.ID != "s1" || c.Record.Checks != 1 {
		t.Errorf("no answer: %+v", c)
	}
}

func TestSettleCreate(t *testing.T) {
	now, p := start(), renewal.DefaultPolicy()
	do := func(r graph.Record, sub graph.Subscription, err error) graph.Change {
		return renewal.Settle(now, renewal.Situation{Record: r}, renewal.Action{Verb: renewal.Create}, sub, err, p, 0.5)
	}
	none := graph.Record{Name: "a", Gen: "g", State: graph.StatePending, Resource: "users"}
	sub := graph.Subscription{ID: "s2", ExpiresAt: now.Add(time.Hour)}
	t.Run("created", func(t *testing.T) {
		c := do(none, sub, nil)
		if c.Record.ID != "s2" || c.Record.State != graph.StateActive || c.Record.Ambiguous || c.Closed != nil ||
			len(c.Events) != 1 || c.Events[0].Type != graph.EventSubscriptionCreated {
			t.Errorf("change %+v", c)
		}
	})
	t.Run("recreated", func(t *testing.T) {
		r := none
		r.LostAt, r.LostCause, r.State = now.Add(-time.Hour), graph.GapRecreated, graph.StateRecreating
		c := do(r, sub, nil)
		if c.Closed == nil || !c.Closed.From.Equal(r.LostAt) || !c.Closed.To.Equal(now) || !c.Record.LostAt.IsZero() {
			t.Errorf("change %+v", c)
		}
		if len(c.Events) != 2 || c.Events[0].Type != graph.EventSubscriptionRecreated || c.Events[1].Type != graph.EventGapClosed {
			t.Errorf("events %+v", c.Events)
		}
	})
	t.Run("resumed", func(t *testing.T) {
		r := none
		r.State, r.Reason, r.Attempt = graph.StateParked, graph.ReasonQuota, 4
		c := do(r, sub, nil)
		if len(c.Events) != 2 || c.Events[1].Type != graph.EventSubscriptionResumed || c.Record.Reason != "" {
			t.Errorf("change %+v", c)
		}
	})
	tests := []struct {
		name      string
		err       error
		state     graph.State
		reason    graph.Reason
		ambiguous bool
		atLeast   time.Duration
	}{
		{"no answer", &graph.Error{Operation: graph.OperationCreate, Err: errors.New("reset")}, graph.StatePending, graph.ReasonTransient, true, p.RetryBase / 2},
		{"504", answered(graph.OperationCreate, 504, "", ""), graph.StatePending, graph.ReasonTransient, true, p.RetryBase / 2},
		{"quota", answered(graph.OperationCreate, 403, "ExtensionError", "[Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]"), graph.StateParked, graph.ReasonQuota, false, p.ParkBase / 2},
		{"permission", answered(graph.OperationCreate, 403, "Forbidden", ""), graph.StateParked, graph.ReasonForbidden, false, p.ParkBase / 2},
		{"invalid", answered(graph.OperationCreate, 400, "InvalidRequest", "resource is not supported"), graph.StateParked, graph.ReasonInvalid, false, p.ParkBase / 2},
		{"conflict", answered(graph.OperationCreate, 409, "Conflict", ""), graph.StatePending, graph.ReasonConflict, true, p.CheckEvery / 2},
		{"throttled", &graph.Error{Operation: graph.OperationCreate, Status: 429, Enveloped: true, Code: "TooManyRequests", RetryAfter: time.Hour}, graph.StatePending, graph.ReasonThrottled, false, time.Hour},
		{"401", answered(graph.OperationCreate, 401, "InvalidAuthenticationToken", ""), graph.StatePending, graph.ReasonUnauthorized, false, p.RetryBase / 2},
		{"handshake", answered(graph.OperationCreate, 400, "ValidationError", "Subscription validation request failed."), graph.StatePending, graph.ReasonHandshakeFailed, false, p.RetryBase / 2},
		{"too long", answered(graph.OperationCreate, 400, "ExtensionError", "Subscription expiration can only be 60 minutes in the future."), graph.StatePending, graph.ReasonExpiryLimited, false, p.CheckEvery / 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := do(none, graph.Subscription{}, test.err).Record
			if got.State != test.state || got.Reason != test.reason || got.Ambiguous != test.ambiguous || got.NextAt.Sub(now) < test.atLeast {
				t.Errorf("record %+v", got)
			}
		})
	}
	t.Run("conflict that names an id", func(t *testing.T) {
		const id = "22222222-2222-4222-8222-222222222222"
		fault := answered(graph.OperationCreate, 409, "Conflict", "Subscription Id "+id+" already exists for the requested combination")
		if got := do(none, graph.Subscription{}, fault).Record; got.ConflictID != id || got.Ambiguous {
			t.Errorf("record %+v", got)
		}
	})
	t.Run("conflict that stays", func(t *testing.T) {
		fault := answered(graph.OperationCreate, 409, "Conflict", "")
		again := do(do(none, graph.Subscription{}, fault).Record, graph.Subscription{}, fault)
		if again.Record.State != graph.StateParked || len(again.Events) != 1 {
			t.Errorf("change %+v", again)
		}
	})
	t.Run("gone and then no quota", func(t *testing.T) {
		r := none
		r.FormerID, r.Sought = "s1", true
		fault := answered(graph.OperationCreate, 403, "ExtensionError", "[Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]")
		if got := do(r, graph.Subscription{}, fault).Record; !got.Ambiguous || got.Sought || got.State != graph.StateParked {
			t.Errorf("record %+v", got)
		}
	})
	t.Run("parked once", func(t *testing.T) {
		fault := answered(graph.OperationCreate, 403, "Forbidden", "")
		first := do(none, graph.Subscription{}, fault)
		second := do(first.Record, graph.Subscription{}, fault)
		if len(first.Events) != 1 || first.Events[0].Type != graph.EventSubscriptionParked || len(second.Events) != 0 {
			t.Errorf("events %+v, %+v", first.Events, second.Events)
		}
		if second.Record.NextAt.Sub(now) <= first.Record.NextAt.Sub(now) {
			t.Error("a parked record is not tried more and more rarely")
		}
	})
}

func TestSettleDelete(t *testing.T) {
	now, p := start(), renewal.DefaultPolicy()
	do := func(s renewal.Situation, err error) graph.Change {
		s.Record = alive()
		return renewal.Settle(now, s, renewal.Action{Verb: renewal.Delete}, graph.Subscription{}, err, p, 0.5)
	}
	for name, err := range map[string]error{"deleted": nil, "gone already": answered(graph.OperationDelete, 404, "ResourceNotFound", "")} {
		if c := do(renewal.Situation{}, err); !c.Forget || len(c.Events) != 1 || c.Events[0].Type != graph.EventSubscriptionRemoved {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := do(renewal.Situation{}, answered(graph.OperationDelete, 503, "x", "")); c.Forget || c.Record.State != graph.StateDeleting || !c.Record.NextAt.After(now) {
		t.Errorf("failed: %+v", c)
	}
	if c := do(renewal.Situation{Wish: &graph.Wish{Name: "a", Gen: "new"}}, nil); !c.Forget || len(c.Events) != 0 {
		t.Errorf("replaced: %+v", c)
	}
	c := do(renewal.Situation{Wish: &graph.Wish{Name: "a", Gen: "g", Paused: true}}, nil)
	if c.Forget || c.Record.ID != "" || c.Record.State != graph.StateParked || c.Opened == nil || c.Opened.Cause != graph.GapPaused {
		t.Errorf("paused: %+v", c)
	}
}

func TestReact(t *testing.T) {
	now, p := start(), renewal.DefaultPolicy()
	settled := alive()
	settled.RenewAt = now.Add(10 * time.Minute)
	recent := settled
	recent.GrantedAt = now.Add(-p.ReauthorizeSpacing / 2)
	item := func(event string) graph.LifecycleItem {
		return graph.LifecycleItem{Name: "a", Gen: "g", SubscriptionID: "s1", Event: event, ReceivedAt: now}
	}
	if c, ok := renewal.React(now, settled, item("reauthorizationRequired"), p); !ok || !c.Record.RenewAt.Equal(now) {
		t.Errorf("reauthorize: %+v %v", c, ok)
	}
	if _, ok := renewal.React(now, recent, item("reauthorizationRequired"), p); ok {
		t.Error("a renewal of a few minutes ago does not answer the challenge")
	}
	if c, ok := renewal.React(now, settled, item("subscriptionRemoved"), p); !ok || c.Record.ID != "" || c.Opened.Cause != graph.GapRemoved {
		t.Errorf("removed: %+v %v", c, ok)
	}
	if c, ok := renewal.React(now, settled, item("missed"), p); !ok || c.Record.ID != "s1" || c.Opened == nil || c.Closed == nil || len(c.Events) != 2 {
		t.Errorf("missed: %+v %v", c, ok)
	}
	if _, ok := renewal.React(now, settled, item("other"), p); ok {
		t.Error("an unknown event changes something")
	}
}
