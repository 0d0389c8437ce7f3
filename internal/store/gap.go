package store

import (
	"context"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Gaps gives the gaps of a name, of all when it is "", the oldest first.
func (s *Store) Gaps(ctx context.Context, name string) ([]graph.Gap, error) {
	var gaps []graph.Gap
	err := s.reader.query(ctx, `SELECT name, "from", "to", cause FROM gap
		WHERE ? IN ('', name) ORDER BY "from", name, cause`, func(rows cursor) error {
		var gap graph.Gap
		var from, to int64
		err := rows.Scan(&gap.Name, &from, &to, &gap.Cause)
		gap.From, gap.To = instant(from), instant(to)
		gaps = append(gaps, gap)
		return err
	}, name)
	return gaps, err
}

// putGaps opens and closes gaps. Name, from and cause say which gap it is, so
// that a step that is stored twice makes one; to close one that was never
// opened stores it closed.
func (s *Store) putGaps(ctx context.Context, t *transaction, opened, closed *graph.Gap) error {
	if opened != nil {
		n, err := t.exec(ctx, `INSERT INTO gap (name, "from", "to", cause, state, recovered_at, recovered_by)
			VALUES (?, ?, 0, ?, 'open', 0, '') ON CONFLICT (name, "from", cause) DO NOTHING`,
			opened.Name, micros(opened.From), string(opened.Cause))
		if err != nil {
			return err
		}
		s.countGaps(t, opened.Cause, n)
	}
	if closed == nil {
		return nil
	}
	changed, err := t.exec(ctx, `UPDATE gap SET "to" = ?, state = 'closed' WHERE name = ? AND "from" = ? AND cause = ?`,
		micros(closed.To), closed.Name, micros(closed.From), string(closed.Cause))
	if err != nil || changed > 0 {
		return err
	}
	n, err := t.exec(ctx, `INSERT INTO gap (name, "from", "to", cause, state, recovered_at, recovered_by)
		VALUES (?, ?, ?, ?, 'closed', 0, '')`,
		closed.Name, micros(closed.From), micros(closed.To), string(closed.Cause))
	if err != nil {
		return err
	}
	s.countGaps(t, closed.Cause, n)
	return nil
}

func (s *Store) countGaps(t *transaction, cause graph.GapCause, n int64) {
	t.afterCommit(func() { s.metrics.gaps.WithLabelValues(string(cause)).Add(float64(n)) })
}
