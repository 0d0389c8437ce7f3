package test_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the built graphsubd that process tests run.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("GRAPHSUBD_BIN")
	if path == "" {
		t.Fatal("GRAPHSUBD_BIN is not set: run the tests with make test, which builds the binary first")
	}
	return path
}

// process is one graphsubd.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	done chan struct{}

	mu  sync.Mutex
	log bytes.Buffer // standard error; guarded by mu
}

// Write takes standard error.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start runs graphsubd until the test ends, or until it is stopped before.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), args...)
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state tells how it ended
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", args[0], p.logged())
		}
	})
	return p
}

// kill ends the process at once, as an operator's worst day does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// terminate asks the process to end and gives how long that took and its exit
// code.
func (p *process) terminate() (time.Duration, int) {
	p.t.Helper()
	asked := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.t.Fatal("the process does not end")
	}
	return time.Since(asked), p.cmd.ProcessState.ExitCode()
}

// eventually waits until check is nil, and fails with its last error when that
// takes too long.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.After(within)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not within %v: %v", within, err)
		case <-look.C:
		}
	}
}

// simulator is a simulate process and its control API.
type simulator struct {
	*process
	line struct {
		Graph     string  `json:"graph"`
		Login     string  `json:"login"`
		Control   string  `json:"control"`
		CAFile    string  `json:"caFile"`
		TimeScale float64 `json:"timeScale"`
		Seed      uint64  `json:"seed"`
	}
}

func startSimulator(t *testing.T, args ...string) *simulator {
	t.Helper()
	s := &simulator{process: start(t, append([]string{"simulate"}, args...)...)}
	text, err := s.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("simulate printed no start line: %v\n%s", err, s.logged())
	}
	if err := json.Unmarshal(text, &s.line); err != nil {
		t.Fatalf("start line %q: %v", text, err)
	}
	return s
}

// control makes a call of the control API and reads its answer into result,
// which may be nil.
func (s *simulator) control(method, path string, body, result any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.line.Control+"/sim/v1/"+path, bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %s %v", method, path, response.StatusCode, answer, err)
	}
	if result != nil {
		if err := json.Unmarshal(answer, result); err != nil {
			s.t.Fatalf("%s %s: %q: %v", method, path, answer, err)
		}
	}
}

type counts struct {
	Created      int `json:"created"`
	Renewed      int `json:"renewed"`
	Removed      int `json:"removed"`
	Deleted      int `json:"deleted"`
	Expired      int `json:"expired"`
	Sent         int `json:"sent"`
	Acknowledged int `json:"acknowledged"`
	Queued       int `json:"queued"`
	Live         int `json:"live"`
}

func (s *simulator) counts() (c counts) {
	s.t.Helper()
	s.control(http.MethodGet, "counts", nil, &c)
	return c
}

type liveSubscription struct {
	ID       string `json:"id"`
	Resource string `json:"resource"`
}

func (s *simulator) live() []liveSubscription {
	s.t.Helper()
	var state struct {
		Subscriptions []liveSubscription `json:"subscriptions"`
	}
	s.control(http.MethodGet, "state", nil, &state)
	return state.Subscriptions
}

// service is the configuration of a serve process, which can be started and
// killed over and over on the same store.
type service struct {
	t      *testing.T
	dir    string
	public string
}

const serviceConfig = `instance: test
publicURL: http://%[1]s
listen:
  public: {address: "%[1]s"}
  admin: {address: "127.0.0.1:0"}
  telemetry: {address: "127.0.0.1:0"}
signingKeys: [{file: signing.key}]
store: {sqlite: {path: data/graphsubd.db}}
apps:
  - name: hooks
    clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11
    credential: {clientSecret: {file: client.secret}}
    endpoints: {graph: "%[2]s", login: "%[3]s", caFile: %[4]s, timeScale: %[5]g}
tenants:
  - {name: contoso, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f95, app: hooks}
sinks:
  - {name: archive, events: [changes], file: {path: changes.jsonl}}
  - {name: notices, events: [gaps, operations], file: {path: notices.jsonl}}
subscriptions:
`

// newService writes a configuration with n subscriptions that asks the
// simulator for 12 hours each.
func newService(t *testing.T, sim *simulator, n int) *service {
	t.Helper()
	s := &service{t: t, dir: t.TempDir(), public: freeAddress(t)}
	text := fmt.Sprintf(serviceConfig, s.public, sim.line.Graph, sim.line.Login, sim.line.CAFile, sim.line.TimeScale)
	for i := range n {
		text += fmt.Sprintf("  - {name: mailbox-%02[1]d, tenant: contoso, resource: users/u%[1]d/messages, changeTypes: [created], lifetime: 12h, sinks: [archive, notices]}\n", i)
	}
	for name, content := range map[string]string{
		"graphsubd.yaml": text, "signing.key": strings.Repeat("k", 40), "client.secret": "anything",
	} {
		if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *service) path(name string) string { return filepath.Join(s.dir, name) }

func (s *service) start() *process {
	return start(s.t, "serve", "--config", s.path("graphsubd.yaml"), "--addresses-file", s.path("addresses.json"))
}

// events gives the ids of the events that the archive has, by how often.
func (s *service) events() map[string]int {
	s.t.Helper()
	ids := map[string]int{}
	for _, event := range s.lines("changes.jsonl") {
		id, _ := event["id"].(string)
		ids[id]++
	}
	return ids
}

func (s *service) lines(name string) []map[string]any {
	s.t.Helper()
	text, err := os.ReadFile(s.path(name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var events []map[string]any
	for line := range bytes.Lines(text) {
		var event map[string]any
		if err := json.Unmarshal(line, &event); err != nil {
			continue // the end of a line that is being written
		}
		events = append(events, event)
	}
	return events
}

// freeAddress gives an address on loopback that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener := httpListener(t)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// rewrite replaces a text in the configuration, as an editor does.
func (s *service) rewrite(from, to string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path("graphsubd.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		s.t.Fatalf("the configuration has no %q", from)
	}
	changed := bytes.Replace(text, []byte(from), []byte(to), 1)
	if err := os.WriteFile(s.path("new.yaml"), changed, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.path("new.yaml"), s.path("graphsubd.yaml")); err != nil {
		s.t.Fatal(err)
	}
}

// metric is an error unless a metric without labels has the value.
func (s *service) metric(name, value string) error {
	s.t.Helper()
	text, err := os.ReadFile(s.path("addresses.json"))
	if err != nil {
		return err
	}
	var addresses struct {
		Telemetry string `json:"telemetry"`
	}
	if err := json.Unmarshal(text, &addresses); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+addresses.Telemetry+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if !bytes.Contains(page, []byte("\ngraphsubd_"+name+" "+value+"\n")) {
		return fmt.Errorf("%s is not %s", name, value)
	}
	return nil
}
