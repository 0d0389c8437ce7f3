package store

import (
	"slices"
	"testing"
	"time"
)

// order takes jobs as the writer would, one a transaction, and waits for
// appends where it does.
func order(q *queue, now time.Time) []lane {
	var taken []lane
	for {
		l, ok, _ := q.choose(now)
		if !ok {
			l, ok, _ = q.choose(now.Add(returning))
		}
		if !ok {
			return taken
		}
		q.take(l)
		taken = append(taken, l)
	}
}

func fill(q *queue, queued time.Time, lanes ...lane) {
	for _, l := range lanes {
		q.put(l, &job{queued: queued})
	}
}

func TestLanesGoByPriority(t *testing.T) {
	q, now := newQueue(), time.Now()
	fill(q, now, laneRetention, laneRouter, laneSink, laneLeader, laneAppend, laneAppend)
	want := []lane{laneAppend, laneAppend, laneLeader, laneSink, laneRouter, laneRetention}
	if got := order(q, now); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// What may lag lets the callers that an append released come back first, for a
// moment and no longer than its patience.
func TestAppendsComeBackFirst(t *testing.T) {
	q, now := newQueue(), time.Now()
	fill(q, now, laneAppend, laneRouter)
	for _, step := range []struct {
		after time.Duration
		want  lane
		ok    bool
	}{{0, laneAppend, true}, {returning / 2, 0, false}, {returning, laneRouter, true}} {
		l, ok, _ := q.choose(now.Add(step.after))
		if l != step.want || ok != step.ok {
			t.Errorf("after %v: lane %d, %v; want %d, %v", step.after, l, ok, step.want, step.ok)
		}
		if ok && l == laneAppend {
			q.take(l)
		}
	}
	q.choose(now.Add(time.Second))
	q.appended = now.Add(time.Second)
	if l, ok, _ := q.choose(now.Add(time.Second)); l != laneRouter || !ok {
		t.Errorf("a router without patience gets lane %d, %v", l, ok)
	}
}

// A lane that waited for too long goes between two appends, the longest
// waiting first, and never two of them in a row.
func TestLanesDoNotStarve(t *testing.T) {
	q, now := newQueue(), time.Now()
	fill(q, now.Add(-2*time.Second), laneRetention)
	fill(q, now.Add(-time.Second), laneRouter)
	fill(q, now.Add(-20*time.Millisecond), laneLeader)
	fill(q, now.Add(-time.Minute), laneAppend, laneAppend, laneAppend)
	fill(q, now, laneRouter)
	want := []lane{laneRetention, laneAppend, laneRouter, laneAppend, laneLeader, laneAppend, laneRouter}
	if got := order(q, now); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestClosedQueueGivesOutWhatWaits(t *testing.T) {
	q := newQueue()
	fill(q, time.Now(), laneAppend)
	q.close()
	if q.put(laneAppend, &job{}) {
		t.Error("a closed queue took a job")
	}
	if _, ok := q.lane(); !ok || q.take(laneAppend) == nil {
		t.Error("the job that waited is gone")
	}
	if _, ok := q.lane(); ok {
		t.Error("an empty closed queue has a job")
	}
}

func TestAbandonedJobsAreNotTaken(t *testing.T) {
	q, gone, here := newQueue(), &job{}, &job{}
	gone.abandoned.Store(true)
	q.put(laneAppend, gone)
	q.put(laneAppend, here)
	if got := q.take(laneAppend); got != here {
		t.Errorf("took %p, want %p", got, here)
	}
}
