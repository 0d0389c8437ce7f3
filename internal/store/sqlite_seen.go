package store

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// Keys are as random as their hash, so each that goes into a table by itself
// dirties a page of its own, which is written twice. What was seen of late is
// therefore kept in memory and written as a log, a row for each step of the
// router; the log is read once, at the start. Only what does not fit in memory
// goes to the table, in the order of the keys, so that neighbours share a page.
const (
	// generationKeys are forgotten, or moved to the table, together.
	generationKeys = 1 << 16
	// keptGenerations bound what is in memory, to about 40 MiB.
	keptGenerations = 16
	// generationsInWindow bounds how much longer than the window a key is kept
	// where few come.
	generationsInWindow = 4
)

// seenLog is what a SQLite store knows of evidence. The writer alone uses it,
// inside of its transactions.
type seenLog struct {
	window      time.Duration
	size, kept  int // of a generation, and how many of them
	loaded      bool
	generations []*generation // the oldest first; the last one grows
	moved       bool          // the table may have keys
}

// generation is a stretch of the log.
type generation struct {
	until map[notification.EvidenceKey]int64 // when each key is forgotten
	began time.Time
	row   int64 // of the log, the last one
	ends  int64 // when all are forgotten
	// rest are the keys that are not in the table yet, in order, once the move
	// has begun.
	rest   []notification.EvidenceKey
	moving bool
}

// forget has the log read again: nobody knows whether the last transaction is
// part of it.
func (l *seenLog) forget() { l.loaded, l.generations = false, nil }

func (l *seenLog) load(ctx context.Context, t *transaction) error {
	if l.loaded {
		return nil
	}
	l.generations = nil
	if err := t.query(ctx, `SELECT id, until, keys FROM seen_log ORDER BY id`, func(row cursor) error {
		var id, until int64
		var packed []byte
		err := row.Scan(&id, &until, &packed)
		l.add(id, unpackEvidence(packed), until)
		return err
	}); err != nil {
		return err
	}
	_, err := t.row(ctx, `SELECT EXISTS (SELECT 1 FROM seen)`, nil, &l.moved)
	l.loaded = err == nil
	return err
}

// add takes a row of the log into memory.
func (l *seenLog) add(id int64, keys []notification.EvidenceKey, until int64) {
	began := instant(until).Add(-l.window)
	var g *generation
	if n := len(l.generations); n > 0 {
		g = l.generations[n-1]
	}
	if g == nil || len(g.until) >= l.size || began.Sub(g.began) > l.window/generationsInWindow {
		g = &generation{until: map[notification.EvidenceKey]int64{}, began: began}
		l.generations = append(l.generations, g)
	}
	for _, key := range keys {
		g.until[key] = until
	}
	g.row, g.ends = id, max(g.ends, until)
}

// look gives the keys that are not forgotten yet.
func (l *seenLog) look(ctx context.Context, t *transaction, keys []notification.EvidenceKey, now time.Time) (evidenceSet, error) {
	if err := l.load(ctx, t); err != nil {
		return nil, err
	}
	seen := evidenceSet{}
	var unknown []notification.EvidenceKey
	for _, key := range keys {
		until, known := l.find(key)
		switch {
		case !known:
			unknown = append(unknown, key)
		case until > micros(now):
			seen[key] = true
		}
	}
	if !l.moved || len(unknown) == 0 {
		return seen, nil
	}
	older, err := lookSeen(ctx, t, unknown, now)
	maps.Copy(seen, older)
	return seen, err
}

// find gives the newest that is known of a key.
func (l *seenLog) find(key notification.EvidenceKey) (until int64, known bool) {
	for _, g := range slices.Backward(l.generations) {
		if until, known = g.until[key]; known {
			return until, true
		}
	}
	return 0, false
}

// remember writes keys to the log, and takes out of memory what is too old or
// too much.
func (l *seenLog) remember(ctx context.Context, t *transaction, keys []notification.EvidenceKey, until time.Time) error {
	if len(keys) == 0 {
		return nil
	}
	if err := l.load(ctx, t); err != nil {
		return err
	}
	if err := l.shrink(ctx, t, until.Add(-l.window), 2*len(keys)); err != nil {
		return err
	}
	var id int64
	if _, err := t.row(ctx, `INSERT INTO seen_log (until, keys) VALUES (?, ?) RETURNING id`,
		[]any{micros(until), packEvidence(keys)}, &id); err != nil {
		return err
	}
	t.afterCommit(func() { l.add(id, keys, micros(until)) })
	return nil
}

// shrink forgets the oldest generation when its window is over, and moves up to
// a number of its keys when there are too many generations: twice as many as
// come, so that memory stays bounded and no step takes long.
func (l *seenLog) shrink(ctx context.Context, t *transaction, now time.Time, most int) error {
	if len(l.generations) == 0 {
		return nil
	}
	g := l.generations[0]
	if g.ends > micros(now) {
		if len(l.generations) <= l.kept {
			return nil
		}
		if !g.moving {
			g.moving, g.rest = true, slices.SortedFunc(maps.Keys(g.until), func(a, b notification.EvidenceKey) int {
				return bytes.Compare(a[:], b[:])
			})
		}
		n := min(most, len(g.rest))
		if err := insertSeen(ctx, t, g.rest[:n], func(key notification.EvidenceKey) int64 { return g.until[key] }); err != nil {
			return err
		}
		t.afterCommit(func() { g.rest, l.moved = g.rest[n:], true })
		if n < len(g.rest) {
			return nil
		}
	}
	if _, err := t.exec(ctx, `DELETE FROM seen_log WHERE id <= ?`, g.row); err != nil {
		return err
	}
	var moved bool
	if _, err := t.row(ctx, `SELECT EXISTS (SELECT 1 FROM seen)`, nil, &moved); err != nil {
		return err
	}
	t.afterCommit(func() { l.generations, l.moved = slices.Delete(l.generations, 0, 1), moved })
	return nil
}

func (e *sqlite) seen(ctx context.Context, t *transaction, keys []notification.EvidenceKey, now time.Time) (evidenceSet, error) {
	return e.evidence.look(ctx, t, keys, now)
}

func (e *sqlite) remember(ctx context.Context, t *transaction, keys []notification.EvidenceKey, until time.Time) error {
	return e.evidence.remember(ctx, t, keys, until)
}
