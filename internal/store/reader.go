package store

import (
	"context"
	"database/sql"
)

// readers is how many reads go on at once.
const readers = 4

// reader reads by connections that cannot write. It is safe for concurrent
// use.
type reader struct{ db *sql.DB }

func newReader(path string) (*reader, error) {
	source, err := dataSource(path, "query_only(1)")
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, unavailable("open store", err)
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return &reader{db}, nil
}

// query calls scan for each row; scan must not use the store, since the
// cursor is open.
func (r *reader) query(ctx context.Context, query string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := r.db.QueryContext(ctx, query, args...)
	return each(rows, err, scan)
}

// row scans the one row of a query; found is false when there is none.
func (r *reader) row(ctx context.Context, query string, args []any, into ...any) (found bool, err error) {
	err = r.query(ctx, query, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	}, args...)
	return found, err
}

func (r *reader) close() error {
	if err := r.db.Close(); err != nil {
		return unavailable("close store", err)
	}
	return nil
}
