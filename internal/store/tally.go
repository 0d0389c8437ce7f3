package store

import (
	"context"
	"sync"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// The states of a stored notification.
const (
	stateNew       = "new"       // not looked at by the router
	stateHeld      = "held"      // waits for its subscription id to become known
	stateRouted    = "routed"    // its deliveries exist
	stateDuplicate = "duplicate" // evidently the same as another
)

// The states of a delivery.
const (
	deliveryPending   = "pending"
	deliveryDelivered = "delivered"
	deliveryDead      = "dead"
)

type count struct{ rows, bytes int64 }

func (c *count) add(rows, bytes int64) { c.rows += rows; c.bytes += bytes }

// counts is how much there is.
type counts struct {
	rows       map[string]*count // of notification states new and held
	pending    map[string]*count // deliveries by sink
	dead       map[string]int64  // deliveries by sink
	quarantine map[notification.Reason]int64
	kept       int64 // bytes in the quarantine
}

func newCounts() *counts {
	return &counts{
		rows: map[string]*count{}, pending: map[string]*count{},
		dead: map[string]int64{}, quarantine: map[notification.Reason]int64{},
	}
}

// add adds other's counts. A name that it only mentions is there afterwards.
func (c *counts) add(other *counts) {
	for _, pair := range [][2]map[string]*count{{c.rows, other.rows}, {c.pending, other.pending}} {
		for name, more := range pair[1] {
			if pair[0][name] == nil {
				pair[0][name] = &count{}
			}
			pair[0][name].add(more.rows, more.bytes)
		}
	}
	for sink, n := range other.dead {
		c.dead[sink] += n
	}
	for reason, n := range other.quarantine {
		c.quarantine[reason] += n
	}
	c.kept += other.kept
}

// names gives the same names with nothing counted.
func (c *counts) names() *counts {
	empty := newCounts()
	for sink := range c.pending {
		empty.pending[sink] = &count{}
	}
	for sink := range c.dead {
		empty.dead[sink] = 0
	}
	return empty
}

// tally counts what would be slow to count in the database. It is changed when
// a transaction has become durable; anyone may read it.
//
// Where this process is the only one it is exact. Where there are others it
// knows this process's own changes at once and theirs by the next load. What is
// committed between the begin of a load and its snapshot counts twice until
// the load after it.
type tally struct {
	loading sync.Mutex // held by a load

	mu     sync.Mutex
	counts *counts // guarded by mu
	since  *counts // what changed since a load began, nil without one; guarded by mu
}

func newTally() *tally { return &tally{counts: newCounts()} }

// load counts all anew from the database.
func (t *tally) load(ctx context.Context, r *reader) error {
	t.loading.Lock()
	defer t.loading.Unlock()
	t.mu.Lock()
	t.since = newCounts()
	t.mu.Unlock()
	fresh, err := readCounts(ctx, r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		fresh.add(t.since)
		fresh.add(t.counts.names())
		t.counts = fresh
	}
	t.since = nil
	return err
}

// countUnrouted counts what waits for the router. Two states in one list would
// be sought in all rows, and not by the indexes that each of them has.
const countUnrouted = `SELECT state, count(*), CAST(coalesce(sum(length(item)), 0) AS BIGINT) FROM notification
	WHERE state = 'new' OR state = 'held' GROUP BY state`

func readCounts(ctx context.Context, r *reader) (*counts, error) {
	c := newCounts()
	sized := func(into map[string]*count) func(cursor) error {
		return func(row cursor) error {
			var name string
			var n count
			err := row.Scan(&name, &n.rows, &n.bytes)
			into[name] = &n
			return err
		}
	}
	for _, read := range []struct {
		query string
		scan  func(cursor) error
	}{
		{countUnrouted, sized(c.rows)},
		{`SELECT sink, count(*), CAST(sum(bytes) AS BIGINT) FROM delivery
			WHERE state = 'pending' GROUP BY sink`, sized(c.pending)},
		{`SELECT sink, count(*) FROM delivery WHERE state = 'dead' GROUP BY sink`, func(row cursor) error {
			var sink string
			var n int64
			err := row.Scan(&sink, &n)
			c.dead[sink] = n
			return err
		}},
		{`SELECT reason, count(*), CAST(sum(length(item)) AS BIGINT) FROM quarantine GROUP BY reason`, func(row cursor) error {
			var reason notification.Reason
			var n, bytes int64
			err := row.Scan(&reason, &n, &bytes)
			c.quarantine[reason] = n
			c.kept += bytes
			return err
		}},
	} {
		if err := r.query(ctx, read.query, read.scan); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// backlog is what still has to be delivered.
func (t *tally) backlog() count {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sum count
	for _, counted := range []map[string]*count{t.counts.rows, t.counts.pending} {
		for _, c := range counted {
			sum.add(c.rows, c.bytes)
		}
	}
	return sum
}

func (t *tally) change(delta *counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.add(delta)
	if t.since != nil {
		t.since.add(delta)
	}
}

// addRows counts notifications; only those not routed yet are of interest.
func (t *tally) addRows(state string, rows, bytes int64) {
	if state == stateNew || state == stateHeld {
		t.change(&counts{rows: map[string]*count{state: {rows, bytes}}})
	}
}

func (t *tally) addPending(sink string, rows, bytes int64) {
	t.change(&counts{pending: map[string]*count{sink: {rows, bytes}}})
}

func (t *tally) addDead(sink string, n int64) { t.change(&counts{dead: map[string]int64{sink: n}}) }

func (t *tally) addQuarantine(reason notification.Reason, rows, bytes int64) {
	t.change(&counts{quarantine: map[notification.Reason]int64{reason: rows}, kept: bytes})
}

// quarantined is how much is kept there.
func (t *tally) quarantined() count {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := count{bytes: t.counts.kept}
	for _, n := range t.counts.quarantine {
		sum.rows += n
	}
	return sum
}

// unrouted is how many rows are in a state that the router has yet to end.
func (t *tally) unrouted(state string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.counts.rows[state]; c != nil {
		return max(c.rows, 0)
	}
	return 0
}

func (t *tally) pendingRows() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make(map[string]int64, len(t.counts.pending))
	for sink, c := range t.counts.pending {
		rows[sink] = max(c.rows, 0)
	}
	return rows
}

func (t *tally) deadRows() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return notNegative(t.counts.dead)
}

func (t *tally) quarantineRows() map[notification.Reason]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return notNegative(t.counts.quarantine)
}

func notNegative[K comparable](from map[K]int64) map[K]int64 {
	rows := make(map[K]int64, len(from))
	for key, n := range from {
		rows[key] = max(n, 0)
	}
	return rows
}
