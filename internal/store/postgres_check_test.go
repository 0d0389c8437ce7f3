package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

func right() server {
	return server{version: 150018, encoding: "UTF8", fsync: "on", commit: "on", pages: "on"}
}

func TestServerFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server)
		is     error
		says   string
	}{
		"right":           {func(*server) {}, nil, ""},
		"the oldest":      {func(s *server) { s.version = 140000 }, nil, ""},
		"too old":         {func(s *server) { s.version = 130099 }, ErrUnsafe, "PostgreSQL 13"},
		"no fsync":        {func(s *server) { s.fsync = "off" }, ErrUnsafe, "fsync = on"},
		"no sync":         {func(s *server) { s.commit = "off" }, ErrUnsafe, "synchronous_commit"},
		"another charset": {func(s *server) { s.encoding = "SQL_ASCII" }, ErrUnsafe, "UTF8"},
		"a standby":       {func(s *server) { s.standby = true }, graph.ErrStoreUnavailable, "primary"},
	} {
		t.Run(name, func(t *testing.T) {
			s := right()
			c.change(&s)
			err := s.fault()
			if !errors.Is(err, c.is) || c.is != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestServerWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server)
		says   string
	}{
		"right":                      {func(*server) {}, ""},
		"local without a standby":    {func(s *server) { s.commit = "local" }, ""},
		"local with one":             {func(s *server) { s.commit, s.sync = "local", "b" }, "synchronous_commit is local"},
		"not written to the standby": {func(s *server) { s.commit, s.sync = "remote_write", "b" }, "synchronous_commit is remote_write"},
		"no full pages":              {func(s *server) { s.pages = "off" }, "full_page_writes"},
		"not encrypted":              {func(s *server) { s.open = true }, "sslmode=verify-full"},
		"a clock behind":             {func(s *server) { s.ahead = -3 * time.Second }, "-3s"},
		"a clock near":               {func(s *server) { s.ahead = time.Second }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := right()
			c.change(&s)
			got := strings.Join(s.warnings(), "; ")
			if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("warnings %q, want %q", got, c.says)
			}
		})
	}
}
