package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// sqliteSession is a session of the connection that writes. Its statements are
// prepared once for each connection.
type sqliteSession struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func (s *sqliteSession) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if prepared := s.statements[query]; prepared != nil {
		return prepared, nil
	}
	prepared, err := s.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, unavailable("prepare statement", err)
	}
	s.statements[query] = prepared
	return prepared, nil
}

func (s *sqliteSession) exec(ctx context.Context, query string, args ...any) (int64, error) {
	prepared, err := s.statement(ctx, query)
	if err != nil {
		return 0, err
	}
	result, err := prepared.ExecContext(ctx, args...)
	if err != nil {
		return 0, unavailable("write", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, unavailable("write", err)
	}
	return n, nil
}

func (s *sqliteSession) query(ctx context.Context, query string, scan func(cursor) error, args ...any) error {
	prepared, err := s.statement(ctx, query)
	if err != nil {
		return err
	}
	rows, err := prepared.QueryContext(ctx, args...)
	return eachSQL(rows, err, scan)
}

func (s *sqliteSession) queryIn(ctx context.Context, query string, list []any, scan func(cursor) error) error {
	for piece := range sqlitePieces(list, 1) {
		if err := s.query(ctx, expand(query, len(piece)), scan, piece...); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteSession) execIn(ctx context.Context, query string, list []any, before ...any) error {
	for piece := range sqlitePieces(list, 1) {
		if _, err := s.exec(ctx, expand(query, len(piece)), slices.Concat(before, piece)...); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteSession) insert(ctx context.Context, query string, width int, values []any) error {
	for piece := range sqlitePieces(values, width) {
		if _, err := s.exec(ctx, expandRows(query, tuple(width), len(piece)/width), piece...); err != nil {
			return err
		}
	}
	return nil
}

func sqlitePieces(values []any, width int) func(yield func([]any) bool) {
	return pieces(values, width, 64, 8, 1)
}

// sqliteReader reads by connections that cannot write.
type sqliteReader struct{ db *sql.DB }

// readers is how many reads go on at once.
const readers = 4

func newSQLiteReader(path string) (*sqliteReader, error) {
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
	return &sqliteReader{db}, nil
}

func (r *sqliteReader) query(ctx context.Context, query string, scan func(cursor) error, args ...any) error {
	rows, err := r.db.QueryContext(ctx, query, args...)
	return eachSQL(rows, err, scan)
}

func (r *sqliteReader) close() error {
	if err := r.db.Close(); err != nil {
		return unavailable("close store", err)
	}
	return nil
}

// eachSQL reads all rows and closes them.
func eachSQL(rows *sql.Rows, err error, scan func(cursor) error) error {
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
