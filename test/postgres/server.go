package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing says that the programs of the server are not installed.
var ErrMissing = errors.New("PostgreSQL's server is not installed: apt-get install --no-install-recommends postgresql, " +
	"or tools/postgres as root")

// startTimeout bounds how long a server may take to start or to stop.
const startTimeout = 60 * time.Second

// Options of a server.
type Options struct {
	Settings []string // name=value
	// Port also names the socket; "" is 5432.
	Port string
	// HBA replaces pg_hba.conf.
	HBA string
	// Files are written beside the database, readable for the server alone.
	Files map[string][]byte
}

// Server is a running server.
type Server struct {
	url  string
	bin  string
	dir  string
	opts Options

	process *process // nil for one that is not ours
}

// Use starts a server, or takes the one that the environment names.
func Use(ctx context.Context) (*Server, error) {
	if address := os.Getenv("GRAPHSUBD_TEST_POSTGRES_URL"); address != "" {
		return &Server{url: address}, nil
	}
	return Start(ctx, Options{})
}

// Start makes a database cluster and runs a server on it.
func Start(ctx context.Context, opts Options) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "graphsubd-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, opts: opts}
	query := url.Values{"host": {dir}, "port": {cmp.Or(opts.Port, "5432")}}
	s.url = (&url.URL{Scheme: "postgres", User: url.User("graphsubd"), Path: "/postgres", RawQuery: query.Encode()}).String()
	if err := s.init(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.run(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// programs finds the newest installed server. What stands in PATH is a client
// as a rule.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(ErrMissing, err)
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return versionOf(a) - versionOf(b) })
	return filepath.Dir(newest), nil
}

func versionOf(initdb string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb)))) // Debian's path has it
	return version
}

// init makes the cluster.
func (s *Server) init(ctx context.Context) error {
	initdb := s.command(ctx, "initdb", "--pgdata", s.data(), "--username", "graphsubd", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	if err := s.own(s.dir); err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if s.opts.HBA != "" {
		if err := s.write("data/pg_hba.conf", []byte(s.opts.HBA)); err != nil {
			return err
		}
	}
	for name, content := range s.opts.Files {
		if err := s.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) write(name string, content []byte) error {
	path := s.Path(name)
	return errors.Join(os.WriteFile(path, content, 0o600), s.own(path))
}

// Path gives the path of a file beside the database.
func (s *Server) Path(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) data() string { return s.Path("data") }

// URL is how to reach the server, as its superuser.
func (s *Server) URL() string { return s.url }

// process is one run of the server.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	mu      sync.Mutex
	log     bytes.Buffer // guarded by mu
}

// Write takes the log.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// run starts the server and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	args := []string{
		"-D", s.data(), "-k", s.dir, "-p", cmp.Or(s.opts.Port, "5432"), "-c", "listen_addresses=", "-c", "fsync=on", "-c", "max_connections=200",
		"-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB",
	}
	for _, setting := range s.opts.Settings {
		args = append(args, "-c", setting)
	}
	p := &process{done: make(chan struct{})}
	p.command = s.command(context.WithoutCancel(ctx), "postgres", args...)
	p.command.Stdout, p.command.Stderr = p, p
	started := make(chan error)
	go func() { // joined by end
		// The server dies with the thread that started it, so this one stays.
		runtime.LockOSThread()
		defer close(p.done)
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // the log tells how it ended
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	s.process = p
	return s.await(ctx)
}

func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("postgres has ended: %s", s.process.text())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-look.C:
		}
	}
}

// end stops the process. SIGINT cuts its connections, SIGQUIT is a crash.
func (s *Server) end(how syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	// It may have ended by itself.
	if err := s.process.command.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.process.done:
	case <-time.After(startTimeout):
		_ = s.process.command.Process.Kill()
		<-s.process.done
	}
	s.process = nil
	return nil
}

// Crash ends the server as a failure would: it recovers at the next Run.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

// Halt ends the server in order, cutting its connections.
func (s *Server) Halt() error { return s.end(syscall.SIGINT) }

// Run starts a server again that was ended.
func (s *Server) Run(ctx context.Context) error { return s.run(ctx) }

// Stop ends the server and removes its files.
func (s *Server) Stop() error {
	if s.dir == "" {
		return nil
	}
	return errors.Join(s.end(syscall.SIGINT), os.RemoveAll(s.dir))
}

// command runs a program of PostgreSQL, which refuses to be root.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	command.Dir = s.dir
	command.Env = []string{"LC_ALL=C.UTF-8", "TZ=UTC", "PATH=/usr/bin:/bin"}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if uid, gid, other := identity(); other {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return command
}

func (s *Server) own(path string) error {
	if uid, gid, other := identity(); other {
		return os.Chown(path, int(uid), int(gid))
	}
	return nil
}

// identity says whom the server runs as where this process is root.
func identity() (uid, gid uint32, other bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		u, errU := strconv.ParseUint(found.Uid, 10, 32)
		g, errG := strconv.ParseUint(found.Gid, 10, 32)
		if errU == nil && errG == nil {
			return uint32(u), uint32(g), true
		}
	}
	return 65534, 65534, true
}
