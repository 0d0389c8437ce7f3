package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// Records gives all records, by name and gen.
func (s *Store) Records(ctx context.Context) ([]graph.Record, error) {
	return s.records(ctx, `ORDER BY name, gen`)
}

// RecordsOf gives the records of a name, by gen.
func (s *Store) RecordsOf(ctx context.Context, name string) ([]graph.Record, error) {
	return s.records(ctx, `WHERE name = ? ORDER BY gen`, name)
}

func (s *Store) records(ctx context.Context, which string, args ...any) ([]graph.Record, error) {
	var records []graph.Record
	err := s.reader.query(ctx, `SELECT name, gen, id, tenant, resource, state, reason, detail,
		created_at, granted_at, expires_at, renew_at, attempt, next_at, ambiguous, held, lost_at, lost_cause, term
		FROM subscription `+which, func(rows cursor) error {
		var r graph.Record
		var createdAt, grantedAt, expiresAt, renewAt, nextAt, lostAt int64
		err := rows.Scan(&r.Name, &r.Gen, &r.ID, &r.Tenant, &r.Resource, &r.State, &r.Reason, &r.Detail,
			&createdAt, &grantedAt, &expiresAt, &renewAt, &r.Attempt, &nextAt, &r.Ambiguous, &r.Held, &lostAt, &r.LostCause, &r.Term)
		r.CreatedAt, r.GrantedAt, r.ExpiresAt = instant(createdAt), instant(grantedAt), instant(expiresAt)
		r.RenewAt, r.NextAt, r.LostAt = instant(renewAt), instant(nextAt), instant(lostAt)
		records = append(records, r)
		return err
	}, args...)
	return records, err
}

// Save stores one step of the renewal in one transaction: the record or its
// end, the id history, gaps, and the events for the sinks. A subscription id
// that becomes known lets go of the items of its name that were held.
func (s *Store) Save(ctx context.Context, term int64, change graph.Change) error {
	return s.lead(ctx, term, "save record", func(ctx context.Context, t *transaction) error {
		now := t.now()
		record := change.Record
		record.Term = term
		formerID, err := s.putRecord(ctx, t, &record, change.Forget)
		if err != nil {
			return err
		}
		if change.Forget {
			record.ID = ""
		}
		if err := s.putID(ctx, t, record.Key(), formerID, strings.ToLower(record.ID), now); err != nil {
			return err
		}
		if err := s.putGaps(ctx, t, change.Opened, change.Closed); err != nil {
			return err
		}
		for i := range change.Events {
			if err := s.insertEvent(ctx, t, record.Gen, &change.Events[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// putRecord gives the id that the record had before, "" when it had none.
func (s *Store) putRecord(ctx context.Context, t *transaction, r *graph.Record, forget bool) (formerID string, err error) {
	if _, err := t.row(ctx, `SELECT id FROM subscription WHERE name = ? AND gen = ?`,
		[]any{r.Name, r.Gen}, &formerID); err != nil {
		return "", err
	}
	formerID = strings.ToLower(formerID)
	if forget {
		_, err = t.exec(ctx, `DELETE FROM subscription WHERE name = ? AND gen = ?`, r.Name, r.Gen)
		return formerID, err
	}
	_, err = t.exec(ctx, `INSERT INTO subscription (name, gen, id, tenant, resource, state, reason, detail,
		created_at, granted_at, expires_at, renew_at, attempt, next_at, ambiguous, held, lost_at, lost_cause, term)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (name, gen) DO UPDATE SET id = excluded.id, tenant = excluded.tenant,
		resource = excluded.resource, state = excluded.state, reason = excluded.reason, detail = excluded.detail,
		created_at = excluded.created_at, granted_at = excluded.granted_at, expires_at = excluded.expires_at,
		renew_at = excluded.renew_at, attempt = excluded.attempt, next_at = excluded.next_at,
		ambiguous = excluded.ambiguous, held = excluded.held, lost_at = excluded.lost_at, lost_cause = excluded.lost_cause,
		term = excluded.term`,
		r.Name, r.Gen, r.ID, r.Tenant, r.Resource, string(r.State), string(r.Reason), r.Detail,
		micros(r.CreatedAt), micros(r.GrantedAt), micros(r.ExpiresAt), micros(r.RenewAt), r.Attempt,
		micros(r.NextAt), r.Ambiguous, r.Held, micros(r.LostAt), string(r.LostCause), r.Term)
	return formerID, err
}

// putID keeps the history: items of a former id are still forwarded, since
// Graph goes on trying them after a recreation.
func (s *Store) putID(ctx context.Context, t *transaction, key graph.Key, former, current string, now time.Time) error {
	if former == current {
		return nil
	}
	t.afterCommit(s.router.forget)
	if former != "" {
		if _, err := t.exec(ctx, `UPDATE subscription_id SET "to" = ? WHERE id = ? AND "to" = 0`,
			micros(now), former); err != nil {
			return err
		}
	}
	if current == "" {
		return nil
	}
	// A router that has not seen the id must not hold an item of it behind our
	// back: it ends before, and its successor sees the id.
	if _, err := s.engine.enterRouter(ctx, t, true); err != nil {
		return err
	}
	urlGen, _, _ := strings.Cut(key.Gen, graph.TwinMark)
	if _, err := t.exec(ctx, `INSERT INTO subscription_id (id, name, gen, "from", "to") VALUES (?, ?, ?, ?, 0)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, gen = excluded.gen, "to" = 0`,
		current, key.Name, urlGen, micros(now)); err != nil {
		return err
	}
	return s.releaseHeld(ctx, t, key.Name)
}

// releaseHeld lets the router look again at what was held of a name.
func (s *Store) releaseHeld(ctx context.Context, t *transaction, name string) error {
	var held count
	if _, err := t.row(ctx, `SELECT count(*), coalesce(sum(length(item)), 0) FROM notification
		WHERE state = 'held' AND name = ?`, []any{name}, &held.rows, &held.bytes); err != nil || held.rows == 0 {
		return err
	}
	t.afterCommit(func() {
		s.tally.addRows(stateHeld, -held.rows, -held.bytes)
		s.tally.addRows(stateNew, held.rows, held.bytes)
		token(s.arrived)
	})
	_, err := t.exec(ctx, `UPDATE notification SET state = 'new' WHERE state = 'held' AND name = ?`, name)
	return err
}

// eventRow is an operational event as a row. Its evidence is all that it says:
// the leader stores a change again when it does not know whether a commit took
// place, and the event of both is one.
func eventRow(gen string, event *graph.Event) (notification.Row, error) {
	item, err := json.Marshal(event)
	if err != nil {
		return notification.Row{}, fmt.Errorf("event %s: %w", event.Type, err)
	}
	return notification.Row{
		Address:        notification.Address{Name: event.Name, Gen: gen},
		SubscriptionID: event.ID,
		TenantID:       event.TenantID,
		ReceivedAt:     event.At,
		Kind:           notification.KindOperation,
		Origin:         notification.OriginGraphsubd,
		Type:           string(event.Type),
		Item:           item,
		Evidence:       notification.EvidenceOfEvent(string(event.Type), event.At, item),
	}, nil
}
