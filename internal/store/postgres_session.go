package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgRunner is a connection or a pool of them.
type pgRunner interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
}

// pgSession is a session of one connection, or, for a querier, of a pool.
type pgSession struct{ runner pgRunner }

func (s pgSession) exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := s.runner.Exec(ctx, numbered(query), cleaned(args)...)
	if err != nil {
		return 0, unavailable("write", err)
	}
	return tag.RowsAffected(), nil
}

func (s pgSession) query(ctx context.Context, query string, scan func(cursor) error, args ...any) error {
	rows, err := s.runner.Query(ctx, numbered(query), cleaned(args)...)
	if err != nil {
		return unavailable("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return unavailable("read", err)
		}
	}
	if err := rows.Err(); err != nil {
		return unavailable("read", err)
	}
	return nil
}

func (s pgSession) queryIn(ctx context.Context, query string, list []any, scan func(cursor) error) error {
	if len(list) == 0 {
		return nil
	}
	return s.query(ctx, anyOf(query), scan, array(list))
}

func (s pgSession) execIn(ctx context.Context, query string, list []any, before ...any) error {
	if len(list) == 0 {
		return nil
	}
	_, err := s.exec(ctx, anyOf(query), append(slices.Clip(before), array(list))...)
	return err
}

func (s pgSession) insert(ctx context.Context, query string, width int, values []any) error {
	for piece := range pieces(values, width, 512, 64, 8, 1) {
		if _, err := s.exec(ctx, expandRows(query, tuple(width), len(piece)/width), piece...); err != nil {
			return err
		}
	}
	return nil
}

// anyOf takes the list of "IN (?)" as one argument.
func anyOf(query string) string { return strings.Replace(query, "IN (?)", "= ANY (?)", 1) }

// array gives a list of one type as a slice of it.
func array(list []any) any {
	switch list[0].(type) {
	case string:
		return typedSlice[string](list)
	case int64:
		return typedSlice[int64](list)
	case []byte:
		return typedSlice[[]byte](list)
	}
	return list
}

func typedSlice[T any](list []any) []T {
	typed := make([]T, len(list))
	for i, value := range list {
		typed[i], _ = value.(T) // array has looked at the first; lists are of one type
	}
	return typed
}

// numbered writes "?" as "$1", "$2" and so on. No text of ours has a question
// mark inside of a literal.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	n := 0
	for {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// cleaned gives the arguments with text that PostgreSQL takes.
func cleaned(args []any) []any {
	for i, arg := range args {
		switch value := arg.(type) {
		case string:
			args[i] = clean(value)
		case []string:
			for j := range value {
				value[j] = clean(value[j])
			}
		}
	}
	return args
}

// clean replaces what PostgreSQL refuses in text, which anyone may send: a
// single such item must not fail the transaction of all the others.
func clean(text string) string {
	if strings.ContainsRune(text, 0) {
		text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// begin opens a transaction and gives the database's time, in one round trip.
// A process that stops in the middle loses its locks after idleInTransaction.
func begin(ctx context.Context, conn *pgx.Conn) (now int64, err error) {
	results, err := conn.PgConn().Exec(ctx, `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
		SET LOCAL idle_in_transaction_session_timeout = '`+idleInTransaction+`';
		SELECT `+pgNow).ReadAll()
	if err != nil {
		return 0, unavailable("begin", err)
	}
	last := results[len(results)-1]
	if len(last.Rows) != 1 {
		return 0, unavailable("begin", fmt.Errorf("%d rows of time", len(last.Rows)))
	}
	if now, err = strconv.ParseInt(string(last.Rows[0][0]), 10, 64); err != nil {
		return 0, unavailable("begin", err)
	}
	return now, nil
}

// idleInTransaction is how long a transaction may wait for its client.
const idleInTransaction = "10s"

// pgNow is the database's clock as an instant, in SQL.
const pgNow = `(extract(epoch FROM statement_timestamp()) * 1000000)::bigint`
