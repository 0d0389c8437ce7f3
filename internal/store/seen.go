package store

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// evidenceSet says of keys that they were seen.
type evidenceSet map[notification.EvidenceKey]bool

// lookSeen asks the table for keys of what was routed within the window.
func lookSeen(ctx context.Context, t *transaction, keys []notification.EvidenceKey, now time.Time) (evidenceSet, error) {
	list := make([]any, len(keys))
	for i := range keys {
		list[i] = keys[i][:]
	}
	seen := evidenceSet{}
	err := t.queryIn(ctx, `SELECT key, until FROM seen WHERE key IN (?)`, list, func(row cursor) error {
		var key []byte
		var until int64
		err := row.Scan(&key, &until)
		if len(key) == len(notification.EvidenceKey{}) && until > micros(now) {
			seen[notification.EvidenceKey(key)] = true
		}
		return err
	})
	return seen, err
}

// insertSeen puts keys into the table, each with the end of its window.
func insertSeen(ctx context.Context, t *transaction, keys []notification.EvidenceKey, until func(notification.EvidenceKey) int64) error {
	values := make([]any, 0, 2*len(keys))
	for i := range keys {
		values = append(values, keys[i][:], until(keys[i]))
	}
	return t.insert(ctx, `INSERT INTO seen (key, until) VALUES (?)
		ON CONFLICT (key) DO UPDATE SET until = excluded.until`, 2, values)
}

func (e *postgres) seen(ctx context.Context, t *transaction, keys []notification.EvidenceKey, now time.Time) (evidenceSet, error) {
	return lookSeen(ctx, t, keys, now)
}

func (e *postgres) remember(ctx context.Context, t *transaction, keys []notification.EvidenceKey, until time.Time) error {
	return insertSeen(ctx, t, keys, func(notification.EvidenceKey) int64 { return micros(until) })
}
