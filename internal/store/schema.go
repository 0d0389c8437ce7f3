package store

import (
	"context"
	"fmt"

	"github.com/pressly/goose/v3"
)

// majorStep divides a schema version into its major and the rest.
const majorStep = 1000

// upgrade brings a schema up to date. A newer one of the same major is left as
// it is: it only has more than this code asks for.
func upgrade(ctx context.Context, provider *goose.Provider, place string) error {
	version, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return unavailable("read the store's schema version", err)
	}
	if err := fits(version, newest, place); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return unavailable("migrate the store", err)
	}
	return nil
}

// fits refuses a schema whose major is newer than what this code knows.
func fits(version, newest int64, place string) error {
	if version/majorStep <= newest/majorStep {
		return nil
	}
	return fmt.Errorf("%w: %s has version %d, this graphsubd knows up to %d: "+
		"run the newer graphsubd again, or restore a copy from before it ran",
		ErrNewerSchema, place, version, newest)
}
