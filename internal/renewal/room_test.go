package renewal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// TestWriteFitsIntoTheLease holds each write to its room: it waits while too
// little is left of leadership, and once sent its context ends 5 s before
// leadership may.
func TestWriteFitsIntoTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		operation graph.Operation
		needs     time.Duration
	}{
		"create": {graph.OperationCreate, 25 * time.Second},
		"renew":  {graph.OperationRenew, 25 * time.Second},
		"delete": {graph.OperationDelete, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newFakeGraph(week)
				w := newWorld(t, g, newFakeStore(), wish("a"))
				var bound time.Duration
				g.answer(func(ctx context.Context, op graph.Operation, _ string) error {
					if deadline, ok := ctx.Deadline(); ok && op == test.operation {
						bound = time.Until(deadline)
					}
					return nil
				})
				if test.operation != graph.OperationCreate {
					w.lead()
					time.Sleep(time.Hour)
				}
				w.left.Store(int64(test.needs - time.Millisecond))
				switch test.operation {
				case graph.OperationCreate:
					w.lead()
					time.Sleep(time.Hour)
				case graph.OperationRenew:
					time.Sleep(6 * 24 * time.Hour)
				default:
					w.want()
					time.Sleep(time.Hour)
				}
				if n := g.count(string(test.operation)); n != 0 {
					t.Errorf("sent %d times with too little left", n)
				}
				w.left.Store(int64(58 * time.Second))
				time.Sleep(2 * time.Second)
				if n := g.count(string(test.operation)); n != 1 {
					t.Errorf("sent %d times with enough left", n)
				}
				// A create has 40 s of its own, and gets them.
				if bound != 53*time.Second {
					t.Errorf("may take %v", bound)
				}
				if err := w.stop(nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestWriteThatHangsEndsBeforeTheLease has a create that is never answered.
func TestWriteThatHangsEndsBeforeTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.left.Store(int64(30 * time.Second))
		took := make(chan time.Duration, 10)
		began := make(chan struct{}, 10)
		g.answer(func(ctx context.Context, op graph.Operation, _ string) error {
			if op != graph.OperationCreate {
				return nil
			}
			began <- struct{}{}
			sent := time.Now()
			<-ctx.Done()
			took <- time.Since(sent)
			return &graph.Error{Operation: op, Err: context.Cause(ctx)}
		})
		w.lead()
		<-began
		w.left.Store(0)
		if d := <-took; d != 25*time.Second {
			t.Errorf("ended after %v with 30s left", d)
		}
		time.Sleep(time.Second)
		if r := s.record(t, "a", "g"); r.Reason != graph.ReasonLeaseLost || !r.Ambiguous {
			t.Errorf("record %+v", r)
		}
		if err := w.stop(graph.ErrLeaseLost); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowStoreLeavesNoRoom has the lease run down while the store takes the
// announcement of a create. The create is not sent, and known not to be.
func TestSlowStoreLeavesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		s.setOnSave(func() { w.left.Store(int64(time.Second)) })
		w.lead()
		time.Sleep(time.Minute)
		if r := s.record(t, "a", "g"); r.Reason != graph.ReasonLeaseLost || r.Ambiguous || g.count("create") != 0 {
			t.Errorf("%d creates, record %+v", g.count("create"), r)
		}
		s.setOnSave(nil)
		w.left.Store(int64(time.Minute))
		time.Sleep(time.Hour)
		if g.count("create") != 1 || g.count("list") > 1 {
			t.Errorf("calls %v", g.calls)
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}
