package graphsim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// shutdownTime is what requests under way get when a Server ends.
const shutdownTime = 2 * time.Second

// ServerConfig says where a Server listens.
type ServerConfig struct {
	Graph   string // address, default 127.0.0.1:0
	Login   string // address; empty: with Graph, told apart by path
	Control string // address, plain HTTP without credentials: loopback only, default 127.0.0.1:0
	// CAFile is where the certificate of the fresh authority is written, in PEM.
	CAFile string
	// Hosts are more names and addresses for the server certificate, beside
	// localhost, loopback and those listened on. The first replaces the address
	// in the start line where the listener has no address of its own.
	Hosts []string
}

// StartLine is what a program that serves a Server prints once it is ready.
type StartLine struct {
	Graph     string  `json:"graph"` // root without version
	Login     string  `json:"login"`
	Control   string  `json:"control"` // root without /sim/v1
	CAFile    string  `json:"caFile"`
	TimeScale float64 `json:"timeScale"`
	Seed      uint64  `json:"seed"`
}

// Server serves a Sim on sockets: Graph and the token service over TLS, the
// control over plain HTTP.
type Server struct {
	sim     *Sim
	line    StartLine
	servers []bound
}

type bound struct {
	listener net.Listener
	server   *http.Server
}

// Listen binds the listeners, makes an authority and writes its certificate. It
// serves nothing before Run; connections wait. A Sim whose Config has no
// LoginURL signs tokens in the name of this server from now on.
func Listen(ctx context.Context, sim *Sim, cfg ServerConfig) (*Server, error) {
	if cfg.CAFile == "" {
		return nil, errors.New("graphsim: the server needs a CAFile")
	}
	setDefault(&cfg.Graph, "127.0.0.1:0")
	setDefault(&cfg.Control, "127.0.0.1:0")
	s := &Server{sim: sim}
	if err := s.listen(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Server) listen(ctx context.Context, cfg ServerConfig) error {
	if err := loopbackOnly(cfg.Control); err != nil {
		return err
	}
	ca, err := newAuthority(time.Now())
	if err != nil {
		return err
	}
	handler := s.sim.Graph()
	if cfg.Login == "" {
		handler = byPath(handler, s.sim.Login())
	}
	graph, err := s.bind(ctx, cfg.Graph, handler)
	if err != nil {
		return err
	}
	login := graph
	if cfg.Login != "" {
		if login, err = s.bind(ctx, cfg.Login, s.sim.Login()); err != nil {
			return err
		}
	}
	if err := s.secure(ca, cfg.Hosts); err != nil {
		return err
	}
	control, err := s.bind(ctx, cfg.Control, s.sim.Control())
	if err != nil {
		return err
	}
	//nolint:gosec // A certificate is public.
	if err := os.WriteFile(cfg.CAFile, ca.pem(), 0o644); err != nil {
		return fmt.Errorf("graphsim: write the authority's certificate: %w", err)
	}
	s.line = StartLine{
		Graph: root("https", graph, cfg.Hosts), Login: root("https", login, cfg.Hosts), Control: root("http", control, nil),
		CAFile: cfg.CAFile, TimeScale: s.sim.TimeScale(), Seed: s.sim.Seed(),
	}
	s.sim.adoptLogin(s.line.Login)
	return nil
}

// bind listens on an address for a handler.
func (s *Server) bind(ctx context.Context, address string, handler http.Handler) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("graphsim: listen: %w", err)
	}
	s.servers = append(s.servers, bound{listener, &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(s.sim.cfg.Logger.Handler(), slog.LevelDebug),
	}})
	return listener, nil
}

// loopbackOnly refuses a control address that others could reach.
func loopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("graphsim: control address: %w", err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("graphsim: control address %q is not on loopback", address)
	}
	return nil
}

// byPath sends versioned paths to Graph, all else to the token service.
func byPath(graph, login http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if strings.EqualFold(first, "v1.0") {
			graph.ServeHTTP(w, r)
			return
		}
		login.ServeHTTP(w, r)
	})
}

// secure puts TLS on the servers bound so far.
func (s *Server) secure(ca *authority, hosts []string) error {
	hosts = append([]string{"localhost", "127.0.0.1", "::1"}, hosts...)
	for _, b := range s.servers {
		if addr, ok := b.listener.Addr().(*net.TCPAddr); ok && !addr.IP.IsUnspecified() {
			hosts = append(hosts, addr.IP.String())
		}
	}
	cert, err := ca.issue(hosts)
	if err != nil {
		return err
	}
	for _, b := range s.servers {
		b.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	return nil
}

func root(scheme string, l net.Listener, hosts []string) string {
	address := l.Addr().String()
	addr, ok := l.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		host := "localhost"
		if len(hosts) > 0 {
			host = hosts[0]
		}
		address = net.JoinHostPort(host, fmt.Sprint(addr.Port))
	}
	return scheme + "://" + address
}

// adoptLogin makes a root the issuer of version 2 tokens unless one was
// configured.
func (s *Sim) adoptLogin(login string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.LoginURL == "" {
		s.login = login
	}
}

// StartLine tells where the server listens. It is complete once Listen returned.
func (s *Server) StartLine() StartLine { return s.line }

// Run serves, and runs the Sim, until ctx ends or a listener fails. It returns
// within a few seconds of the end, with nil when ctx ended it. Only a create
// call whose handshake is under way may outlast it, by the handshake's time-out.
// A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, len(s.servers)+1)
	var wg sync.WaitGroup
	wg.Go(func() { failures <- s.sim.Run(ctx) })
	for _, b := range s.servers {
		wg.Go(func() {
			defer cancel()
			err := b.serve()
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			failures <- err
		})
	}
	<-ctx.Done()
	s.shutdown(context.WithoutCancel(ctx))
	wg.Wait()
	close(failures)
	var joined error
	for err := range failures {
		joined = errors.Join(joined, err)
	}
	return joined
}

func (b bound) serve() error {
	if b.server.TLSConfig != nil {
		return b.server.ServeTLS(b.listener, "", "")
	}
	return b.server.Serve(b.listener)
}

// shutdown ends the servers at once together, cutting what outlasts the time.
func (s *Server) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, b := range s.servers {
		wg.Go(func() {
			if err := b.server.Shutdown(ctx); err != nil {
				_ = b.server.Close()
			}
		})
	}
	wg.Wait()
}

func (s *Server) close() error {
	var joined error
	for _, b := range s.servers {
		joined = errors.Join(joined, b.listener.Close())
	}
	return joined
}
