package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

const (
	// minServer is the oldest PostgreSQL that is looked after, and the oldest
	// that this was tried against.
	minServer = 140000
	// maxSkew is how far a clock may be from the database's: what this process
	// says of times is shown beside what the database decides by.
	maxSkew = 2 * time.Second
)

// server is what a PostgreSQL server says of itself.
type server struct {
	version                              int64
	standby                              bool
	encoding, fsync, commit, pages, sync string
	ahead                                time.Duration // of its clock
	open                                 bool          // the connection leaves the machine and may go to any server
}

// checkServer refuses a server that could lose what it has acknowledged, and
// warns of what is likely a mistake.
func checkServer(ctx context.Context, settings *pgSettings, logger *slog.Logger) (err error) {
	conn, err := settings.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var s server
	begin := time.Now()
	var now int64
	found, err := oneRow(ctx, pgSession{conn}, `SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(),
		current_setting('server_encoding'), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('full_page_writes'), current_setting('synchronous_standby_names'), `+pgNow, nil,
		[]any{&s.version, &s.standby, &s.encoding, &s.fsync, &s.commit, &s.pages, &s.sync, &now})
	if err != nil {
		return err
	}
	if !found {
		return unavailable("open store", errors.New("the server says nothing of itself"))
	}
	s.open = leaves(conn.PgConn().Conn()) && unsafe(settings.config.ConnConfig, unverified)
	s.ahead = instant(now).Sub(begin.Add(time.Since(begin) / 2))
	if err := s.fault(); err != nil {
		return err
	}
	for _, warning := range s.warnings() {
		logger.WarnContext(ctx, "database setting", "warning", warning)
	}
	return nil
}

// leaves says that a connection goes to another machine.
func leaves(conn net.Conn) bool {
	to, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !to.IP.IsLoopback()
}

// fault is what must not be.
func (s *server) fault() error {
	switch {
	case s.version < minServer:
		return fmt.Errorf("%w: the server is PostgreSQL %d, and 14 or newer is needed: upgrade it", ErrUnsafe, s.version/10000)
	case s.fsync != "on":
		return fmt.Errorf("%w: fsync is %s on the server, so a crash loses what was acknowledged: set fsync = on", ErrUnsafe, s.fsync)
	case s.commit == "off":
		return fmt.Errorf("%w: synchronous_commit is off, so a crash loses what was acknowledged: "+
			"set it to on for this user or database", ErrUnsafe)
	case s.encoding != "UTF8":
		return fmt.Errorf("%w: the database has the encoding %s: create it with ENCODING 'UTF8'", ErrUnsafe, s.encoding)
	case s.standby:
		return unavailable("open store", errors.New("the server is a standby: name the primary, "+
			"or all of them and target_session_attrs=read-write"))
	}
	return nil
}

// warnings are what is likely a mistake, each with what to do.
func (s *server) warnings() []string {
	var list []string
	if s.sync != "" && (s.commit == "local" || s.commit == "remote_write") {
		list = append(list, "synchronous_commit is "+s.commit+", so a failover to the synchronous standby can lose "+
			"what was acknowledged: set it to on")
	}
	if s.pages != "on" {
		list = append(list, "full_page_writes is off, so a crash can damage the database: set it to on")
	}
	if s.open {
		list = append(list, "the server is not verified, so somebody on the way can take its place, and its password: "+
			"write sslmode=verify-full in the URL, and the server's authority as caFile")
	}
	if w := skewWarning(s.ahead); w != "" {
		list = append(list, w)
	}
	return list
}

func skewWarning(ahead time.Duration) string {
	if ahead.Abs() <= maxSkew {
		return ""
	}
	return fmt.Sprintf("the database's clock differs by %v from this machine's: let both be set by NTP", ahead.Round(time.Millisecond))
}
