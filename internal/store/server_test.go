package store_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
)

func containsText(err error, text string) bool { return strings.Contains(err.Error(), text) }

// with adds a parameter to a connection URL.
func with(tb testing.TB, address, key, value string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&", "&") + key + "=" + strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	return u.String()
}

// A session that does not sync is refused, one that is likely a mistake is
// warned of.
func TestServerSettingsAreChecked(t *testing.T) {
	address := server(t).Schema(t)
	for setting, want := range map[string]string{
		"synchronous_commit=off": "synchronous_commit is off",
	} {
		_, err := store.Open(t.Context(), store.Config{Postgres: at(with(t, address, "options", "-c "+setting)), Owner: "test"})
		if !errors.Is(err, store.ErrUnsafe) || !containsText(err, want) {
			t.Errorf("%s: error %v", setting, err)
		}
	}
	var log bytes.Buffer
	replica(t, at(address), store.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a right server is warned of: %s", log.String())
	}
}

// One server with fsync off is not given a byte.
func TestServerWithoutSync(t *testing.T) {
	srv, err := postgres.Start(t.Context(), postgres.Options{Settings: []string{"fsync=off"}})
	have(t, err)
	t.Cleanup(func() { _ = srv.Stop() })
	_, err = store.Open(t.Context(), store.Config{Postgres: at(srv.URL()), Owner: "test"})
	if !errors.Is(err, store.ErrUnsafe) || !containsText(err, "set fsync = on") {
		t.Errorf("error %v", err)
	}
}

const tlsHBA = `local all graphsubd trust
hostssl all token 127.0.0.1/32 password
`

// secured starts a server that takes the user "token" over TLS only.
func secured(t *testing.T) (srv *postgres.Server, address, caFile string) {
	t.Helper()
	certificate, key := selfSigned(t)
	_, port, err := net.SplitHostPort(harness.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	srv, err = postgres.Start(t.Context(), postgres.Options{
		Port:  port,
		HBA:   tlsHBA,
		Files: map[string][]byte{"server.crt": certificate, "server.key": key},
		Settings: []string{
			"listen_addresses=127.0.0.1", "ssl=on", "ssl_cert_file=../server.crt", "ssl_key_file=../server.key",
		},
	})
	have(t, err)
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return srv, "postgres://token@127.0.0.1:" + port + "/postgres", caFile
}

// The token of the moment opens each connection, over verified TLS.
func TestTokenIsThePassword(t *testing.T) {
	srv, address, caFile := secured(t)
	srv.Exec(t, `CREATE ROLE token LOGIN PASSWORD 'token-1'`)
	srv.Exec(t, `CREATE SCHEMA token AUTHORIZATION token`)
	var current atomic.Value
	current.Store("token-1")
	where := at(address)
	where.CAFile = caFile
	where.Password = func(context.Context) (string, error) { return current.Load().(string), nil } //nolint:errcheck,forcetypeassert // It holds strings.
	s := replica(t, where, store.Config{})
	seed(t, s)

	srv.Exec(t, `ALTER ROLE token PASSWORD 'token-2'`)
	srv.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'token'`)
	eventually(t, "a former token opens nothing", func() bool {
		_, err := s.Wishes(t.Context())
		return err != nil && !containsText(err, "token-1")
	})
	current.Store("token-2")
	eventually(t, "the new token opens a connection", func() bool {
		_, err := s.Wishes(t.Context())
		return err == nil
	})

	where.Password = func(context.Context) (string, error) { return "", errors.New("no token today") }
	if _, err := store.Open(t.Context(), store.Config{Postgres: where, Owner: "test"}); err == nil || !containsText(err, "no token today") {
		t.Errorf("error %v", err)
	}
}

// The password of a URL that changes is picked up, and TLS is not given up.
func TestConnectionURL(t *testing.T) {
	srv, address, caFile := secured(t)
	srv.Exec(t, `CREATE ROLE token LOGIN PASSWORD 'one'`)
	srv.Exec(t, `CREATE SCHEMA token AUTHORIZATION token`)
	var current atomic.Value
	current.Store("one")
	where := &store.Postgres{CAFile: caFile, URL: func() (string, error) {
		return strings.Replace(address, "token@", "token:"+current.Load().(string)+"@", 1), nil //nolint:errcheck,forcetypeassert // It holds strings.
	}}
	s := replica(t, where, store.Config{})
	srv.Exec(t, `ALTER ROLE token PASSWORD 'two'`)
	srv.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'token'`)
	current.Store("two")
	eventually(t, "the new password opens a connection", func() bool {
		_, err := s.Wishes(t.Context())
		return err == nil
	})

	withoutCA := &store.Postgres{URL: func() (string, error) { return with(t, address, "sslmode", "verify-full"), nil }}
	if _, err := store.Open(t.Context(), store.Config{Postgres: withoutCA, Owner: "test"}); err == nil || !containsText(err, "certificate") {
		t.Errorf("an unknown authority: error %v", err)
	}
	for _, mode := range []string{"disable", "prefer", "allow"} {
		weak := &store.Postgres{
			URL:      func() (string, error) { return with(t, address, "sslmode", mode), nil },
			Password: func(context.Context) (string, error) { return "token", nil },
		}
		if _, err := store.Open(t.Context(), store.Config{Postgres: weak, Owner: "test"}); err == nil || !containsText(err, "sslmode=verify-full") {
			t.Errorf("sslmode %s with a token: error %v", mode, err)
		}
	}
}

func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// Behind a pooler that lends a connection for one transaction all goes on, also
// with more clients than connections.
func TestTransactionPooler(t *testing.T) {
	srv, err := postgres.Start(t.Context(), postgres.Options{})
	have(t, err)
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	where := at(srv.Pooler(t))
	stores := []*store.Store{
		replica(t, where, store.Config{Owner: "a", PollInterval: 10 * time.Millisecond}),
		replica(t, where, store.Config{Owner: "b", PollInterval: 10 * time.Millisecond}),
	}
	term := seed(t, stores[0])
	load := newLoad(t, stores)
	for _, s := range stores {
		run(t, s)
	}
	var delivered atomic.Int64
	eventually(t, "2,000 are delivered", func() bool {
		for _, s := range stores {
			claimed, err := s.Claim(t.Context(), "orders", 100, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			outcomes := make([]notification.Outcome, len(claimed))
			for i := range claimed {
				outcomes[i].DeliveryID = claimed[i].ID
			}
			if err := s.Settle(t.Context(), outcomes); err != nil {
				t.Fatal(err)
			}
			delivered.Add(int64(len(claimed)))
			if err := stores[0].LearnLimit(t.Context(), term, graph.LearnedLimit{Tenant: "contoso", Type: "message", Lifetime: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		return delivered.Load() > 2000
	})
	load.end()
	if n := load.failed.Load(); n != 0 {
		t.Errorf("%d appends failed", n)
	}
}

// After a failover a name may lead to a server that takes no writes. Such a
// connection is not kept.
func TestReadOnlyServerIsLeft(t *testing.T) {
	srv, err := postgres.Start(t.Context(), postgres.Options{})
	have(t, err)
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := replica(t, at(srv.URL()), store.Config{})
	seed(t, s)
	have(t, s.Append(t.Context(), rowsOf(1)))
	cut := `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'graphsubd'`
	srv.Exec(t, `ALTER DATABASE postgres SET default_transaction_read_only = on`)
	srv.Exec(t, cut)
	eventually(t, "nothing is taken", func() bool { return s.Append(t.Context(), rowsOf(1)) != nil })
	srv.Exec(t, `BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT`)
	if err := s.Append(t.Context(), rowsOf(1)); err != nil {
		t.Errorf("the server takes writes again: %v", err)
	}
}

// What a process with a wrong clock received is held for as long as all else.
func TestReceivedByTheClockOfTheDatabase(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{HoldFor: time.Minute})
	seed(t, s)
	row := benchRow(1)
	row.SubscriptionID = "99999999-9999-4999-8999-999999999999"
	row.ReceivedAt = time.Now().Add(-10 * time.Minute) // what its clock says
	store.SetAhead(s, 10*time.Minute)
	have(t, s.Append(t.Context(), []notification.Row{row}))
	routeAll(t, s)
	if n := number(t, connection(t, where), `SELECT count(*) FROM notification WHERE state = 'held'`); n != 1 {
		t.Errorf("%d rows are held, want 1", n)
	}
}

// A setting that is changed later loses nothing that is acknowledged.
func TestUnsafeSettingLater(t *testing.T) {
	srv, err := postgres.Start(t.Context(), postgres.Options{})
	have(t, err)
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := replica(t, at(srv.URL()), store.Config{})
	seed(t, s)
	have(t, s.Append(t.Context(), rowsOf(1)))
	srv.Exec(t, `ALTER DATABASE postgres SET synchronous_commit = off`)
	srv.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'graphsubd'`)
	eventually(t, "nothing is taken", func() bool { return containsText(s.Append(t.Context(), rowsOf(1)), "synchronous_commit is off") })
	srv.Exec(t, `ALTER DATABASE postgres RESET synchronous_commit`)
	have(t, s.Append(t.Context(), rowsOf(1)))
}

// The same for connections that stay, as those of a pooler do, and for a schema
// that a later graphsubd has changed. Nothing is written until that is over.
func TestUnfitLater(t *testing.T) {
	srv, err := postgres.Start(t.Context(), postgres.Options{})
	have(t, err)
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := replica(t, at(srv.URL()), store.Config{PollInterval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	term := seed(t, s)
	run(t, s)
	for _, c := range []struct{ text, begin, end string }{
		{"synchronous_commit is off", `ALTER SYSTEM SET synchronous_commit = off`, `ALTER SYSTEM RESET synchronous_commit`},
		{
			"has version 2001", `INSERT INTO graphsubd_schema_version (version_id, is_applied) VALUES (2001, true)`,
			`DELETE FROM graphsubd_schema_version WHERE version_id = 2001`,
		},
	} {
		have(t, s.Append(t.Context(), rowsOf(1)))
		srv.Exec(t, c.begin)
		srv.Exec(t, `SELECT pg_reload_conf()`)
		eventually(t, "nothing is taken: "+c.text, func() bool {
			err := s.Append(t.Context(), rowsOf(1))
			return errors.Is(err, graph.ErrStoreUnavailable) && containsText(err, c.text)
		})
		if err := s.Save(t.Context(), term, graph.Change{Record: graph.Record{Name: "w"}}); !errors.Is(err, graph.ErrStoreUnavailable) {
			t.Errorf("%s: a record is saved, %v", c.text, err)
		}
		if _, err := s.Claim(t.Context(), "orders", 1, time.Minute); !errors.Is(err, graph.ErrStoreUnavailable) {
			t.Errorf("%s: a claim is made, %v", c.text, err)
		}
		srv.Exec(t, c.end)
		srv.Exec(t, `SELECT pg_reload_conf()`)
		eventually(t, "it goes on", func() bool { return s.Append(t.Context(), rowsOf(1)) == nil })
	}
}

// A claim whose answer does not come, as at a stop in the middle of it, keeps no
// other process waiting.
func TestTornClaimIsGivenBack(t *testing.T) {
	where := database(t)
	first, other := replica(t, where, store.Config{Owner: "a"}), replica(t, where, store.Config{Owner: "b"})
	seed(t, first)
	have(t, first.Append(t.Context(), rowsOf(3)))
	routeAll(t, first)
	if claimed, err := first.Claim(t.Context(), "orders", 2, time.Hour); err != nil || len(claimed) != 2 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	if claimed, err := other.Claim(t.Context(), "orders", 3, time.Hour); err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed by the other, %v", len(claimed), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := first.Claim(ended, "orders", 2, time.Hour); err == nil {
		t.Fatal("claimed after the end")
	}
	have(t, first.Close())
	claimed, err := other.Claim(t.Context(), "orders", 3, time.Hour)
	if err != nil || len(claimed) != 2 {
		t.Errorf("%d are given back, want those 2 of the process that has ended, %v", len(claimed), err)
	}
}

// A backlog that cannot be counted at the start keeps nobody from starting. Its
// bound holds as soon as it is counted.
func TestBacklogIsCountedLater(t *testing.T) {
	where := database(t)
	first := replica(t, where, store.Config{})
	seed(t, first)
	have(t, first.Append(t.Context(), rowsOf(5)))
	conn := connection(t, where)
	execute(t, conn, `ALTER TABLE quarantine RENAME COLUMN reason TO away`)
	var log bytes.Buffer
	s := replica(t, where, store.Config{
		Owner: "later", MaxBacklogRows: 3, PollInterval: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if !strings.Contains(log.String(), "backlog not counted yet") {
		t.Errorf("it is not said: %s", log.String())
	}
	have(t, s.Append(t.Context(), rowsOf(1)))
	execute(t, conn, `ALTER TABLE quarantine RENAME COLUMN away TO reason`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	eventually(t, "the bound holds", func() bool { return errors.Is(s.Append(t.Context(), rowsOf(1)), store.ErrFull) })
	cancel()
	have(t, <-ended)
}

// A token that never comes costs its own time and not the place of a connection.
func TestTokenThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: it waits for a time-out")
	}
	srv, address, caFile := secured(t)
	srv.Exec(t, `CREATE ROLE token LOGIN SUPERUSER PASSWORD 'right'`)
	var hang atomic.Bool
	where := &store.Postgres{
		URL: func() (string, error) { return address, nil }, CAFile: caFile,
		Password: func(ctx context.Context) (string, error) {
			if hang.Load() {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "right", nil
		},
	}
	s := replica(t, where, store.Config{})
	seed(t, s)
	hang.Store(true)
	srv.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'graphsubd'`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for range 3 {
		if err := s.Append(ctx, rowsOf(1)); err == nil {
			t.Fatal("stored without a connection")
		}
	}
	hang.Store(false)
	eventually(t, "it goes on", func() bool { return s.Append(t.Context(), rowsOf(1)) == nil })
}
