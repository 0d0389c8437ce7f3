package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// Backup copies a SQLite database into a new file: all that was committed when
// it began, also while a graphsubd has it open. The copy is checked and synced
// before it returns; after an error there is none. It does not overwrite.
func Backup(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return unavailable("back up the store", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find store: %w", err)
	}
	if to, err = filepath.Abs(to); err != nil {
		return fmt.Errorf("find the copy: %w", err)
	}
	// SQLite would let others read it, and it fills an empty file.
	file, err := os.OpenFile(filepath.Clean(to), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	if err := copyInto(ctx, fileSource(abs), to); err != nil {
		return unavailable("back up the store", err)
	}
	if err := errors.Join(checkCopy(ctx, to), file.Sync(), syncDirectory(filepath.Dir(to))); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	return nil
}

// fileSource names a database file that exists.
func fileSource(path string) string {
	query := url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(5000)"}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

func copyInto(ctx context.Context, source, to string) (err error) {
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	return err
}

// checkCopy reads the whole copy.
func checkCopy(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", fileSource(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var answer string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&answer); err != nil {
		return err
	}
	if answer != "ok" {
		return fmt.Errorf("the copy is damaged, and so may be the store: %s", answer)
	}
	return nil
}

func syncDirectory(path string) (err error) {
	directory, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, directory.Close()) }()
	return directory.Sync()
}
