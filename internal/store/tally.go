package store

import (
	"context"
	"database/sql"
	"maps"
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

// tally counts what would be slow to count in the database. The writer
// changes it when a transaction has become durable; anyone may read it.
type tally struct {
	mu         sync.Mutex
	rows       map[string]*count // of notification states new and held
	pending    map[string]*count // deliveries by sink
	dead       map[string]int64  // deliveries by sink
	quarantine map[notification.Reason]int64
}

func newTally() *tally {
	t := &tally{
		rows:       map[string]*count{stateNew: {}, stateHeld: {}},
		pending:    map[string]*count{},
		dead:       map[string]int64{},
		quarantine: map[notification.Reason]int64{},
	}
	for _, reason := range notification.Reasons() {
		t.quarantine[reason] = 0
	}
	return t
}

// load counts all anew from the database.
func (t *tally) load(ctx context.Context, r *reader) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := r.query(ctx, `SELECT state, count(*), coalesce(sum(length(item)), 0) FROM notification
		WHERE state IN ('new', 'held') GROUP BY state`, func(rows *sql.Rows) error {
		var state string
		var c count
		err := rows.Scan(&state, &c.rows, &c.bytes)
		t.rows[state] = &c
		return err
	}); err != nil {
		return err
	}
	if err := r.query(ctx, `SELECT sink, count(*), sum(bytes) FROM delivery
		WHERE state = 'pending' GROUP BY sink`, func(rows *sql.Rows) error {
		var sink string
		var c count
		err := rows.Scan(&sink, &c.rows, &c.bytes)
		t.pending[sink] = &c
		return err
	}); err != nil {
		return err
	}
	if err := r.query(ctx, `SELECT sink, count(*) FROM delivery WHERE state = 'dead' GROUP BY sink`,
		func(rows *sql.Rows) error {
			var sink string
			var n int64
			err := rows.Scan(&sink, &n)
			t.dead[sink] = n
			return err
		}); err != nil {
		return err
	}
	return r.query(ctx, `SELECT reason, count(*) FROM quarantine GROUP BY reason`, func(rows *sql.Rows) error {
		var reason notification.Reason
		var n int64
		err := rows.Scan(&reason, &n)
		t.quarantine[reason] = n
		return err
	})
}

// backlog is what still has to be delivered.
func (t *tally) backlog() count {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sum count
	for _, counts := range []map[string]*count{t.rows, t.pending} {
		for _, c := range counts {
			sum.add(c.rows, c.bytes)
		}
	}
	return sum
}

func (t *tally) addRows(state string, rows, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.rows[state]; c != nil {
		c.add(rows, bytes)
	}
}

func (t *tally) addPending(sink string, rows, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.pending[sink]
	if c == nil {
		c = &count{}
		t.pending[sink] = c
	}
	c.add(rows, bytes)
}

func (t *tally) addDead(sink string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead[sink] += n
}

func (t *tally) addQuarantine(reason notification.Reason, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quarantine[reason] += n
}

// unrouted is how many rows are in a state that the router has yet to end.
func (t *tally) unrouted(state string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[state].rows
}

func (t *tally) pendingRows() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make(map[string]int64, len(t.pending))
	for sink, c := range t.pending {
		rows[sink] = c.rows
	}
	return rows
}

func (t *tally) deadRows() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.dead)
}

func (t *tally) quarantineRows() map[notification.Reason]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.quarantine)
}
