package app_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/app"
	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

const settings = `instance: test
publicURL: http://%[1]s/base
listen:
  public: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
  telemetry: {address: "127.0.0.1:0"}
signingKeys: [{env: SIGNING_KEY}]
store: {sqlite: {path: data/graphsubd.db}}
apps:
  - name: hooks
    clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11
    credential: {clientSecret: {env: CLIENT_SECRET}}
    endpoints: {graph: "%[2]s", login: "%[3]s", caFile: "%[4]s", timeScale: %[5]g}
tenants:
  - {name: contoso, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f95, app: hooks}
sinks:
  - {name: changes, events: [changes], file: {path: "-"}}
  - {name: notices, events: [gaps, operations], file: {path: notices.jsonl}}
subscriptions:
  - {name: inbox, tenant: contoso, resource: users/u/messages, changeTypes: [created], lifetime: 6h, sinks: [changes, notices]}
  - {name: calendar, tenant: contoso, resource: users/u/events, changeTypes: [updated], lifetime: 6h, sinks: [changes, notices]}
admin:
  tokens:
    - {name: ops, role: operator, token: {env: ADMIN_TOKEN}}
`

// lines collects what a sink writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is for the sink.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// world is a whole graphsubd and a simulated Graph, in this process.
type world struct {
	t    *testing.T
	dir  string
	sim  *graphsim.Sim
	app  *app.App
	out  *lines
	stop func() error
	env  map[string]string
	// changed has the configuration read anew.
	changed chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, settings, nil)
}

// newWorldOf takes the settings, and what is in the environment beside the
// secrets that all settings name.
func newWorldOf(t *testing.T, settings string, env map[string]string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), out: &lines{}, env: env, changed: make(chan struct{})}
	var err error
	// Six hours pass in six seconds.
	if w.sim, err = graphsim.New(graphsim.Config{TimeScale: 3600}); err != nil {
		t.Fatal(err)
	}
	server, err := graphsim.Listen(t.Context(), w.sim, graphsim.ServerConfig{CAFile: filepath.Join(w.dir, "ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "simulator", server.Run)
	public, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	line := server.StartLine()
	text := fmt.Sprintf(settings, public.Addr(), line.Graph, line.Login, line.CAFile, line.TimeScale)
	if err := os.WriteFile(w.path(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	w.serve(cfg, public)
	return w
}

// serve begins a process, the next one after a stop.
func (w *world) serve(cfg *config.Config, public net.Listener) {
	w.t.Helper()
	var err error
	w.app, err = app.New(w.t.Context(), cfg, app.Options{
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Stdout: w.out, Version: "test", Commit: "test", Public: public,
		Changed: w.changed, Load: w.load,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop = run(w.t, "graphsubd", w.app.Run)
}

func (w *world) path() string { return filepath.Join(w.dir, "graphsubd.yaml") }

func (w *world) load() (*config.Config, error) {
	return config.Load(w.path(), func(name string) string {
		return cmp.Or(w.env[name], map[string]string{
			"SIGNING_KEY": strings.Repeat("k", 40), "CLIENT_SECRET": "anything",
			"ADMIN_TOKEN": "ops-0123456789abcdef", "OTHER_TOKEN": "other-0123456789abcdef",
		}[name])
	})
}

// run runs something until the test ends or the returned stop is called,
// which gives its error.
func run(t *testing.T, name string, do func(ctx context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	return stop
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-look.C:
		}
	}
}

func TestTheWholeJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eventually(t, func() error {
		if n := w.sim.Counts().Live; n != 2 {
			return fmt.Errorf("%d live, want 2", n)
		}
		return nil
	})
	if _, err := w.sim.Notify(graphsim.Notification{Count: 25}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if n := len(w.out.all()); n != 50 {
			return fmt.Errorf("%d events, want 50", n)
		}
		return nil
	})
	if err := w.sim.Remove(w.sim.State().Subscriptions[0].ID, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if c := w.sim.Counts(); c.Created != 3 || c.Live != 2 || c.Renewed < 2 {
			return fmt.Errorf("counts %+v", c)
		}
		return nil
	})
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	w.checkEvents()
	w.checkNotices()
}

// checkEvents looks at the form of what the sink got.
func (w *world) checkEvents() {
	w.t.Helper()
	ids := map[string]bool{}
	for _, line := range w.out.all() {
		var event struct {
			SpecVersion  string         `json:"specversion"`
			ID           string         `json:"id"`
			Type         string         `json:"type"`
			Source       string         `json:"source"`
			Subject      string         `json:"subject"`
			Subscription string         `json:"subscriptionname"`
			Key          string         `json:"partitionkey"`
			Data         map[string]any `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
		ids[event.ID] = true
		source := "/tenants/84bd8158-6d4d-4958-8b9f-9d6445542f95/applications/5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11"
		if event.SpecVersion != "1.0" || event.Source != source || event.Subject == "" || event.Key == "" ||
			!slices.Contains([]string{"Microsoft.Graph.MessageCreated", "Microsoft.Graph.EventUpdated"}, event.Type) ||
			!slices.Contains([]string{"inbox", "calendar"}, event.Subscription) {
			w.t.Errorf("event %s", line)
		}
		if strings.Contains(strings.ToLower(line), "clientstate") {
			w.t.Errorf("event holds clientState: %s", line)
		}
	}
	if len(ids) != 50 {
		w.t.Errorf("%d different events, want 50", len(ids))
	}
}

// checkNotices looks at what was told about the recreation.
func (w *world) checkNotices() {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "notices.jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}
	counted := map[string]int{}
	for _, match := range regexp.MustCompile(`"type":"(io\.graphsubd[a-z.]+)"`).FindAllSubmatch(text, -1) {
		counted[string(match[1])]++
	}
	want := map[string]int{
		"io.graphsubd.subscription.created": 2, "io.graphsubd.gap.opened": 1,
		"io.graphsubd.subscription.recreated": 1, "io.graphsubd.gap.closed": 1,
	}
	if fmt.Sprint(counted) != fmt.Sprint(want) {
		w.t.Errorf("notices %v, want %v", counted, want)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get := func(path string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.app.Addresses().Telemetry+path, http.NoBody)
		if err != nil {
			return 0, err
		}
		response, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		eventually(t, func() error {
			status, err := get(path)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%s answers %d", path, status)
			}
			return err
		})
	}
}

// pair gives a certificate and its key in PEM.
func pair(t *testing.T) (chain, key string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	ready := server.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(ready.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return encode("CERTIFICATE", ready.Certificate[0]), encode("PRIVATE KEY", der)
}

// TestMetricsPage holds the column "available" of the page on metrics to what
// a process exports.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	chain, key := pair(t)
	w := newWorldOf(t, strings.Replace(settings, `admin: {`, `admin: {tls: {certificate: {env: TLS_CHAIN}, key: {env: TLS_KEY}}, `, 1),
		map[string]string{"TLS_CHAIN": chain, "TLS_KEY": key})
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(graphsubd_[a-z_]+)` \\| ([a-z]+) .*\\| (yes|no) \\|$").FindAllSubmatch(page, -1) {
		documented[string(row[1])] = string(row[2]) + " " + string(row[3])
	}
	// A vector that waits for its first label appears once work has been done.
	eventually(t, func() error {
		families, err := w.app.Gatherer().Gather()
		if err != nil {
			return err
		}
		exported := map[string]string{}
		for _, family := range families {
			if strings.HasPrefix(family.GetName(), "graphsubd_") {
				exported[family.GetName()] = strings.ToLower(family.GetType().String()) + " yes"
			}
		}
		var faults []error
		for name, is := range documented {
			if has := exported[name]; has != is && (has != "" || strings.HasSuffix(is, " yes")) {
				faults = append(faults, fmt.Errorf("%s: the page says %q, the process %q", name, is, has))
			}
		}
		for name := range exported {
			if documented[name] == "" {
				faults = append(faults, fmt.Errorf("%s is not on the page", name))
			}
		}
		return errors.Join(faults...)
	})
}
