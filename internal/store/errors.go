package store

import (
	"errors"
	"fmt"

	"github.com/graphsubd/graphsubd/internal/graph"
)

var (
	// ErrFull says that the backlog has reached its bound; the rows were not
	// stored. It ends when the sinks take what waits for them.
	ErrFull = errors.New("store: backlog is full")
	// ErrInUse says that another process has the database open.
	ErrInUse = errors.New("store: in use by another process")
	// ErrUnsafe says that the database could lose what it has acknowledged:
	// its disk is one of another machine, or its settings do not sync.
	ErrUnsafe = errors.New("store: not safe")
	// ErrNewerSchema says that a newer graphsubd has changed the database in
	// a way that this one does not understand.
	ErrNewerSchema = errors.New("store: schema is of a newer major version")
	// ErrNameTaken says that a wish has the name of another source's wish.
	ErrNameTaken = errors.New("store: name is taken by another source")
	// ErrClaimLost says that some of the deliveries to settle were no longer
	// claimed by this process; the others were settled.
	ErrClaimLost = errors.New("store: claim lost")
)

// errClosed is the cause of ErrStoreUnavailable after Close.
var errClosed = errors.New("store is closed")

// unavailable says which operation the database failed.
func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, graph.ErrStoreUnavailable, err)
}
