package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed postgres/*.sql
var pgMigrations embed.FS

// versionTable keeps the version of the schema. Another program in the same
// schema may keep its own under the library's default name.
const versionTable = "graphsubd_schema_version"

// migratePostgres creates the schema or brings it up to date. One process at a
// time does: the others wait at a lock that a transaction of its own connection
// holds, which a pooler cannot tear apart.
func migratePostgres(ctx context.Context, settings *pgSettings, logger *slog.Logger) (err error) {
	guard, err := settings.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = guard.Close(ctx) }() // which ends the transaction
	// It is idle while another connection migrates, and must not hold the lock
	// when its process has vanished.
	if _, err := guard.Exec(ctx, "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; "+
		"SET LOCAL tcp_keepalives_idle = 10; SET LOCAL tcp_keepalives_interval = 5; SET LOCAL tcp_keepalives_count = 3"); err != nil {
		return unavailable("lock the store's schema", err)
	}
	t := &transaction{session: pgSession{guard}}
	if _, err := lock(ctx, t, lockMigration, true); err != nil {
		return err
	}
	db := stdlib.OpenDB(*settings.config.ConnConfig, stdlib.OptionBeforeConnect(func(ctx context.Context, c *pgx.ConnConfig) error {
		// Each text runs once, so none is worth remembering.
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
		return settings.login(ctx, c)
	}))
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(pgMigrations, "postgres")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(logger), goose.WithTableName(versionTable))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return upgrade(ctx, provider, "the database")
}
