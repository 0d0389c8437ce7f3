package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// flushTimeout bounds one group's transaction.
const flushTimeout = 10 * time.Second

// request is an addition that waits for a flusher.
type request struct {
	*addition
	done chan error // capacity 1
	// abandoned says that the caller has gone, so that one that waits need not
	// be stored.
	abandoned atomic.Bool
}

// groups is where additions wait. A flusher takes all that wait, up to a bound:
// while one group is synced the next one gathers.
type groups struct {
	mu       sync.Mutex
	some     *sync.Cond
	waiting  []*request // guarded by mu
	admitted count      // what waits or is being stored; guarded by mu
	closed   bool       // guarded by mu
}

func newGroups() *groups {
	g := &groups{}
	g.some = sync.NewCond(&g.mu)
	return g
}

// put lets a request wait if there is room.
func (g *groups) put(r *request, full func(*addition, count) bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return unavailable("write", errClosed)
	case full(r.addition, g.admitted):
		return ErrFull
	}
	g.admitted.add(r.adds.rows, r.adds.bytes)
	g.waiting = append(g.waiting, r)
	g.some.Signal()
	return nil
}

// take waits for requests; it gives none when the queue is closed and empty.
func (g *groups) take() []*request {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) == 0 && !g.closed {
		g.some.Wait()
	}
	n, rows, bytes := 0, 0, int64(0)
	for n < len(g.waiting) && rows < groupRows && bytes < groupBytes {
		rows += len(g.waiting[n].rows)
		bytes += g.waiting[n].adds.bytes
		n++
	}
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	if len(g.waiting) > 0 {
		g.some.Signal()
	}
	return group
}

// answer ends a request.
func (g *groups) answer(r *request, err error) {
	g.mu.Lock()
	g.admitted.add(-r.adds.rows, -r.adds.bytes)
	g.mu.Unlock()
	r.done <- err
}

func (g *groups) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.some.Broadcast()
}

func (e *postgres) append(ctx context.Context, a *addition) error {
	if err := e.fit(); err != nil {
		return err
	}
	r := &request{addition: a, done: make(chan error, 1)}
	if err := e.groups.put(r, e.store.full); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		r.abandoned.Store(true)
		return fmt.Errorf("waiting for the database: %w: %w", graph.ErrStoreUnavailable, context.Cause(ctx))
	}
}

// flushAll is the loop of a flusher.
func (e *postgres) flushAll(ctx context.Context) {
	for {
		group := e.groups.take()
		if len(group) == 0 {
			return
		}
		live := group[:0]
		for _, r := range group {
			if r.abandoned.Load() {
				e.groups.answer(r, nil)
				continue
			}
			live = append(live, r)
		}
		if len(live) > 0 {
			e.flush(ctx, live)
		}
		// Callers that were released come back at about the same time; letting
		// them run once saves them a sync each.
		runtime.Gosched()
	}
}

// flush stores a group and answers it. Rows that the database refuses for what
// they hold fail alone.
func (e *postgres) flush(ctx context.Context, group []*request) {
	err := e.commit(ctx, group)
	if err != nil && len(group) > 1 && isRefusal(err) {
		for i := range group {
			e.flush(ctx, group[i:i+1])
		}
		return
	}
	for _, r := range group {
		if err == nil {
			e.store.added(r.addition)
		}
		e.groups.answer(r, err)
	}
}

// isRefusal says that the statement was at fault and not the server.
func isRefusal(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23"))
}

const pgInsertNotification = `INSERT INTO notification
	(id, state, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, post_id, item)
	SELECT id, 'new', name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, '', item
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
		$9::text[], $10::bytea[], $11::bytea[])
	AS r(id, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, item)`

const pgInsertQuarantine = `INSERT INTO quarantine
	(id, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, post_id, item, reason, quarantined_at)
	SELECT id, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, '', item, reason, ` + pgNow + `
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
		$9::text[], $10::bytea[], $11::bytea[], $12::text[])
	AS r(id, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, item, reason)`

// columns are rows as arrays, one for each column.
type columns struct {
	texts          [9][]string // id, name, gen, subscription, tenant, kind, origin, type, reason
	received       []int64
	evidence, item [][]byte
}

// add takes a row. Where the clocks differ, its time becomes the database's, by
// which it is routed.
func (c *columns) add(id string, row *notification.Row, now time.Time, ahead time.Duration) {
	for i, text := range []string{
		id, row.Address.Name, row.Address.Gen, row.SubscriptionID, row.TenantID,
		string(row.Kind), string(row.Origin), row.Type, string(row.Reason),
	} {
		c.texts[i] = append(c.texts[i], text)
	}
	received := now
	switch {
	case row.ReceivedAt.IsZero():
	case ahead.Abs() > maxSkew:
		received = row.ReceivedAt.Add(ahead)
	default:
		received = row.ReceivedAt
	}
	c.received = append(c.received, micros(received))
	c.evidence, c.item = append(c.evidence, packEvidence(row.Evidence)), append(c.item, blob(row.Item))
}

func (c *columns) arguments() []any {
	t := c.texts
	return cleaned([]any{t[0], t[1], t[2], t[3], t[4], c.received, t[5], t[6], t[7], c.evidence, c.item})
}

// commit stores a group in one transaction, one round trip and one sync: the
// statements of a batch are one transaction, which has ended when its results
// have been read.
func (e *postgres) commit(ctx context.Context, group []*request) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	start, ahead := time.Now(), e.ahead()
	now := start.Add(ahead)
	var accepted, quarantined columns
	for _, r := range group {
		for i := range r.rows {
			id, err := e.store.ids.next(now)
			if err != nil {
				return unavailable("append", err)
			}
			into := &accepted
			if r.rows[i].Reason != "" {
				into = &quarantined
			}
			into.add(id, &r.rows[i], now, ahead)
		}
	}
	batch := &pgx.Batch{}
	if len(accepted.item) > 0 {
		batch.Queue(pgInsertNotification, accepted.arguments()...)
	}
	if len(quarantined.item) > 0 {
		batch.Queue(pgInsertQuarantine, append(quarantined.arguments(), quarantined.texts[8])...)
	}
	conn, err := e.appends.Acquire(ctx)
	if err != nil {
		return unavailable("connect", err)
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return unavailable("write", err)
	}
	e.store.metrics.commit.Observe(time.Since(start).Seconds())
	return nil
}
