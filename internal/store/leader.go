package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// NewTerm issues the next term to holder, which ends the former one.
func (s *Store) NewTerm(ctx context.Context, holder string) (int64, error) {
	return write(ctx, s.engine, laneLeader, "issue a term", func(ctx context.Context, t *transaction) (term int64, err error) {
		_, err = t.row(ctx, `UPDATE leader SET term = term + 1, holder = ?, since = ? RETURNING term`,
			[]any{holder, micros(t.now())}, &term)
		t.afterCommit(func() { s.metrics.term.Set(float64(term)) })
		return term, err
	})
}

// Leader says to whom the newest term was issued and when; the term is 0 while
// none was. Whether the holder still lives the store does not know.
func (s *Store) Leader(ctx context.Context) (holder string, term int64, since time.Time, err error) {
	var at int64
	_, err = s.reader.row(ctx, `SELECT holder, term, since FROM leader`, nil, &holder, &term, &at)
	return holder, term, instant(at), err
}

// lead runs a write of a term. It changes nothing when another term is the
// newest. The row stays locked until the write has ended, so that no newer term
// is issued between the look and the commit.
func (s *Store) lead(ctx context.Context, term int64, what string, run func(ctx context.Context, t *transaction) error) error {
	_, err := write(ctx, s.engine, laneLeader, what, func(ctx context.Context, t *transaction) (struct{}, error) {
		var newest int64
		found, err := t.row(ctx, s.engine.locking(`SELECT term FROM leader`), nil, &newest)
		if err != nil {
			return struct{}{}, err
		}
		if !found {
			return struct{}{}, unavailable("read the term", errors.New("the table leader is empty: restore the database"))
		}
		if newest != term {
			return struct{}{}, fmt.Errorf("term %d, newest %d: %w", term, newest, graph.ErrTermLost)
		}
		return struct{}{}, run(ctx, t)
	})
	return err
}

// Limits gives the lifetimes that Graph has taught us.
func (s *Store) Limits(ctx context.Context) ([]graph.LearnedLimit, error) {
	var limits []graph.LearnedLimit
	err := s.reader.query(ctx, `SELECT tenant, resource_type, lifetime, learned_at FROM tenant_limit
		ORDER BY tenant, resource_type`, func(rows cursor) error {
		var l graph.LearnedLimit
		var lifetime, learnedAt int64
		err := rows.Scan(&l.Tenant, &l.Type, &lifetime, &learnedAt)
		l.Lifetime, l.LearnedAt = time.Duration(lifetime)*time.Microsecond, instant(learnedAt)
		limits = append(limits, l)
		return err
	})
	return limits, err
}

// LearnLimit remembers the longest lifetime of a resource type in a tenant, to
// the microsecond.
func (s *Store) LearnLimit(ctx context.Context, term int64, l graph.LearnedLimit) error {
	return s.lead(ctx, term, "learn a limit", func(ctx context.Context, t *transaction) error {
		_, err := t.exec(ctx, `INSERT INTO tenant_limit (tenant, resource_type, lifetime, learned_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (tenant, resource_type) DO UPDATE SET lifetime = excluded.lifetime, learned_at = excluded.learned_at`,
			l.Tenant, l.Type, l.Lifetime.Microseconds(), micros(l.LearnedAt))
		return err
	})
}

// SigningKeys gives the fingerprints of the keys in use, in order.
func (s *Store) SigningKeys(ctx context.Context) ([]string, error) {
	var fingerprints []string
	err := s.reader.query(ctx, `SELECT fingerprint FROM signing_key ORDER BY fingerprint`, func(rows cursor) error {
		var fingerprint string
		err := rows.Scan(&fingerprint)
		fingerprints = append(fingerprints, fingerprint)
		return err
	})
	return fingerprints, err
}

// PutSigningKeys replaces the fingerprints in use.
func (s *Store) PutSigningKeys(ctx context.Context, term int64, fingerprints []string) error {
	return s.lead(ctx, term, "store signing keys", func(ctx context.Context, t *transaction) error {
		if _, err := t.exec(ctx, `DELETE FROM signing_key`); err != nil {
			return err
		}
		for _, fingerprint := range fingerprints {
			if _, err := t.exec(ctx, `INSERT INTO signing_key (fingerprint, added_at) VALUES (?, ?)
				ON CONFLICT (fingerprint) DO NOTHING`, fingerprint, micros(t.now())); err != nil {
				return err
			}
		}
		return nil
	})
}

// Lifecycle gives up to limit lifecycle items that wait for the leader, the
// oldest first.
func (s *Store) Lifecycle(ctx context.Context, limit int) ([]graph.LifecycleItem, error) {
	var items []graph.LifecycleItem
	err := s.reader.query(ctx, `SELECT id, name, gen, subscription_id, event, received_at
		FROM lifecycle ORDER BY id LIMIT ?`, func(rows cursor) error {
		var item graph.LifecycleItem
		var receivedAt int64
		err := rows.Scan(&item.ID, &item.Name, &item.Gen, &item.SubscriptionID, &item.Event, &receivedAt)
		item.ReceivedAt = instant(receivedAt)
		items = append(items, item)
		return err
	}, max(limit, 0))
	return items, err
}

// SettleLifecycle ends the waiting of items that were acted on.
func (s *Store) SettleLifecycle(ctx context.Context, term int64, ids []string) error {
	return s.lead(ctx, term, "settle lifecycle items", func(ctx context.Context, t *transaction) error {
		list := make([]any, len(ids))
		for i, id := range ids {
			list[i] = id
		}
		return t.execIn(ctx, `DELETE FROM lifecycle WHERE id IN (?)`, list)
	})
}

// LifecyclePending gives the channel that gets a token when a lifecycle item or
// a command has come, or an outage was noted; tokens are merged.
func (s *Store) LifecyclePending() <-chan struct{} { return s.lifecycle }
