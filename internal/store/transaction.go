package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
)

// transaction is what a job writes by. Its statements are prepared once for
// each connection.
type transaction struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	// hooks run in the writer once the transaction is durable, in order.
	hooks []func()
	// appended is what this transaction adds to the backlog so far.
	appended count
}

// afterCommit has f run in the writer when the transaction is durable.
func (t *transaction) afterCommit(f func()) { t.hooks = append(t.hooks, f) }

func (t *transaction) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := t.statements[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, unavailable("prepare statement", err)
	}
	t.statements[query] = s
	return s, nil
}

// exec gives the number of rows that changed.
func (t *transaction) exec(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, unavailable("write", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, unavailable("write", err)
	}
	return n, nil
}

// query calls scan for each row; scan must not use the transaction.
func (t *transaction) query(ctx context.Context, query string, scan func(*sql.Rows) error, args ...any) error {
	s, err := t.statement(ctx, query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	return each(rows, err, scan)
}

// row scans the one row of a query; found is false when there is none.
func (t *transaction) row(ctx context.Context, query string, args []any, into ...any) (found bool, err error) {
	err = t.query(ctx, query, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	}, args...)
	return found, err
}

// queryIn is query for a list in place of "(?)".
func (t *transaction) queryIn(ctx context.Context, query string, list []any, scan func(*sql.Rows) error) error {
	for piece := range pieces(list, 1) {
		if err := t.query(ctx, expand(query, len(piece)), scan, piece...); err != nil {
			return err
		}
	}
	return nil
}

// execIn is exec for a list in place of "(?)", behind the other arguments.
func (t *transaction) execIn(ctx context.Context, query string, list []any, before ...any) error {
	for piece := range pieces(list, 1) {
		if _, err := t.exec(ctx, expand(query, len(piece)), slices.Concat(before, piece)...); err != nil {
			return err
		}
	}
	return nil
}

// insert writes rows of width values each, in place of "(?)".
func (t *transaction) insert(ctx context.Context, query string, width int, values []any) error {
	for piece := range pieces(values, width) {
		if _, err := t.exec(ctx, expandRows(query, tuple(width), len(piece)/width), piece...); err != nil {
			return err
		}
	}
	return nil
}

// pieces cuts values into pieces of 64, 8 or 1 rows, so that only three
// statements have to be prepared for each text.
func pieces(values []any, width int) func(yield func([]any) bool) {
	return func(yield func([]any) bool) {
		for len(values) > 0 {
			size := width
			for _, rows := range []int{64, 8} {
				if len(values) >= rows*width {
					size = rows * width
					break
				}
			}
			if !yield(values[:size:size]) {
				return
			}
			values = values[size:]
		}
	}
}

// tuple gives n parameters.
func tuple(n int) string {
	return "(" + strings.Join(slices.Repeat([]string{"?"}, n), ", ") + ")"
}

func expand(query string, n int) string { return strings.Replace(query, "(?)", tuple(n), 1) }

func expandRows(query, row string, n int) string {
	return strings.Replace(query, "(?)", strings.Join(slices.Repeat([]string{row}, n), ", "), 1)
}

// each reads all rows and closes them.
func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return unavailable("read", err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return unavailable("read", errors.Join(err, rows.Close()))
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return unavailable("read", err)
	}
	return nil
}
