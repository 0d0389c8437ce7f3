package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// Each migration after the first ones begins with a lock_timeout, so that what
// a dump reads does not keep all others from a table that is to be altered.
//
//go:embed postgres/*.sql
var pgMigrations embed.FS

const (
	// versionTable keeps the version of the schema. Another program in the same
	// schema may keep its own under the library's default name.
	versionTable = "graphsubd_schema_version"
	// place names the schema in errors.
	place = "the database"
	// migrateAgain is how long a process waits when it could not migrate, and
	// migratePatience for how long it tries.
	migrateAgain    = time.Second
	migratePatience = 10 * time.Minute
)

// errMigrateLater says that somebody is in the way of a migration.
var errMigrateLater = errors.New("it cannot be altered yet")

// migratePostgres creates the schema or brings it up to date. One process at a
// time does; the others keep no connection while they wait. It gives the version
// that this code knows.
func migratePostgres(ctx context.Context, settings *pgSettings, logger *slog.Logger) (newest int64, err error) {
	patience, cancel := context.WithTimeout(ctx, migratePatience)
	defer cancel()
	for told := false; ; told = true {
		newest, err := migrateOnce(ctx, settings, logger)
		if !errors.Is(err, errMigrateLater) {
			return newest, err
		}
		if !told {
			logger.InfoContext(ctx, "waiting to bring the store's schema up to date", "because", err.Error())
		}
		if !untilNext(patience, nil, migrateAgain) {
			return 0, unavailable("migrate the store", err)
		}
	}
}

// migrateOnce migrates if that is needed, and gives errMigrateLater when
// another process is at it or somebody reads what is to be altered.
func migrateOnce(ctx context.Context, settings *pgSettings, logger *slog.Logger) (newest int64, err error) {
	db := stdlib.OpenDB(*settings.config.ConnConfig, stdlib.OptionBeforeConnect(func(ctx context.Context, c *pgx.ConnConfig) error {
		// Each text runs once, so none is worth remembering.
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
		return settings.login(ctx, c)
	}))
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(pgMigrations, "postgres")
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(logger), goose.WithTableName(versionTable))
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	guard, err := settings.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = guard.Close(ctx) }() // which ends the transaction
	version, err := schemaVersion(ctx, pgSession{guard})
	if err != nil {
		return 0, err
	}
	sources := provider.ListSources()
	if newest = sources[len(sources)-1].Version; version >= newest {
		return newest, fits(version, newest, place)
	}
	// The lock is that of a transaction, which a pooler cannot tear apart. It is
	// idle while another connection migrates, and must not hold the lock when its
	// process has vanished.
	if _, err := guard.Exec(ctx, "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; "+
		"SET LOCAL tcp_keepalives_idle = 10; SET LOCAL tcp_keepalives_interval = 5; SET LOCAL tcp_keepalives_count = 3"); err != nil {
		return 0, unavailable("lock the store's schema", err)
	}
	locked, err := lock(ctx, &transaction{session: pgSession{guard}}, lockMigration, false)
	if err != nil {
		return 0, err
	}
	if !locked {
		return 0, fmt.Errorf("%w: another process is at it", errMigrateLater)
	}
	err = upgrade(ctx, provider, place)
	if err != nil && unlessLocked(err) == nil {
		return 0, fmt.Errorf("%w: somebody reads it, a dump for instance", errMigrateLater)
	}
	return newest, err
}

// schemaVersion gives the version that the database has, 0 for an empty one.
func schemaVersion(ctx context.Context, q querier) (version int64, err error) {
	var there bool
	if _, err := oneRow(ctx, q, `SELECT to_regclass('`+versionTable+`') IS NOT NULL`, nil, []any{&there}); err != nil || !there {
		return 0, err
	}
	_, err = oneRow(ctx, q, `SELECT coalesce(max(version_id), 0) FROM `+versionTable+` WHERE is_applied`, nil, []any{&version})
	return version, err
}
