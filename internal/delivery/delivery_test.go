package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/notification"
)

func TestDeliversInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		first := queue.add("a", 5)
		r := start(t, queue, func(c *delivery.Config) { c.Batch = 2 }, sinkOf("a", sink))
		synctest.Wait()
		if got := sink.ids(); got != "a-1 a-2 a-3 a-4 a-5" || sink.count() != 3 {
			t.Errorf("sent %q in %d calls", got, sink.count())
		}
		if e := sink.sent[0]; e.Type() != "Microsoft.Graph.MessageCreated" || e.Extensions()["partitionkey"] != "k" ||
			e.Extensions()["subscriptionname"] != "orders-inbox" || e.Source() != "/tenants/"+t1+"/applications/"+app {
			t.Errorf("event %s", e)
		}
		// What comes later is seen without waiting for the next poll.
		later := queue.add("a", 1)
		synctest.Wait()
		for _, e := range append(first, later...) {
			if !e.done {
				t.Errorf("%s is not done", e.Notification.ID)
			}
		}
		r.assertCounts(t, "a", 6, 0, 0)
		if took := r.stop(t); took != 0 || sink.closed != 1 {
			t.Errorf("stopped after %s, closed %d times", took, sink.closed)
		}
		if r.log.String() != "" {
			t.Errorf("log: %s", r.log)
		}
	})
}

func TestCountersExistFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newQueue(), nil, sinkOf("a", &fakeSink{}), sinkOf("b", &fakeSink{}))
		r.assertCounts(t, "a", 0, 0, 0)
		r.assertCounts(t, "b", 0, 0, 0)
		r.stop(t)
	})
}

func TestLadder(t *testing.T) {
	for _, test := range []struct {
		share float64
		want  []time.Duration // waits between the tries
	}{
		{0.5, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second, 4 * time.Second}},
		{0.25, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 2 * time.Second}},
	} {
		t.Run(fmt.Sprint(test.share), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue, sink := newQueue(), &fakeSink{send: always(errDown)}
				queue.add("a", 1)
				r := start(t, queue, func(c *delivery.Config) {
					c.Base, c.Top, c.Rand = time.Second, 8*time.Second, rand.New(constant(test.share))
				}, sinkOf("a", sink))
				pass(time.Minute)
				r.stop(t)
				for i, want := range test.want {
					if got := sink.at[i+1].Sub(sink.at[i]); got != want {
						t.Errorf("wait %d is %s, want %s", i+1, got, want)
					}
				}
			})
		})
	}
}

func TestDefaultLadderStaysWithinItsTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{send: always(errDown)}
		queue.add("a", 1)
		seeded := rand.New(rand.NewPCG(1, 2))
		r := start(t, queue, func(c *delivery.Config) { c.Rand = seeded }, sinkOf("a", sink))
		pass(24 * time.Hour)
		r.stop(t)
		longest, wait := time.Duration(0), delivery.DefaultBase
		for i := 1; i < len(sink.at); i++ {
			got := sink.at[i].Sub(sink.at[i-1])
			// minWait of the idle loop is the only thing added.
			if got > min(wait, delivery.DefaultTop)+50*time.Millisecond {
				t.Errorf("wait %d is %s, more than %s", i, got, wait)
			}
			longest, wait = max(longest, got), wait*2
			if wait > delivery.DefaultTop {
				wait = delivery.DefaultTop
			}
		}
		// Jitter over the whole span: a day of five-minute waits halves.
		if len(sink.at) < 450 || len(sink.at) > 750 || longest < 4*time.Minute {
			t.Errorf("%d tries in a day, longest wait %s", len(sink.at), longest)
		}
	})
}

func TestMaxAgeEndsInTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{send: always(errDown)}
		e, born := queue.add("a", 1)[0], time.Now()
		r := start(t, queue, nil, delivery.Destination{Name: "a", Sink: sink, MaxAge: time.Hour})
		pass(2 * time.Hour)
		r.stop(t)
		if !e.dead || e.lastError != errDown.Error() {
			t.Fatalf("entry %+v", e)
		}
		if last := sink.at[len(sink.at)-1].Sub(born); last != time.Hour {
			t.Errorf("last try after %s, want one at the maximum age", last)
		}
		r.assertCounts(t, "a", 0, float64(len(sink.at)-1), 1)
		if n := r.lines("deliveries became dead letters"); n != 1 {
			t.Errorf("%d log lines about it", n)
		}
	})
}

func TestWhatMakesNoEventIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		entries := queue.add("a", 3)
		entries[1].Notification.Item = []byte("{")
		r := start(t, queue, nil, sinkOf("a", sink))
		synctest.Wait()
		if !entries[1].dead || entries[1].lastError == "" || !entries[0].done || !entries[2].done {
			t.Errorf("entries %+v %+v %+v", entries[0], entries[1], entries[2])
		}
		if got := sink.ids(); got != "a-1 a-3" {
			t.Errorf("sent %q", got)
		}
		// A batch of nothing else does not reach the sink at all.
		alone := queue.add("a", 1, func(n *notification.Notification) { n.Kind = notification.KindLifecycle })[0]
		synctest.Wait()
		if !alone.dead || sink.count() != 1 {
			t.Errorf("dead %v, %d calls", alone.dead, sink.count())
		}
		r.assertCounts(t, "a", 2, 0, 2)
		r.stop(t)
	})
}

func TestOneEventFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		sink.send = func(_ context.Context, events []event.Event) []error {
			results := make([]error, len(events))
			for i := range events {
				if events[i].ID() == "a-2" && sink.count() < 3 {
					results[i] = errors.New(strings.Repeat("é", 1000))
				}
			}
			return results
		}
		entries := queue.add("a", 3)
		r := start(t, queue, nil, sinkOf("a", sink))
		synctest.Wait()
		now := queue.look(entries)
		if !now[0].done || now[1].done || !now[2].done {
			t.Error("the others are held")
		}
		if text := now[1].lastError; len(text) > 512 || len(text) < 500 || strings.ToValidUTF8(text, "?") != text {
			t.Errorf("error of %d bytes is stored", len(text))
		}
		pass(time.Minute)
		if got := sink.ids(); got != "a-1 a-2 a-3"+strings.Repeat(" a-2", 2) || !entries[1].done {
			t.Errorf("sent %q", got)
		}
		r.assertCounts(t, "a", 3, 2, 0)
		r.stop(t)
	})
}

func TestWrongNumberOfResultsDeliversNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newQueue()
		sink := &fakeSink{send: func(context.Context, []event.Event) []error { return nil }}
		entries := queue.add("a", 2)
		r := start(t, queue, nil, sinkOf("a", sink))
		synctest.Wait()
		if entries[0].done || entries[1].done || entries[0].lastError == "" {
			t.Errorf("entries %+v %+v", entries[0], entries[1])
		}
		r.stop(t)
	})
}

func TestStateOfASinkIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, down := newQueue(), atomic.Bool{}
		down.Store(true)
		sink := &fakeSink{send: func(ctx context.Context, events []event.Event) []error {
			if down.Load() {
				return always(errDown)(ctx, events)
			}
			return make([]error, len(events))
		}}
		queue.add("a", 20)
		r := start(t, queue, nil, sinkOf("a", sink))
		pass(10 * time.Minute)
		if r.lines("sink takes no events") != 1 || r.lines("sink takes events again") != 0 {
			t.Errorf("log: %s", r.log)
		}
		down.Store(false)
		pass(10 * time.Minute)
		r.stop(t)
		if r.lines("sink takes no events") != 1 || r.lines("sink takes events again") != 1 || !strings.Contains(r.log.String(), "sink=a") {
			t.Errorf("log: %s", r.log)
		}
	})
}

func TestOneSinkHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, good := newQueue(), &fakeSink{}
		stuck := &fakeSink{send: func(ctx context.Context, events []event.Event) []error {
			<-ctx.Done()
			return always(ctx.Err())(ctx, events)
		}}
		held, began := queue.add("stuck", 3), time.Now()
		r := start(t, queue, nil, sinkOf("stuck", stuck), sinkOf("good", good), sinkOf("down", &fakeSink{send: always(errDown)}))
		queue.add("down", 3)
		for range 60 {
			entries := queue.add("good", 10)
			synctest.Wait()
			for _, e := range queue.look(entries) {
				if !e.done {
					t.Fatalf("%s waits for another sink after %s", e.Notification.ID, time.Since(began))
				}
			}
			pass(time.Second)
		}
		// The stuck call was ended by the time-out and settled within the claim.
		if held[0].done || len(held[0].settled) == 0 || held[0].settled[0].Sub(began) != delivery.DefaultSendTimeout {
			t.Errorf("stuck entry %+v", held[0])
		}
		r.stop(t)
	})
}

func TestSettleIsRetriedWithoutSendingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		e := queue.add("a", 1)[0]
		queue.settleError = errors.New("store is away")
		r := start(t, queue, nil, sinkOf("a", sink))
		pass(20 * time.Second)
		queue.mu.Lock()
		tries := queue.settles
		queue.settleError = nil
		queue.mu.Unlock()
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries to settle in 20 s", tries)
		}
		r.assertCounts(t, "a", 0, 0, 0)
		pass(10 * time.Second)
		if !e.done || sink.count() != 1 {
			t.Errorf("done %v after %d calls of the sink", e.done, sink.count())
		}
		r.assertCounts(t, "a", 1, 0, 0)
		if r.lines("queue gives no answer") != 1 || r.lines("queue answers again") != 1 {
			t.Errorf("log: %s", r.log)
		}
		r.stop(t)
	})
}

func TestSettleGivesUpWithTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		e := queue.add("a", 1)[0]
		queue.settleError = errors.New("store is away")
		r := start(t, queue, nil, sinkOf("a", sink))
		pass(delivery.DefaultLease - time.Second)
		if sink.count() != 1 {
			t.Errorf("sent %d times within the claim", sink.count())
		}
		queue.mu.Lock()
		queue.settleError = nil
		queue.mu.Unlock()
		pass(time.Minute)
		if !e.done || sink.count() > 2 {
			t.Errorf("done %v after %d calls", e.done, sink.count())
		}
		if ids := sink.ids(); strings.ReplaceAll(ids, "a-1", "") != strings.Repeat(" ", sink.count()-1) {
			t.Errorf("a repetition has another id: %q", ids)
		}
		r.stop(t)
	})
}

func TestClaimFailureIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		e := queue.add("a", 1)[0]
		queue.claimError = errors.New("store is away")
		r := start(t, queue, nil, sinkOf("a", sink))
		pass(time.Minute)
		if queue.claims > 25 || r.lines("queue gives no answer") != 1 {
			t.Errorf("%d claims in a minute, log: %s", queue.claims, r.log)
		}
		queue.mu.Lock()
		queue.claimError = nil
		queue.mu.Unlock()
		pass(6 * time.Second)
		if !e.done || r.lines("queue answers again") != 1 {
			t.Errorf("done %v, log: %s", e.done, r.log)
		}
		r.stop(t)
	})
}

func TestGraceLetsABatchEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		sink.send = func(ctx context.Context, events []event.Event) []error {
			select {
			case <-time.After(time.Second):
				return make([]error, len(events))
			case <-ctx.Done():
				return always(ctx.Err())(ctx, events)
			}
		}
		e := queue.add("a", 1)[0]
		r := start(t, queue, nil, sinkOf("a", sink))
		synctest.Wait()
		if took := r.stop(t); took != time.Second {
			t.Errorf("stopped after %s", took)
		}
		if !e.done || sink.closed != 1 {
			t.Errorf("what the sink took is not settled: %+v", e)
		}
	})
}

func TestGraceIsBounded(t *testing.T) {
	for name, spoil := range map[string]func(*fakeQueue, *fakeSink){
		"sink": func(_ *fakeQueue, s *fakeSink) {
			s.send = func(ctx context.Context, events []event.Event) []error {
				<-ctx.Done()
				return always(ctx.Err())(ctx, events)
			}
		},
		"settle": func(q *fakeQueue, s *fakeSink) {
			q.settleError = errors.New("store is away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue, sink := newQueue(), &fakeSink{}
				spoil(queue, sink)
				e := queue.add("a", 1)[0]
				r := start(t, queue, nil, sinkOf("a", sink))
				synctest.Wait()
				if took := r.stop(t); took > delivery.DefaultGrace || took < delivery.DefaultGrace/2 {
					t.Errorf("stopped after %s", took)
				}
				if e.done || e.dead {
					t.Errorf("entry %+v", e)
				}
				// A sink that ran out of time leaves its batch free for the
				// next process, at once.
				if name == "sink" && (len(e.settled) != 1 || e.next.After(time.Now())) {
					t.Errorf("not given back: %+v", e)
				}
				if r.lines("sink takes no events") != 0 {
					t.Errorf("the end of the process is logged as trouble of the sink: %s", r.log)
				}
			})
		})
	}
}

func TestUnsentBatchIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		e := queue.add("a", 1)[0]
		ready := make(chan context.CancelFunc, 1)
		queue.afterClaim = func() { (<-ready)() }
		r := start(t, queue, nil, sinkOf("a", sink))
		ready <- r.cancel
		if err := <-r.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if sink.count() != 0 || e.done || e.dead || len(e.settled) != 1 || !e.next.Equal(time.Now()) || !e.leased.IsZero() {
			t.Errorf("%d calls, entry %+v", sink.count(), e)
		}
		r.assertCounts(t, "a", 0, 0, 0)
	})
}

type brokenSink struct{ fakeSink }

func (b *brokenSink) Close() error { return errDown }

func TestRunGivesTheErrorsOfClosing(t *testing.T) {
	d, err := delivery.New(delivery.Config{
		Sinks: []delivery.Destination{sinkOf("a", &brokenSink{}), sinkOf("b", &fakeSink{})}, Rand: rand.New(constant(0)),
	}, newQueue())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "close sink a") {
		t.Errorf("Run: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := func() delivery.Config {
		return delivery.Config{Sinks: []delivery.Destination{sinkOf("a", &fakeSink{})}, Rand: rand.New(constant(0))}
	}
	for name, spoil := range map[string]func(*delivery.Config){
		"no rand":          func(c *delivery.Config) { c.Rand = nil },
		"negative batch":   func(c *delivery.Config) { c.Batch = -1 },
		"negative grace":   func(c *delivery.Config) { c.Grace = -1 },
		"send above lease": func(c *delivery.Config) { c.SendTimeout, c.Lease = time.Minute, time.Minute },
		"two of a name":    func(c *delivery.Config) { c.Sinks = append(c.Sinks, c.Sinks[0]) },
		"no name":          func(c *delivery.Config) { c.Sinks[0].Name = "" },
		"no sink":          func(c *delivery.Config) { c.Sinks[0].Sink = nil },
		"negative age":     func(c *delivery.Config) { c.Sinks[0].MaxAge = -1 },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := delivery.New(cfg, newQueue()); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := delivery.New(good(), newQueue()); err != nil {
		t.Error(err)
	}
	if delivery.DefaultSendTimeout >= delivery.DefaultLease {
		t.Error("no time is left to settle after a send that timed out")
	}
}

func TestANewDeliveryGoesOnCounting(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		_, err := delivery.New(delivery.Config{
			Sinks: []delivery.Destination{sinkOf("a", &fakeSink{})}, Rand: rand.New(constant(0)), Registerer: registry,
		}, newQueue())
		if err != nil {
			t.Fatal(err)
		}
	}
	other := prometheus.NewRegistry()
	other.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "graphsubd_deliveries_total", Help: "Another."}))
	if _, err := delivery.New(delivery.Config{Rand: rand.New(constant(0)), Registerer: other}, newQueue()); err == nil {
		t.Error("a foreign metric of the same name is accepted")
	}
}
