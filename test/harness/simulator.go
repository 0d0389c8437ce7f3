package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// Simulator is a simulate process and its control API.
type Simulator struct {
	*Process
	// Line is what it printed when it was ready.
	Line struct {
		Graph     string  `json:"graph"`
		Login     string  `json:"login"`
		Control   string  `json:"control"`
		CAFile    string  `json:"caFile"`
		TimeScale float64 `json:"timeScale"`
		Seed      uint64  `json:"seed"`
	}
}

// StartSimulator runs simulate and waits until it is ready.
func StartSimulator(t T, args ...string) *Simulator {
	t.Helper()
	s := &Simulator{Process: Start(t, append([]string{"simulate", "--ca-file", filepath.Join(t.TempDir(), "ca.pem")}, args...)...)}
	text, err := s.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("simulate printed no start line: %v\n%s", err, s.Logged())
	}
	if err := json.Unmarshal(text, &s.Line); err != nil {
		t.Fatalf("start line %q: %v", text, err)
	}
	return s
}

// Control makes a call of the control API and reads its answer into result,
// which may be nil.
func (s *Simulator) Control(method, path string, body, result any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.Line.Control+"/sim/v1/"+path, bytes.NewReader(text))
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

// Counts is what the simulator has counted.
type Counts struct {
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

// Counts asks for the counts of this moment.
func (s *Simulator) Counts() (c Counts) {
	s.t.Helper()
	s.Control(http.MethodGet, "counts", nil, &c)
	return c
}

// Subscription is one that lives.
type Subscription struct {
	ID       string `json:"id"`
	Resource string `json:"resource"`
}

// Live asks for the subscriptions that live, in order of their creation.
func (s *Simulator) Live() []Subscription {
	s.t.Helper()
	var state struct {
		Subscriptions []Subscription `json:"subscriptions"`
	}
	s.Control(http.MethodGet, "state", nil, &state)
	return state.Subscriptions
}
