package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	dto "github.com/prometheus/client_model/go"
)

// demoSummary is how often everything happened, as each side counted it for
// itself.
type demoSummary struct {
	Simulator struct {
		Created      int `json:"created"`
		Renewed      int `json:"renewed"`
		Removed      int `json:"removed"`
		Sent         int `json:"sent"`
		Acknowledged int `json:"acknowledged"`
	} `json:"simulator"`
	Graphsubd struct {
		Created     int `json:"created"`
		Recreated   int `json:"recreated"`
		Renewed     int `json:"renewed"`
		Handshakes  int `json:"handshakes"`
		Accepted    int `json:"accepted"`
		Delivered   int `json:"delivered"`
		Duplicates  int `json:"duplicates"`
		Quarantined int `json:"quarantined"`
		Lost        int `json:"lost"`
		Gaps        int `json:"gaps"`
	} `json:"graphsubd"`
	Sink struct {
		Events int `json:"events"`
		Unique int `json:"unique"`
	} `json:"sink"`

	simHandshakes int // of the simulator; graphsubd makes one with itself besides
}

// summary counts, after both sides have stopped.
func (d *demoStage) summary() demoSummary {
	var s demoSummary
	sim := d.sim.Counts()
	s.Simulator.Created, s.Simulator.Renewed, s.Simulator.Removed = sim.Created, sim.Renewed, sim.Removed
	s.Simulator.Sent, s.Simulator.Acknowledged, s.simHandshakes = sim.Sent, sim.Acknowledged, sim.Handshakes

	families, err := d.app.Gatherer().Gather()
	if err != nil {
		d.log.Error("metrics cannot be read", "error", err.Error())
	}
	count := func(name string, labels ...string) int { return sumCounters(families, name, labels...) }
	g := &s.Graphsubd
	g.Recreated = count("graphsubd_recreated_total")
	g.Created = count("graphsubd_graph_requests_total", "operation", "create", "reason", "none") - g.Recreated
	g.Renewed = count("graphsubd_renewals_total", "outcome", "renewed")
	g.Handshakes = count("graphsubd_handshakes_total", "outcome", "answered") - 1 // less the one with itself
	g.Accepted = count("graphsubd_notifications_total", "verdict", "accepted")
	g.Duplicates = count("graphsubd_notifications_total", "verdict", "duplicate")
	g.Quarantined = count("graphsubd_notifications_total", "verdict", "quarantined")
	g.Delivered = count("graphsubd_deliveries_total", "sink", "console", "outcome", "delivered")
	g.Gaps = count("graphsubd_gaps_total")
	s.Sink.Events, s.Sink.Unique = d.sink.events(), d.sink.unique()
	g.Lost = max(0, sim.Acknowledged-s.Sink.Unique-g.Quarantined)
	return s
}

// sumCounters adds up the children of a counter that have the given labels,
// which come as name, value, name, value.
func sumCounters(families []*dto.MetricFamily, name string, labels ...string) int {
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			if hasLabels(metric, labels) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

func hasLabels(metric *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, pair := range metric.GetLabel() {
			found = found || pair.GetName() == labels[i] && pair.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// leastAccepted is how many notifications a demo has to bring to prove
// anything.
const leastAccepted = 30

// verdict is nil when both sides agree and everything was seen.
func (s *demoSummary) verdict() error {
	g, sim := &s.Graphsubd, &s.Simulator
	var faults []string
	need := func(holds bool, format string, args ...any) {
		if !holds {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	need(g.Lost == 0, "%d notifications were acknowledged and lost", g.Lost)
	need(g.Created+g.Recreated == sim.Created, "graphsubd counts %d creates, the simulator %d", g.Created+g.Recreated, sim.Created)
	need(g.Renewed == sim.Renewed, "graphsubd counts %d renewals, the simulator %d", g.Renewed, sim.Renewed)
	need(g.Recreated == sim.Removed, "%d subscriptions were removed, %d recreated", sim.Removed, g.Recreated)
	need(g.Gaps == g.Recreated, "%d gaps were recorded for %d recreations", g.Gaps, g.Recreated)
	need(g.Handshakes == s.simHandshakes, "graphsubd counts %d handshakes, the simulator %d", g.Handshakes, s.simHandshakes)
	need(sim.Sent == sim.Acknowledged, "%d notifications were sent, %d acknowledged", sim.Sent, sim.Acknowledged)
	need(g.Accepted-g.Duplicates == sim.Acknowledged-g.Quarantined, "graphsubd accepted %d, %d of them twice; %d were acknowledged", g.Accepted, g.Duplicates, sim.Acknowledged)
	need(g.Delivered == s.Sink.Events, "graphsubd delivered %d events, the sink has %d", g.Delivered, s.Sink.Events)
	need(s.Sink.Events == s.Sink.Unique, "the sink has %d events, %d of them different", s.Sink.Events, s.Sink.Unique)
	need(g.Accepted >= leastAccepted, "only %d notifications were accepted, want %d: give it more time with --for", g.Accepted, leastAccepted)
	need(g.Renewed > 0, "nothing was renewed: give it more time with --for")
	need(g.Recreated > 0, "nothing was recreated: give it more time with --for")
	if len(faults) == 0 {
		return nil
	}
	return errors.New("the demo did not show what it should:\n  " + strings.Join(faults, "\n  "))
}

// table prints the summary for a person.
func (s *demoSummary) table(w io.Writer) error {
	g := &s.Graphsubd
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := []string{
		"\nSIMULATOR\tGRAPHSUBD\tSINK",
		fmt.Sprintf("created %d\tcreated %d, recreated %d\t", s.Simulator.Created, g.Created, g.Recreated),
		fmt.Sprintf("renewed %d\trenewed %d\t", s.Simulator.Renewed, g.Renewed),
		fmt.Sprintf("removed %d\tgaps %d\t", s.Simulator.Removed, g.Gaps),
		fmt.Sprintf("sent %d\taccepted %d\tevents %d", s.Simulator.Sent, g.Accepted, s.Sink.Events),
		fmt.Sprintf("acknowledged %d\tdelivered %d, lost %d\tunique %d", s.Simulator.Acknowledged, g.Delivered, g.Lost, s.Sink.Unique),
	}
	if _, err := io.WriteString(t, strings.Join(rows, "\n")+"\n"); err != nil {
		return err
	}
	return t.Flush()
}

// demoSink is what the console sink writes to. It counts the events.
type demoSink struct {
	mu    sync.Mutex
	total int
	ids   map[string]bool
}

func newDemoSink() *demoSink { return &demoSink{ids: map[string]bool{}} }

// Write takes whole lines, one CloudEvent each.
func (s *demoSink) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		var event struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return 0, fmt.Errorf("sink got no CloudEvent: %w", err)
		}
		s.mu.Lock()
		s.total++
		s.ids[event.ID] = true
		s.mu.Unlock()
	}
	return len(lines), nil
}

func (s *demoSink) events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *demoSink) unique() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}
