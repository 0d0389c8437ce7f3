package store

import (
	"context"
	"fmt"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// PutCommand takes a command from any process, notes in the audit who asked for
// it, and gives its id. The leader carries it out.
func (s *Store) PutCommand(ctx context.Context, c graph.Command) (id string, err error) {
	return write(ctx, s.engine, laneSink, "take a command", func(ctx context.Context, t *transaction) (string, error) {
		id, err := s.ids.next(t.now())
		if err != nil {
			return "", fmt.Errorf("take a command: %w", err)
		}
		if _, err := t.exec(ctx, `INSERT INTO command (id, name, action, arguments, requested_by, requested_at, state, result, settled_at)
			VALUES (?, '', ?, ?, ?, ?, ?, '', 0)`,
			id, c.Action, c.Argument, c.By, micros(t.now()), string(graph.CommandPending)); err != nil {
			return "", err
		}
		if _, err := t.exec(ctx, `INSERT INTO audit (id, at, actor, action, subject, detail) VALUES (?, ?, ?, ?, ?, '')`,
			id, micros(t.now()), c.By, c.Action, c.Argument); err != nil {
			return "", err
		}
		t.afterCommit(func() { token(s.lifecycle) })
		return id, nil
	})
}

// commandBatch is how many commands are read at once.
const commandBatch = 100

// Commands gives the oldest of those that no leader has carried out.
func (s *Store) Commands(ctx context.Context) (list []graph.Command, err error) {
	err = s.reader.query(ctx, `SELECT id, action, arguments, requested_by FROM command WHERE state = ? ORDER BY id LIMIT ?`,
		func(row cursor) error {
			var c graph.Command
			err := row.Scan(&c.ID, &c.Action, &c.Argument, &c.By)
			list = append(list, c)
			return err
		}, string(graph.CommandPending), commandBatch)
	return list, err
}

// SettleCommand notes how a command went, also in the audit.
func (s *Store) SettleCommand(ctx context.Context, term int64, id string, state graph.CommandState, result string) error {
	return s.lead(ctx, term, "settle a command", func(ctx context.Context, t *transaction) error {
		if _, err := t.exec(ctx, `UPDATE command SET state = ?, result = ?, settled_at = ? WHERE id = ? AND state = ?`,
			string(state), result, micros(t.now()), id, string(graph.CommandPending)); err != nil {
			return err
		}
		_, err := t.exec(ctx, `UPDATE audit SET detail = ? WHERE id = ? AND detail = ''`, string(state)+": "+result, id)
		return err
	})
}

// CommandState says how far a command is; found is false for one that is not
// known, or not any more.
func (s *Store) CommandState(ctx context.Context, id string) (state graph.CommandState, result string, found bool, err error) {
	found, err = s.reader.row(ctx, `SELECT state, result FROM command WHERE id = ?`, []any{id}, &state, &result)
	return state, result, found, err
}
