package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/graphsubd/graphsubd/test/harness"
)

const poolerConfig = `[databases]
* = host=%[1]s port=5432 user=graphsubd
[pgbouncer]
listen_addr =
unix_socket_dir = %[2]s
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
ignore_startup_parameters = search_path
server_reset_query =
`

// Pooler runs pgbouncer before a server that Start gave, in its strictest mode
// of sharing: a connection is a client's for one transaction. The URL it gives
// is of a database of its own, since a pooler forgets what a session has set.
func (s *Server) Pooler(t harness.T) string {
	t.Helper()
	binary := "/usr/sbin/pgbouncer"
	if _, err := os.Stat(binary); err != nil {
		t.Fatal(fmt.Errorf("%w: apt-get install --no-install-recommends pgbouncer", ErrMissing))
	}
	s.Exec(t, "CREATE DATABASE pooled")
	dir := s.Path("pooler")
	if err := errors.Join(os.Mkdir(dir, 0o700), s.own(dir), s.write("pooler/pgbouncer.ini", fmt.Appendf(nil, poolerConfig, s.dir, dir))); err != nil {
		t.Fatal(err)
	}
	command := s.command(context.WithoutCancel(t.Context()), "pgbouncer", filepath.Join(dir, "pgbouncer.ini"))
	command.Path = binary
	log := &process{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(command) })
	query := url.Values{"host": {dir}, "port": {"6432"}}
	address := (&url.URL{Scheme: "postgres", User: url.User("graphsubd"), Path: "/pooled", RawQuery: query.Encode()}).String()
	harness.Eventually(t, 20*time.Second, func() error {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			return fmt.Errorf("%w: %s", err, lastLine(log.text()))
		}
		return conn.Close(t.Context())
	})
	return address
}

func end(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
