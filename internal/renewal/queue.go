package renewal

import (
	"container/heap"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// entry is one record in the manager's hands. The loop alone touches it.
type entry struct {
	record graph.Record
	tenant *tenant
	next   *entry // another gen of the same name
	orphan bool   // its tenant is not configured, and that was said
	// action is what was decided and waits for budget or is under way.
	action Action
	// busy says that a job for it is under way; nothing else is started.
	busy bool
	// held says that its action waits for a person, which its record says too
	// as soon as nothing else is under way; passed says that it may be done,
	// since it was let through or approved.
	held, passed bool
	// debt is what the store did not take yet, nil nearly always.
	debt *debt
	// odd says how the granted lifetime differed from what was asked for.
	odd string

	wake                          time.Time
	atAgenda, atReady, atSoonness int // places in the three heaps, -1 when in none
}

// debt is what an entry owes the store.
type debt struct {
	changes []graph.Change // oldest first
	at      time.Time      // when to offer them again
	tries   int            // failures in a row
}

// owed gives the changes that the store did not take yet.
func (e *entry) owed() []graph.Change {
	if e.debt == nil {
		return nil
	}
	return e.debt.changes
}

// owe replaces them.
func (e *entry) owe(changes []graph.Change) {
	switch {
	case len(changes) == 0:
		e.debt = nil
	case e.debt == nil:
		e.debt = &debt{changes: changes}
	default:
		e.debt.changes = changes
	}
}

// queue is a heap of entries that knows where each of them is.
type queue struct {
	entries []*entry
	before  func(a, b *entry) bool
	place   func(e *entry) *int
}

// newAgenda orders by the time at which to look again.
func newAgenda() *queue {
	return &queue{
		before: func(a, b *entry) bool { return a.wake.Before(b.wake) },
		place:  func(e *entry) *int { return &e.atAgenda },
	}
}

// newReady orders what waits for budget: what expires soonest first, then what
// was lost, then what never was.
func newReady() *queue {
	return &queue{before: moreUrgent, place: func(e *entry) *int { return &e.atReady }}
}

// newSoonness orders what lives by its expiry.
func newSoonness() *queue {
	return &queue{
		before: func(a, b *entry) bool { return a.record.ExpiresAt.Before(b.record.ExpiresAt) },
		place:  func(e *entry) *int { return &e.atSoonness },
	}
}

func moreUrgent(a, b *entry) bool {
	aLives, bLives := a.record.ID != "", b.record.ID != ""
	switch {
	case aLives != bLives:
		return aLives
	case aLives:
		return a.record.ExpiresAt.Before(b.record.ExpiresAt)
	case a.record.LostAt.IsZero() != b.record.LostAt.IsZero():
		return !a.record.LostAt.IsZero()
	}
	return a.record.NextAt.Before(b.record.NextAt)
}

// put adds an entry, or moves it to where it belongs now.
func (q *queue) put(e *entry) {
	if at := *q.place(e); at >= 0 {
		heap.Fix(q, at)
		return
	}
	heap.Push(q, e)
}

func (q *queue) remove(e *entry) {
	if at := *q.place(e); at >= 0 {
		heap.Remove(q, at)
	}
}

// first is nil when the queue is empty.
func (q *queue) first() *entry {
	if len(q.entries) == 0 {
		return nil
	}
	return q.entries[0]
}

// Len, Less, Swap, Push and Pop are for container/heap alone.
func (q *queue) Len() int { return len(q.entries) }

// Less is for container/heap.
func (q *queue) Less(i, j int) bool { return q.before(q.entries[i], q.entries[j]) }

// Swap is for container/heap.
func (q *queue) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	*q.place(q.entries[i]), *q.place(q.entries[j]) = i, j
}

// Push is for container/heap.
func (q *queue) Push(x any) {
	e, _ := x.(*entry)
	*q.place(e) = len(q.entries)
	q.entries = append(q.entries, e)
}

// Pop is for container/heap.
func (q *queue) Pop() any {
	last := len(q.entries) - 1
	e := q.entries[last]
	q.entries[last] = nil
	q.entries = q.entries[:last]
	*q.place(e) = -1
	return e
}
