package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout bounds one try to connect, where the URL names no other.
const connectTimeout = 5 * time.Second

// pgSettings are how to connect.
type pgSettings struct {
	postgres *Postgres
	config   *pgxpool.Config
}

func newPGSettings(p *Postgres) (*pgSettings, error) {
	address, err := p.address()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address.String())
	if err != nil {
		return nil, fmt.Errorf("store: connection URL: %w", err) // it masks the password
	}
	c := config.ConnConfig
	query := address.Query()
	if !query.Has("default_query_exec_mode") {
		// No named statements: behind a pooler each transaction may meet
		// another connection of the server.
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	c.StatementCacheCapacity = 0
	if !query.Has("connect_timeout") {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "graphsubd"
	}
	switch {
	case p.Password != nil && unsafe(c, func(t *tls.Config) bool { return t == nil || t.InsecureSkipVerify }):
		return nil, errors.New("store: the connection URL allows a connection to a server that is not verified, which could take the token: " +
			"write sslmode=verify-full in it, or no sslmode")
	case p.CAFile != "" && unsafe(c, func(t *tls.Config) bool { return t == nil }):
		return nil, errors.New("store: the connection URL allows a connection without TLS, which a caFile asks for: " +
			"write sslmode=verify-full in it, or no sslmode")
	}
	s := &pgSettings{postgres: p, config: config}
	config.BeforeConnect = s.login
	return s, nil
}

// unsafe says whether a connection over a network may come about with a TLS that
// is bad; nil is none at all.
func unsafe(c *pgx.ConnConfig, bad func(*tls.Config) bool) bool {
	open := func(host string, config *tls.Config) bool { return bad(config) && !strings.HasPrefix(host, "/") }
	return open(c.Host, c.TLSConfig) ||
		slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return open(f.Host, f.TLSConfig) })
}

// unverified says that a TLS would take any server for the right one.
func unverified(config *tls.Config) bool {
	return config == nil || config.InsecureSkipVerify && config.VerifyPeerCertificate == nil
}

// address reads the URL as it is now, with the TLS that the settings ask for.
func (p *Postgres) address() (*url.URL, error) {
	text, err := p.URL()
	if err != nil {
		return nil, fmt.Errorf("store: connection URL: %w", err)
	}
	// The error of the parser would show the password.
	address, err := url.Parse(text)
	if err != nil || address.Scheme != "postgres" && address.Scheme != "postgresql" {
		return nil, errors.New("store: the connection URL is none: write postgres://user:password@host:5432/database")
	}
	query := address.Query()
	// What stands in the URL stays as it is, and wins.
	add := func(key, value string) {
		if !query.Has(key) {
			address.RawQuery = strings.TrimPrefix(address.RawQuery+"&", "&") + key + "=" + strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
	}
	if p.CAFile != "" {
		add("sslrootcert", p.CAFile)
	}
	if p.CAFile != "" || p.Password != nil {
		add("sslmode", "verify-full")
	}
	return address, nil
}

// loginTimeout bounds how long a password may take. A pool's connections are
// made under no deadline of a caller, so one that hangs would hold its place.
const loginTimeout = 10 * time.Second

// login gives a connection the user and the password of the moment.
func (s *pgSettings) login(ctx context.Context, c *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	address, err := s.postgres.address()
	if err != nil {
		return err
	}
	fresh, err := pgx.ParseConfig(address.String())
	if err != nil {
		return fmt.Errorf("store: connection URL: %w", err)
	}
	c.User, c.Password = fresh.User, fresh.Password
	if s.postgres.Password == nil {
		return nil
	}
	if c.Password, err = s.postgres.Password(ctx); err != nil {
		return fmt.Errorf("password for the database: %w", err)
	}
	return nil
}

// validate refuses a connection on which nothing can be written, or on which
// what is written may be lost. After a failover a name may lead to the former
// primary for a while, or to a server with other settings, and a connection to
// it would be kept.
func validate(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, `SELECT current_setting('transaction_read_only'), current_setting('fsync'),
		current_setting('synchronous_commit')`).ReadAll()
	if err != nil {
		return err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return errors.New("the server says nothing of itself")
	}
	row := results[0].Rows[0]
	if string(row[0]) == "on" {
		return errors.New("the server is read only")
	}
	return keeps(string(row[1]), string(row[2]))
}

// keeps refuses settings by which what is committed may be lost.
func keeps(fsync, commit string) error {
	if fsync != "off" && commit != "off" {
		return nil
	}
	return fmt.Errorf("%w: fsync is %s and synchronous_commit is %s, so a crash loses what was acknowledged: set both to on",
		ErrUnsafe, fsync, commit)
}

// pool makes a pool, which connects when it is used.
func (s *pgSettings) pool(ctx context.Context, conns int32) (*pgxpool.Pool, error) {
	config := s.config.Copy()
	config.MaxConns, config.MinConns = conns, 0
	config.ConnConfig.ValidateConnect = validate
	// The pool's helper outlives the call that made it: Close ends it.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, unavailable("open store", err)
	}
	return pool, nil
}

// connect makes one connection, for what is done once.
func (s *pgSettings) connect(ctx context.Context) (*pgx.Conn, error) {
	config := s.config.ConnConfig.Copy()
	if err := s.login(ctx, config); err != nil {
		return nil, unavailable("connect", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, unavailable("connect", err)
	}
	return conn, nil
}
