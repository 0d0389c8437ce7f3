package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/delivery"
)

// asked is the error of a destination that names a time.
func asked(wait time.Duration) error {
	return fmt.Errorf("post: %w", &delivery.RetryError{Err: errDown, RetryAfter: wait})
}

func TestRetryAfterIsAFloor(t *testing.T) {
	for _, test := range []struct {
		name     string
		err      error
		maxAge   time.Duration
		min, max time.Duration // of the first wait
	}{
		{"none", errDown, 0, 500 * time.Millisecond, 500 * time.Millisecond},
		{"longer than the ladder", asked(90 * time.Second), 0, 90 * time.Second, 90 * time.Second},
		{"shorter than the ladder", asked(time.Millisecond), 0, 500 * time.Millisecond, 500 * time.Millisecond},
		{"below zero", asked(-time.Hour), 0, 500 * time.Millisecond, 500 * time.Millisecond},
		{"beyond the cap", asked(240 * time.Hour), 0, delivery.MaxRetryAfter, delivery.MaxRetryAfter},
		{"beyond the maximum age", asked(30 * time.Minute), 10 * time.Minute, 10 * time.Minute, 10 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue, sink := newQueue(), &fakeSink{send: always(test.err)}
				e := queue.add("a", 1)[0]
				r := start(t, queue, nil, delivery.Destination{Name: "a", Sink: sink, MaxAge: test.maxAge})
				pass(2 * time.Hour)
				r.stop(t)
				if got := sink.at[1].Sub(sink.at[0]); got < test.min || got > test.max {
					t.Errorf("waited %s, want %s to %s", got, test.min, test.max)
				}
				if e.dead != (test.maxAge != 0) || e.dead && len(sink.at) != 2 {
					t.Errorf("dead %v after %d tries", e.dead, len(sink.at))
				}
			})
		})
	}
}

// TestRetryAfterConcernsItsEventAlone holds one event back and no other.
func TestRetryAfterConcernsItsEventAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		sink.send = func(_ context.Context, events []event.Event) []error {
			results := make([]error, len(events))
			for i := range events {
				if events[i].ID() == "a-2" && sink.count() == 1 {
					results[i] = asked(time.Minute)
				}
			}
			return results
		}
		entries := queue.add("a", 3)
		r := start(t, queue, nil, sinkOf("a", sink))
		pass(59 * time.Second)
		queue.add("a", 1)
		synctest.Wait()
		held := queue.look(entries[1:2])[0]
		if got := sink.ids(); got != "a-1 a-2 a-3 a-4" || held.lastError != "post: "+errDown.Error() {
			t.Errorf("sent %q, error %q", got, held.lastError)
		}
		pass(2 * time.Second)
		if got := sink.ids(); got != "a-1 a-2 a-3 a-4 a-2" || !queue.look(entries)[1].done {
			t.Errorf("sent %q", got)
		}
		r.assertCounts(t, "a", 4, 1, 0)
		r.stop(t)
	})
}

// TestRetryAfterOutlivesTheProcess stops while a destination answers: what it
// asked for holds for the next process too.
func TestRetryAfterOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newQueue()
		sink := &fakeSink{send: func(_ context.Context, events []event.Event) []error {
			time.Sleep(time.Second)
			return append(make([]error, 0, len(events)), asked(time.Minute), errDown)
		}}
		entries := queue.add("a", 2)
		r := start(t, queue, nil, sinkOf("a", sink))
		synctest.Wait()
		r.stop(t)
		now := time.Now()
		if !entries[0].next.Equal(now.Add(time.Minute)) || !entries[1].next.Equal(now) {
			t.Errorf("due at %s and %s, it is %s", entries[0].next, entries[1].next, now)
		}
	})
}

func TestNotTriedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, sink := newQueue(), &fakeSink{}
		// One event in eleven seconds, so three in the time of a call.
		sink.send = func(ctx context.Context, events []event.Event) []error {
			results := make([]error, len(events))
			for i := range events {
				if ctx.Err() != nil {
					results[i] = fmt.Errorf("webhook: %w", delivery.ErrNotTried)
					continue
				}
				time.Sleep(11 * time.Second)
			}
			return results
		}
		entries := queue.add("a", 7)
		r := start(t, queue, nil, sinkOf("a", sink))
		pass(80 * time.Second)
		for _, e := range queue.look(entries) {
			if !e.done || e.lastError != "" {
				t.Errorf("entry %+v", e)
			}
		}
		r.assertCounts(t, "a", 7, 0, 0)
		if sink.count() != 3 || r.lines("sink takes no events") != 0 {
			t.Errorf("%d calls, log %s", sink.count(), r.log)
		}
		r.stop(t)
	})
}

func TestRetryErrorIsItsError(t *testing.T) {
	t.Parallel()
	err := &delivery.RetryError{Err: errDown, RetryAfter: time.Second}
	if err.Error() != errDown.Error() || !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
}
