package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
	"github.com/graphsubd/graphsubd/internal/store"
)

// storeConfig gives the settings of the store that a checked configuration
// names, and makes the directory of a file.
func storeConfig(cfg *config.Config, holder string) (store.Config, error) {
	keep := cfg.Store.Retention
	settings := store.Config{
		Owner:          holder,
		MaxBacklogRows: cfg.Store.MaxBacklog.Rows, MaxBacklogBytes: int64(cfg.Store.MaxBacklog.Bytes),
		MaxQuarantineRows: cfg.Store.MaxQuarantine.Rows, MaxQuarantineBytes: int64(cfg.Store.MaxQuarantine.Bytes),
		RetainDelivered: keep.Delivered, RetainDeadLetters: keep.DeadLetters, RetainAudit: keep.Audit,
		MaxBytes: int64(keep.MaxBytes),
	}
	if p := cfg.Store.Postgres; p != nil {
		var err error
		settings.Postgres, err = newPostgres(p)
		return settings, err
	}
	settings.Path = cfg.Store.SQLite.Path
	if err := os.MkdirAll(filepath.Dir(settings.Path), 0o700); err != nil {
		return settings, fmt.Errorf("store: %w", err)
	}
	return settings, nil
}

func newPostgres(p *config.Postgres) (*store.Postgres, error) {
	where := &store.Postgres{URL: p.URL.Current, CAFile: p.CAFile}
	if c := p.AzureCredential; c != nil {
		endpoints, err := msgraph.EndpointsOf(msgraph.Cloud(c.Cloud))
		if err != nil {
			return nil, fmt.Errorf("store.postgres: %w", err)
		}
		token, err := msgraph.NewServiceToken(newAzureCredential(c), endpoints.Login, endpoints.Database)
		if err != nil {
			return nil, fmt.Errorf("store.postgres: %w", err)
		}
		where.Password = token.Token
	}
	return where, nil
}

func newAzureCredential(c *config.AzureCredential) msgraph.Credential {
	return newCredential(&config.Credential{
		WorkloadIdentity: c.WorkloadIdentity, ManagedIdentity: c.ManagedIdentity, Default: c.Default,
	})
}

// Backup copies the store of a configuration into a new file, also while a
// process serves from it.
func Backup(ctx context.Context, cfg *config.Config, to string) error {
	if cfg.Store.SQLite == nil {
		return errors.New("store.postgres is not copied by this command: use pg_dump, or the backup of the server")
	}
	return store.Backup(ctx, cfg.Store.SQLite.Path, to)
}
