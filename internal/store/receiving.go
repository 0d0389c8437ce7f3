package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// NoteReceiving notes that this replica can accept notifications now. The
// caller does so again and again, well within graph.ReceivingBreak. Where
// nobody could for longer than Graph tries to deliver, that is an outage, for
// TellOutages. A full backlog is ErrFull and notes nothing: what comes then is
// refused.
//
// All is by the database's clock. When that was set back, nothing is known of
// the time in between; one that was set forward by more than Graph tries looks
// like an outage and like a machine that slept, so it is told as one.
func (s *Store) NoteReceiving(ctx context.Context) error {
	if s.full(&addition{adds: count{rows: 1}}, count{}) {
		return ErrFull
	}
	_, err := write(ctx, s.engine, laneLeader, "note receiving", func(ctx context.Context, t *transaction) (struct{}, error) {
		var sinceMicros, atMicros int64
		if _, err := t.row(ctx, s.engine.locking(`SELECT since, at FROM receiving`), nil, &sinceMicros, &atMicros); err != nil {
			return struct{}{}, err
		}
		now, since, at := t.now(), instant(sinceMicros), instant(atMicros)
		away := now.Sub(at)
		switch {
		case at.IsZero():
			since = now
		case away > s.cfg.OutageAfter:
			if err := s.putOutage(ctx, t, at, now); err != nil {
				return struct{}{}, err
			}
			since = now
		case away > graph.ReceivingBreak:
			since = now
		case since.After(now):
			since = now
		}
		_, err := t.exec(ctx, `UPDATE receiving SET since = ?, at = ?`, micros(since), micros(now))
		return struct{}{}, err
	})
	return err
}

func (s *Store) putOutage(ctx context.Context, t *transaction, from, to time.Time) error {
	_, err := t.exec(ctx, `INSERT INTO outage ("from", "to", settled_at) VALUES (?, ?, 0)
		ON CONFLICT ("from") DO UPDATE SET "to" = excluded."to", settled_at = 0`, micros(from), micros(to))
	t.afterCommit(func() { token(s.lifecycle) })
	return err
}

// Receiving says when notifications could be accepted, zero when nobody ever
// noted that.
func (s *Store) Receiving(ctx context.Context) (graph.Receiving, error) {
	var since, at int64
	_, err := s.reader.row(ctx, `SELECT since, at FROM receiving`, nil, &since, &at)
	return graph.Receiving{Since: instant(since), At: instant(at)}, err
}

// TellOutages makes a gap for each subscription that lived while nobody could
// accept notifications for longer than Graph tries, with its two events, and
// gives the gaps: up to limit of them in one transaction. Each is told once,
// so the caller goes on until none is left.
func (s *Store) TellOutages(ctx context.Context, term int64, limit int) (told []graph.Gap, err error) {
	var open bool
	if _, err := s.reader.row(ctx, `SELECT EXISTS (SELECT 1 FROM outage WHERE settled_at = 0)`, nil, &open); err != nil || !open {
		return nil, err
	}
	err = s.lead(ctx, term, "tell of outages", func(ctx context.Context, t *transaction) error {
		outages, err := openOutages(ctx, t)
		if err != nil {
			return err
		}
		for _, outage := range outages {
			torn, err := tornBy(ctx, t, outage, limit-len(told))
			if err != nil {
				return err
			}
			for i := range torn {
				if err := s.tell(ctx, t, &torn[i]); err != nil {
					return err
				}
				told = append(told, torn[i].gap)
			}
			if len(told) >= limit {
				return nil // there may be more
			}
			if _, err := t.exec(ctx, `UPDATE outage SET settled_at = ? WHERE "from" = ?`, micros(t.now()), micros(outage.From)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return told, nil
}

// openOutages gives those that were not told of, each without a name.
func openOutages(ctx context.Context, t *transaction) (outages []graph.Gap, err error) {
	err = t.query(ctx, `SELECT "from", "to" FROM outage WHERE settled_at = 0 ORDER BY "from"`, func(row cursor) error {
		var from, to int64
		err := row.Scan(&from, &to)
		outages = append(outages, graph.Gap{From: instant(from), To: instant(to), Cause: graph.GapOutage})
		return err
	})
	return outages, err
}

// tornGap is a gap, and whose it is.
type tornGap struct {
	gap  graph.Gap
	wish graph.Wish
}

// tornBy gives the gaps of an outage that were not told of: of what is wished
// for and had a subscription then, as the history of ids has it.
func tornBy(ctx context.Context, t *transaction, outage graph.Gap, limit int) (torn []tornGap, err error) {
	from, to := micros(outage.From), micros(outage.To)
	err = t.query(ctx, `SELECT w.spec, min(i."from") FROM wish w JOIN subscription_id i ON i.name = w.name
		WHERE w.deleted_at = 0 AND i."from" < ? AND (i."to" = 0 OR i."to" > ?)
		AND NOT EXISTS (SELECT 1 FROM gap g WHERE g.name = w.name AND g.cause = 'outage' AND g."to" = ?)
		GROUP BY w.name, w.spec ORDER BY w.name LIMIT ?`, func(row cursor) error {
		var spec []byte
		var born int64
		if err := row.Scan(&spec, &born); err != nil {
			return err
		}
		one := tornGap{gap: outage}
		if err := json.Unmarshal(spec, &one.wish); err != nil {
			return err
		}
		one.gap.Name, one.gap.From = one.wish.Name, instant(max(from, born))
		torn = append(torn, one)
		return nil
	}, to, from, to, limit)
	return torn, err
}

func (s *Store) tell(ctx context.Context, t *transaction, torn *tornGap) error {
	if err := s.putGaps(ctx, t, nil, &torn.gap); err != nil {
		return err
	}
	for _, event := range []graph.Event{
		torn.gap.Opening().Event(graph.EventGapOpened, t.now()), torn.gap.Event(graph.EventGapClosed, t.now()),
	} {
		event.TenantID = torn.wish.TenantID
		if err := s.insertEvent(ctx, t, torn.wish.Gen, &event); err != nil {
			return err
		}
	}
	return nil
}
