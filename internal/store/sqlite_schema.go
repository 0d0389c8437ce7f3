package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	// The driver registers itself under the name "sqlite".
	_ "modernc.org/sqlite"
)

//go:embed sqlite/*.sql
var migrations embed.FS

// Pages are larger than the default, since a table without rowid keeps no
// more than about a quarter of a page of one row in place: with 4 KiB most
// items would need a page of their own.
const pageSize = 8192

// writerCache is the page cache of the connection that writes, in KiB: a step
// of the router has to fit, or its pages are written twice.
const writerCache = 32 << 10

// dataSource gives the name of a database file for the driver. Every commit
// is synced; the log is moved into the file every 4,000 pages, 32 MiB.
func dataSource(path string, pragmas ...string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find store: %w", err)
	}
	query := url.Values{"_pragma": append([]string{
		"busy_timeout(5000)", "synchronous(FULL)", "wal_autocheckpoint(4000)", "temp_store(MEMORY)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: query.Encode()}).String(), nil
}

// migrateSQLite creates the file or brings its schema up to date.
func migrateSQLite(ctx context.Context, path string, logger *slog.Logger) (err error) {
	source, err := dataSource(path)
	if err != nil {
		return err
	}
	// SQLite would let others read it; the log gets the mode of the file.
	file, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return unavailable("open store", err)
	}
	if err := file.Close(); err != nil {
		return unavailable("open store", err)
	}
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return unavailable("open store", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := prepareFile(ctx, db); err != nil {
		return err
	}
	files, err := fs.Sub(migrations, "sqlite")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(logger))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return upgrade(ctx, provider, path)
}

// prepareFile sets what only an empty file takes, in the order it needs.
func prepareFile(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return unavailable("open store", err)
	}
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", pageSize),
		"PRAGMA auto_vacuum = INCREMENTAL",
		"PRAGMA journal_mode = WAL",
	} {
		if _, err := conn.ExecContext(ctx, pragma); err != nil {
			return unavailable("prepare the store's file", errors.Join(err, conn.Close()))
		}
	}
	if err := conn.Close(); err != nil {
		return unavailable("prepare the store's file", err)
	}
	return nil
}
