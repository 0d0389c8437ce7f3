package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource gives ULIDs that ascend, also when the clock goes back. It is safe
// for concurrent use.
type idSource struct {
	mu      sync.Mutex
	last    uint64    // milliseconds; guarded by mu
	entropy io.Reader // guarded by mu
}

func newIDSource() *idSource { return &idSource{entropy: ulid.Monotonic(rand.Reader, 0)} }

// follow goes on behind the newest stored id, which only one process can.
func (s *idSource) follow(ctx context.Context, r *reader) error {
	for _, query := range []string{`SELECT max(id) FROM notification`, `SELECT max(id) FROM quarantine`} {
		var newest *string
		if _, err := r.row(ctx, query, nil, &newest); err != nil {
			return err
		}
		if newest == nil {
			continue
		}
		if id, err := ulid.ParseStrict(*newest); err == nil {
			// The next millisecond is free, whatever the clock says.
			s.last = max(s.last, id.Time()+1)
		}
	}
	return nil
}

func (s *idSource) next(now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, ulid.Timestamp(now))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// firstID is at or before every id that was given at t or later.
func firstID(t time.Time) string {
	if t.Before(time.UnixMilli(0)) {
		return ""
	}
	var id ulid.ULID
	// It fails only beyond the year 10889.
	_ = id.SetTime(ulid.Timestamp(t))
	return id.String()
}
