package store

import (
	"context"
	"slices"
	"strings"
	"time"
)

// cursor is the row that a query has come to.
type cursor interface{ Scan(into ...any) error }

// querier reads. It calls scan for each row; scan must not use the database.
type querier interface {
	query(ctx context.Context, query string, scan func(cursor) error, args ...any) error
}

// session runs statements inside of a transaction. Arguments stand for "?"; a
// list stands for "(?)", as in "IN (?)" or "VALUES (?)".
type session interface {
	querier
	// exec gives the number of rows that changed.
	exec(ctx context.Context, query string, args ...any) (int64, error)
	// queryIn is query for a list behind "IN". It may go in several queries.
	queryIn(ctx context.Context, query string, list []any, scan func(cursor) error) error
	// execIn is exec for a list behind "IN", after the other arguments.
	execIn(ctx context.Context, query string, list []any, before ...any) error
	// insert writes rows of width values each.
	insert(ctx context.Context, query string, width int, values []any) error
}

// transaction is what a write goes by.
type transaction struct {
	session
	// now is the database's clock, by which all deadlines are.
	now func() time.Time
	// hooks run once the transaction is durable, in order.
	hooks []func()
	// appended is what this transaction adds to the backlog so far.
	appended count
}

// afterCommit has f run when the transaction is durable.
func (t *transaction) afterCommit(f func()) { t.hooks = append(t.hooks, f) }

// row scans the one row of a query; found is false when there is none.
func (t *transaction) row(ctx context.Context, query string, args []any, into ...any) (found bool, err error) {
	return oneRow(ctx, t, query, args, into)
}

// reader reads outside of transactions. It is safe for concurrent use.
type reader struct{ querier }

// row scans the one row of a query; found is false when there is none.
func (r *reader) row(ctx context.Context, query string, args []any, into ...any) (found bool, err error) {
	return oneRow(ctx, r, query, args, into)
}

func oneRow(ctx context.Context, q querier, query string, args, into []any) (found bool, err error) {
	err = q.query(ctx, query, func(row cursor) error {
		found = true
		return row.Scan(into...)
	}, args...)
	return found, err
}

// pieces cuts rows of width values into pieces of few sizes, the largest
// first, so that few texts of statements come about. The last size is 1.
func pieces(values []any, width int, sizes ...int) func(yield func([]any) bool) {
	return func(yield func([]any) bool) {
		for len(values) > 0 {
			fits := slices.IndexFunc(sizes, func(rows int) bool { return len(values) >= rows*width })
			size := sizes[fits] * width
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
