package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.RunTests(t, func(t *testing.T) storetest.Opener {
		t.Helper()
		path := filepath.Join(t.TempDir(), "store.db")
		return func(ctx context.Context, cfg store.Config) (*store.Store, error) {
			cfg.Path = path
			return store.Open(ctx, cfg)
		}
	})
}
