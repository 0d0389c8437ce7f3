package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Service is the configuration of a serve process, which can be started and
// killed over and over on the same store.
type Service struct {
	Public string // address of the public listener
	// Clock is how far the clock of its processes is ahead, in whole seconds.
	Clock time.Duration

	t   T
	dir string
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

// The secrets of a Service; no log may hold one.
const (
	ClientSecret = "a-client-secret-of-a-test"
	SigningKey   = "a-signing-key-of-a-test-0123456789abcdef"
)

// NewService writes a configuration with n subscriptions that asks the
// simulator for 12 hours each.
func NewService(t T, sim *Simulator, n int) *Service {
	t.Helper()
	s := &Service{t: t, dir: t.TempDir(), Public: FreeAddress(t)}
	text := fmt.Appendf(nil, serviceConfig, s.Public, sim.Line.Graph, sim.Line.Login, sim.Line.CAFile, sim.Line.TimeScale)
	for i := range n {
		text = fmt.Appendf(text, "  - {name: mailbox-%02[1]d, tenant: contoso, resource: users/u%[1]d/messages, changeTypes: [created], lifetime: 12h, sinks: [archive, notices]}\n", i)
	}
	s.Put("graphsubd.yaml", text)
	s.Put("signing.key", []byte(SigningKey))
	s.Put("client.secret", []byte(ClientSecret))
	return s
}

// Start runs serve, with more flags where they are given.
func (s *Service) Start(flags ...string) *Process {
	return startAt(s.t, s.Clock, append([]string{"serve", "--config", s.Path("graphsubd.yaml"), "--addresses-file", s.Path("addresses.json")}, flags...)...)
}

// Path gives the path of a file of the service.
func (s *Service) Path(name string) string { return filepath.Join(s.dir, name) }

// Put writes a file of the service.
func (s *Service) Put(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.Path(name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Rewrite replaces a text in the configuration, wherever it stands, as an
// editor does.
func (s *Service) Rewrite(from, to string) {
	s.t.Helper()
	text, err := os.ReadFile(s.Path("graphsubd.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		s.t.Fatalf("the configuration has no %q", from)
	}
	s.Put("new.yaml", bytes.ReplaceAll(text, []byte(from), []byte(to)))
	if err := os.Rename(s.Path("new.yaml"), s.Path("graphsubd.yaml")); err != nil {
		s.t.Fatal(err)
	}
}

// Events gives the ids of the events that the archive has, by how often.
func (s *Service) Events() map[string]int {
	s.t.Helper()
	ids := map[string]int{}
	for _, event := range s.Lines("changes.jsonl") {
		id, _ := event["id"].(string)
		ids[id]++
	}
	return ids
}

// Lines reads a file sink. What a crash, or this moment, left half written is
// no line yet.
func (s *Service) Lines(name string) []map[string]any {
	s.t.Helper()
	text, err := os.ReadFile(s.Path(name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var events []map[string]any
	for line := range bytes.Lines(text) {
		var event map[string]any
		if json.Unmarshal(line, &event) == nil {
			events = append(events, event)
		}
	}
	return events
}

// Addresses is where the process listens, as it wrote it.
type Addresses struct {
	Public    string `json:"public"`
	Admin     string `json:"admin"`
	Telemetry string `json:"telemetry"`
}

// Addresses reads them; they are there once the process has bound.
func (s *Service) Addresses() (a Addresses, err error) {
	text, err := os.ReadFile(s.Path("addresses.json"))
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(text, &a)
}

// Telemetry gets a page of the telemetry listener.
func (s *Service) Telemetry(path string) (status int, page string, err error) {
	addresses, err := s.Addresses()
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+addresses.Telemetry+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Metric is an error unless a metric without labels has the value.
func (s *Service) Metric(name, value string) error {
	_, page, err := s.Telemetry("/metrics")
	if err != nil {
		return err
	}
	if !strings.Contains(page, "\ngraphsubd_"+name+" "+value+"\n") {
		return fmt.Errorf("%s is not %s", name, value)
	}
	return nil
}
