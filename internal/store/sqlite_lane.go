package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a lane waits before it may go before its betters, once
// between two of their transactions. Receiving wins under overload, but the
// leader's writes and the router must not stand still.
func (l lane) patience() time.Duration {
	return [lanes]time.Duration{
		laneLeader: 10 * time.Millisecond, laneSink: 50 * time.Millisecond,
		laneRouter: 50 * time.Millisecond, laneRetention: time.Second,
	}[l]
}

// returning is how long the writer waits for appends after one, while nothing
// but what may lag waits: the callers that a commit released come back within
// it, and would otherwise find the writer at a long step of the router.
const returning = 2 * time.Millisecond

// shared says whether jobs of a lane share a transaction, and so a sync: where
// they are small and many.
func (l lane) shared() bool { return l == laneAppend || l == laneSink }

// job is one write. Only the writer touches it between its queueing and the
// send on done, but for abandoned.
type job struct {
	run    func(ctx context.Context, t *transaction) error
	queued time.Time
	err    error
	done   chan error // capacity 1
	// abandoned says that the caller has gone, so that a job that waits need
	// not run.
	abandoned atomic.Bool
}

// queue is where jobs wait for the writer.
type queue struct {
	wake chan struct{} // capacity 1

	mu       sync.Mutex
	waiting  [lanes][]*job // guarded by mu
	closed   bool          // guarded by mu
	favoured bool          // guarded by mu: the last lane was chosen for its patience
	appended time.Time     // guarded by mu: when appends last had a turn
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// put is false when the queue is closed.
func (q *queue) put(l lane, j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting[l] = append(q.waiting[l], j)
	token(q.wake)
	return true
}

// close lets no more jobs in; those that wait are still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	token(q.wake)
}

// lane waits for a job and says in which lane the next transaction is; ok is
// false when the queue is closed and empty.
func (q *queue) lane() (l lane, ok bool) {
	for {
		l, ok, closed := q.choose(time.Now())
		if ok || closed {
			return l, ok
		}
		q.sleep()
	}
}

// sleep waits until something is queued, or until what is may have its turn.
func (q *queue) sleep() {
	q.mu.Lock()
	lagging := len(q.waiting[laneRouter])+len(q.waiting[laneRetention]) > 0
	q.mu.Unlock()
	if !lagging {
		<-q.wake
		return
	}
	turn := time.NewTimer(returning)
	defer turn.Stop()
	select {
	case <-q.wake:
	case <-turn.C:
	}
}

func (q *queue) choose(now time.Time) (chosen lane, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, overdue := lanes, lanes
	for l := range lanes {
		if len(q.waiting[l]) == 0 {
			continue
		}
		if first == lanes {
			first = l
			continue
		}
		head := q.waiting[l][0].queued
		if now.Sub(head) > l.patience() && (overdue == lanes || head.Before(q.waiting[overdue][0].queued)) {
			overdue = l
		}
	}
	if first == lanes {
		return 0, false, q.closed
	}
	if first >= laneRouter && !q.closed && now.Sub(q.appended) < returning && now.Sub(q.waiting[first][0].queued) < first.patience() {
		return 0, false, false
	}
	q.favoured = overdue != lanes && !q.favoured
	if q.favoured {
		return overdue, true, q.closed
	}
	if first == laneAppend {
		q.appended = now
	}
	return first, true, q.closed
}

// take gives the next job of a lane, nil when none waits.
func (q *queue) take(l lane) *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting[l]) > 0 {
		j := q.waiting[l][0]
		q.waiting[l][0] = nil
		q.waiting[l] = q.waiting[l][1:]
		if !j.abandoned.Load() {
			return j
		}
	}
	return nil
}
