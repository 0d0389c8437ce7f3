package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/graphsubd/graphsubd/test/harness"
)

// Schema makes a schema and gives the URL of connections that live in it. It is
// dropped when the test ends.
func (s *Server) Schema(t harness.T) string {
	t.Helper()
	name := "test_" + strings.ToLower(ulid.Make().String())
	s.Exec(t, "CREATE SCHEMA "+name)
	t.Cleanup(func() {
		// The context of a test has ended by now. Only what the server itself
		// has lost may be missing.
		if err := execute(context.WithoutCancel(t.Context()), s.url, "DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
			t.Logf("drop schema: %v", err)
		}
	})
	address, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("search_path", name)
	address.RawQuery = query.Encode()
	return address.String()
}

// Exec runs a statement as the superuser.
func (s *Server) Exec(t harness.T, statement string) {
	t.Helper()
	if err := execute(t.Context(), s.url, statement); err != nil {
		t.Fatal(err)
	}
}

func execute(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
