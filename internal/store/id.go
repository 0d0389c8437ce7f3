package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource gives ULIDs that ascend, also when the clock goes back. It belongs
// to the writer, so ids ascend in the order of commits.
type idSource struct {
	last    uint64 // milliseconds
	entropy io.Reader
}

// newIDSource goes on behind the newest stored id.
func newIDSource(ctx context.Context, r *reader) (*idSource, error) {
	source := &idSource{entropy: ulid.Monotonic(rand.Reader, 0)}
	for _, query := range []string{`SELECT max(id) FROM notification`, `SELECT max(id) FROM quarantine`} {
		var newest sql.NullString
		if _, err := r.row(ctx, query, nil, &newest); err != nil {
			return nil, err
		}
		if id, err := ulid.ParseStrict(newest.String); err == nil {
			// The next millisecond is free, whatever the clock says.
			source.last = max(source.last, id.Time()+1)
		}
	}
	return source, nil
}

func (s *idSource) next(now time.Time) (string, error) {
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
