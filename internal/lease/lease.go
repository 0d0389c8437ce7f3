package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
)

// Body is what the leader does. It returns when ctx ends, or earlier with an
// error, after which the lease is contended for anew.
type Body func(ctx context.Context) error

// ErrOverstayed says that a body went on after the lease was lost, until
// shortly before another process may lead. It still runs, so the process has
// to end.
var ErrOverstayed = errors.New("lease lost, and what the leader does has not ended in time")

// NewIdentity names this process on a host, and no other that ever ran: pods
// that share the host's network, or a pod that is started again under its old
// name, do not take each other for themselves.
func NewIdentity(host string) string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return host + "-" + hex.EncodeToString(random)
}
