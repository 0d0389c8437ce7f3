// Package replicas runs several graphsubd processes as a chart with PostgreSQL
// would: one database, one Lease of the chart, one address that Graph is given
// and that any of them answers, and the chart's account for each of them, with
// a network to the API server of its own.
package replicas

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/test/controlplane"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// The lease of the replicas is the one of the configuration's defaults, which
// is also the shortest that it takes.
const (
	Duration      = 60 * time.Second
	RenewDeadline = 40 * time.Second
	RetryPeriod   = 1500 * time.Millisecond
	CallTimeout   = 5 * time.Second
	// Graceful bounds a take-over from a leader that let go, and Crash one
	// from a leader that cannot.
	Graceful = RetryPeriod*22/10 + time.Second
	Crash    = Duration + RetryPeriod*44/10 + 2*CallTimeout
)

// starting bounds how long replicas that just started, and have nothing in
// their way, take to do what they are for.
const starting = 30 * time.Second

// timeScale is how much faster Graph lives. Its limits on writes and the
// lifetimes of the subscriptions are out of the way then, while the lease and
// the time-outs of calls are what they are.
const timeScale = 60

// young is how long a new subscription answers no reauthorizationRequired: its
// creation has done that.
const young = 10*time.Minute/timeScale + time.Second

// Options of a Set.
type Options struct {
	Replicas, Subscriptions int
	// Chart is the folder of the chart.
	Chart string
	// Clocks says how far the clock of each replica is ahead; nil is right.
	Clocks []time.Duration
}

// Set is a few replicas.
type Set struct {
	Sim       *harness.Simulator
	Namespace string
	Replicas  []*Replica

	t harness.T
}

// Replica is one of them.
type Replica struct {
	*harness.Service
	Process *harness.Process
	API     *harness.Network // from it to the API server
}

// Start installs the chart in a namespace, and runs the replicas until one of
// them has made all subscriptions, and these may be renewed.
func Start(t harness.T, plane *controlplane.ControlPlane, server *postgres.Server, namespace string, o Options) *Set {
	t.Helper()
	plane.Install(t, o.Chart, namespace, controlplane.Values)
	s := &Set{Sim: harness.StartSimulator(t, "--time-scale", strconv.Itoa(timeScale)), Namespace: namespace, t: t}
	database := server.Schema(t)
	var addresses []string
	for i := range o.Replicas {
		r := &Replica{Service: harness.NewService(t, s.Sim, o.Subscriptions), API: harness.NewNetwork(t, plane.Address)}
		if o.Clocks != nil {
			r.Clock = o.Clocks[i]
		}
		s.Replicas, addresses = append(s.Replicas, r), append(addresses, r.Public)
	}
	public := harness.NewNetwork(t, addresses...)
	for _, r := range s.Replicas {
		r.Put("database.url", []byte(database))
		r.Rewrite("publicURL: http://"+r.Public, "publicURL: http://"+public.Address)
		r.Rewrite("sqlite: {path: data/graphsubd.db}}", fmt.Sprintf(
			"postgres: {url: {file: database.url}}}\nlease: {kubernetes: {namespace: %s, name: graphsubd, kubeconfig: %q}}",
			namespace, plane.ServiceAccount(t, namespace, r.API.Address)))
		r.Process = r.Start()
	}
	harness.Eventually(t, starting+time.Duration(o.Subscriptions)*100*time.Millisecond, func() error {
		return want("live", s.Sim.Counts().Live, o.Subscriptions)
	})
	grown := time.After(young)
	for _, r := range s.Replicas {
		harness.Eventually(t, starting, func() error {
			_, err := r.leads()
			return err
		})
	}
	<-grown
	return s
}

// Restart starts a replica that has ended, and waits until it is up.
func (s *Set) Restart(r *Replica) {
	s.t.Helper()
	r.Process = r.Start()
	harness.Eventually(s.t, starting, func() error {
		status, _, err := r.Telemetry("/readyz")
		return errors.Join(err, want("readiness", status, http.StatusOK))
	})
}

// leads says whether a replica says that it leads.
func (r *Replica) leads() (bool, error) {
	_, page, err := r.Telemetry("/metrics")
	if err != nil {
		return false, err
	}
	_, value, found := strings.Cut(page, "\ngraphsubd_leader{election=\"test\"} ")
	if !found {
		return false, errors.New("no leader metric")
	}
	return strings.HasPrefix(value, "1"), nil
}

// Leader gives the one replica that leads, or nil. Two are a failure.
func (s *Set) Leader() (leader *Replica) {
	s.t.Helper()
	for _, r := range s.Replicas {
		// One that has ended, or that has just started, does not answer.
		if leads, err := r.leads(); err != nil || !leads {
			continue
		}
		// The first may have let go since it was asked.
		if leader != nil {
			if still, err := leader.leads(); err == nil && still {
				s.t.Fatal("two replicas say that they lead")
			}
		}
		leader = r
	}
	return leader
}

// Lead waits for a leader.
func (s *Set) Lead(within time.Duration) (leader *Replica) {
	s.t.Helper()
	harness.Eventually(s.t, within, func() error {
		if leader = s.Leader(); leader == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
	return leader
}

// Followers are all but one.
func (s *Set) Followers(leader *Replica) (others []*Replica) {
	for _, r := range s.Replicas {
		if r != leader {
			others = append(others, r)
		}
	}
	return others
}

// Reauthorize has Graph ask for the renewal of a subscription, which the
// leader answers with a write.
func (s *Set) Reauthorize(id string) {
	s.t.Helper()
	s.Sim.Control(http.MethodPost, "lifecycle", map[string]any{"id": id, "event": "reauthorizationRequired"}, nil)
}

// Events counts the events that any replica has delivered, by their ids.
func (s *Set) Events() map[string]int {
	s.t.Helper()
	all := map[string]int{}
	for _, r := range s.Replicas {
		for id, times := range r.Events() {
			all[id] += times
		}
	}
	return all
}

// Write is a request that changes a subscription.
type Write struct {
	At     time.Time
	Method string
	Path   string
	Status int
	Term   int
}

// Writes are all that the simulator was sent, in order.
func (s *Set) Writes() (writes []Write) {
	s.t.Helper()
	var log []struct {
		Time    time.Time `json:"time"`
		Service string    `json:"service"`
		Method  string    `json:"method"`
		Path    string    `json:"path"`
		Status  int       `json:"status"`
		ID      string    `json:"client-request-id"`
	}
	s.Sim.Control(http.MethodGet, "log?after=0", nil, &log)
	for _, entry := range log {
		if entry.Service != "graph" || entry.Method == http.MethodGet {
			continue
		}
		text, _, _ := strings.Cut(entry.ID, "-")
		term, err := strconv.Atoi(text)
		if err != nil || term == 0 {
			s.t.Fatalf("a write names no term: %+v", entry)
		}
		writes = append(writes, Write{At: entry.Time, Method: entry.Method, Path: entry.Path, Status: entry.Status, Term: term})
	}
	return writes
}

// WritesAfter are those that came after a moment.
func (s *Set) WritesAfter(moment time.Time) (writes []Write) {
	s.t.Helper()
	for _, w := range s.Writes() {
		if w.At.After(moment) {
			writes = append(writes, w)
		}
	}
	return writes
}

// Renewed counts the subscriptions that were renewed after a moment.
func (s *Set) Renewed(after time.Time) int {
	s.t.Helper()
	paths := map[string]bool{}
	for _, w := range s.WritesAfter(after) {
		if w.Method == http.MethodPatch && w.Status == http.StatusOK {
			paths[w.Path] = true
		}
	}
	return len(paths)
}

// TermsInOrder fails when a write of an older term came after one of a newer.
func (s *Set) TermsInOrder() {
	s.t.Helper()
	newest := 0
	for _, w := range s.Writes() {
		if w.Term < newest {
			s.t.Fatalf("a write of term %d came after term %d had begun: %+v", w.Term, newest, w)
		}
		newest = max(newest, w.Term)
	}
	if newest == 0 {
		s.t.Fatal("there was no write at all")
	}
}

func want(what string, got, wanted int) error {
	if got != wanted {
		return fmt.Errorf("%s: %d, want %d", what, got, wanted)
	}
	return nil
}
