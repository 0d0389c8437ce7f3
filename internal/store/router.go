package store

import (
	"context"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	// routeRows and routeBytes bound one step, during which nothing can be
	// appended.
	routeRows  = 500
	routeBytes = 8 << 20
)

const notificationColumns = `n.id, n.name, n.gen, n.subscription_id, n.tenant, n.received_at,
	n.kind, n.origin, n.type, n.evidence, n.item`

// scanNotification reads notificationColumns, and what follows them.
func scanNotification(rows cursor, n *notification.Notification, more ...any) error {
	var receivedAt int64
	var evidence []byte
	into := append([]any{
		&n.ID, &n.Address.Name, &n.Address.Gen, &n.SubscriptionID, &n.TenantID, &receivedAt,
		&n.Kind, &n.Origin, &n.Type, &evidence, &n.Item,
	}, more...)
	if err := rows.Scan(into...); err != nil {
		return err
	}
	n.ReceivedAt, n.Evidence = instant(receivedAt), unpackEvidence(evidence)
	return nil
}

// router decides on rows, in transactions that have entered it.
type router struct {
	store *Store
	// remembered belongs to the one writer of SQLite. Where other processes
	// write nothing is remembered.
	remembered lookup
	shared     bool
}

func newRouter(s *Store) *router { return &router{store: s, shared: s.cfg.Postgres != nil} }

// forget drops what was read; every write of wishes or ids calls it.
func (r *router) forget() {
	if !r.shared {
		r.remembered.forget()
	}
}

// lookup is what a step may go by.
func (r *router) lookup() *lookup {
	if r.shared {
		return &lookup{}
	}
	return &r.remembered
}

// Route takes up to limit new rows, and rows that were held for too long, and
// ends their routing in one transaction. It gives how many it took.
func (s *Store) Route(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	return write(ctx, s.engine, laneRouter, "route", func(ctx context.Context, t *transaction) (int, error) {
		entered, err := s.engine.enterRouter(ctx, t, false)
		if err != nil || !entered {
			return 0, err
		}
		return s.router.step(ctx, t, limit, t.now())
	})
}

// routeAll is the loop of the router.
func (s *Store) routeAll(ctx context.Context) {
	cause := graph.Reason("")
	for untilNext(ctx, s.arrived, s.cfg.PollInterval) {
		n, err := s.Route(ctx, routeRows)
		for err == nil && n > 0 && ctx.Err() == nil {
			n, err = s.Route(ctx, routeRows)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = s.refreshOldest(ctx)
		}
		cause = s.report(ctx, "routing", cause, err)
	}
}

// report logs a loop's failure when its cause is not the former one.
func (s *Store) report(ctx context.Context, loop string, former graph.Reason, err error) graph.Reason {
	reason := graph.Classify(err)
	switch {
	case reason == former || ctx.Err() != nil:
	case err != nil:
		s.cfg.Logger.ErrorContext(ctx, "store loop stalled", "loop", loop, "reason", string(reason), "error", err)
	default:
		s.cfg.Logger.InfoContext(ctx, "store loop resumed", "loop", loop)
	}
	return reason
}

func (r *router) step(ctx context.Context, t *transaction, limit int, now time.Time) (int, error) {
	rows, err := r.read(ctx, t, limit, now)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	found := r.lookup()
	if err := found.fill(ctx, t, rows, now); err != nil {
		return 0, err
	}
	var keys []notification.EvidenceKey
	for i := range rows {
		keys = append(keys, rows[i].Evidence...)
	}
	seen, err := r.store.engine.seen(ctx, t, keys, now)
	if err != nil {
		return 0, err
	}
	b := &batch{store: r.store, now: now}
	for i := range rows {
		row := &rows[i]
		known := knowledge{wish: found.wishes[row.Address.Name], owner: found.owners[row.subscription()]}
		for _, key := range row.Evidence {
			known.duplicate = known.duplicate || seen[key]
		}
		verdict := decide(now, &row.Row, known, r.store.cfg.HoldFor)
		if verdict.state == stateRouted {
			for _, key := range row.Evidence {
				seen[key] = true
			}
		}
		b.add(row, verdict, known.wish)
	}
	return len(rows), b.write(ctx, t)
}

// read gives rows in the order of storing: those held for too long first,
// then new ones.
func (r *router) read(ctx context.Context, t *transaction, limit int, now time.Time) ([]stored, error) {
	var rows []stored
	bytes := 0
	scan := func(at cursor) error {
		if bytes > routeBytes {
			return nil
		}
		var row stored
		err := scanNotification(at, &row.Notification, &row.state)
		rows, bytes = append(rows, row), bytes+len(row.Item)
		return err
	}
	if r.shared || r.store.tally.unrouted(stateHeld) > 0 {
		if err := t.query(ctx, `SELECT `+notificationColumns+`, n.state FROM notification n
			WHERE n.state = 'held' AND n.received_at <= ? ORDER BY n.received_at LIMIT ?`,
			scan, micros(now.Add(-r.store.cfg.HoldFor)), limit); err != nil {
			return nil, err
		}
	}
	err := t.query(ctx, `SELECT `+notificationColumns+`, n.state FROM notification n
		WHERE n.state = 'new' ORDER BY n.id LIMIT ?`, scan, limit-len(rows))
	return rows, err
}

// countStates counts the stored rows.
func (s *Store) countStates(ctx context.Context) (map[string]int64, error) {
	states := map[string]int64{}
	err := s.reader.query(ctx, `SELECT state, count(*) FROM notification GROUP BY state`, func(rows cursor) error {
		var state string
		var n int64
		err := rows.Scan(&state, &n)
		states[state] = n
		return err
	})
	return states, err
}

// LastNotifications gives for each name when the last change that was routed
// had arrived; a name that never got one is missing.
func (s *Store) LastNotifications(ctx context.Context) (map[string]time.Time, error) {
	return s.lastNotifications(ctx, `SELECT name, at FROM last_notification`)
}

// LastNotification is that of one name, zero when it never got one.
func (s *Store) LastNotification(ctx context.Context, name string) (time.Time, error) {
	last, err := s.lastNotifications(ctx, `SELECT name, at FROM last_notification WHERE name = ?`, name)
	return last[name], err
}

func (s *Store) lastNotifications(ctx context.Context, query string, args ...any) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	err := s.reader.query(ctx, query, func(rows cursor) error {
		var name string
		var at int64
		err := rows.Scan(&name, &at)
		last[name] = instant(at)
		return err
	}, args...)
	return last, err
}

// Owner says whom a subscription id belongs or belonged to; found is false
// for one that never was ours.
func (s *Store) Owner(ctx context.Context, subscriptionID string) (owner notification.Address, found bool, err error) {
	found, err = s.reader.row(ctx, `SELECT name, gen FROM subscription_id WHERE id = ?`,
		[]any{strings.ToLower(subscriptionID)}, &owner.Name, &owner.Gen)
	return owner, found, err
}
