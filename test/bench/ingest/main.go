// Command ingest measures what the receiver costs: the benchmark group
// "ingest". Each round loads a bare handler, which reads a body and answers
// 202, and then graphsubd on SQLite and on PostgreSQL, all as processes of
// their own. It prints one figure per line: name, value, unit.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/load"
	"github.com/graphsubd/graphsubd/test/postgres"
)

const (
	rounds      = 5
	length      = 10 * time.Second
	connections = 64
	largeBatch  = 20
	// patient is how many connections a load that waits for nobody may use.
	patient = 256
	// drained bounds how long the backlog of a round may take.
	drained = 2 * time.Minute
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "bare" {
		fmt.Fprintln(os.Stderr, bare())
		os.Exit(1)
	}
	os.Exit(harness.Main(run))
}

// bare serves the handler that everything is compared with.
func bare() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	})}
	return server.Serve(listener)
}

// bench is what all rounds use.
type bench struct {
	harness.T
	server  *postgres.Server
	bare    string // address
	stalled string // URL of a sink that takes nothing
	changes atomic.Int64
	results map[string][]float64
}

func run(t harness.T) {
	server, err := postgres.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	b := &bench{T: t, server: server, bare: startBare(t), stalled: stalledSink(t), results: map[string][]float64{}}
	for range rounds {
		b.round()
	}
	widest := 1.0
	b.figure("ingest_bare_rps", "POST/s")
	for _, prefix := range []string{"", "pg_"} {
		for _, f := range [][2]string{
			{"ingest_durable_rps", "POST/s"},
			{"ingest_ratio", "ratio"},
			{"ingest_ratio_draining", "ratio"},
			{"ingest_drain_s", "s"},
			{"ingest_items_rps_batch20", "items/s"},
			{"ingest_rss_mb", "MiB"},
			{"ingest_p99_ms", "ms"},
		} {
			b.figure(prefix+f[0], f[1])
		}
		widest = max(widest, harness.Spread(b.results[prefix+"ingest_ratio"]))
	}
	harness.Figure("cpus", float64(runtime.NumCPU()), "count")
	harness.Figure("rounds", rounds, "count")
	harness.Figure("spread", widest, "ratio")
}

func (b *bench) figure(name, unit string) {
	harness.Figure(name, harness.Median(b.results[name]), unit)
}

func (b *bench) note(name string, value float64) {
	b.results[name] = append(b.results[name], value)
	b.Logf("%s %.3f", name, value)
}

// round measures everything once.
func (b *bench) round() {
	bare := b.flood(b.bare, load.Target{Path: "/notifications"}, 1)
	b.note("ingest_bare_rps", bare)
	for _, prefix := range []string{"", "pg_"} {
		s := b.start(prefix, b.stalled)
		durable := b.flood(s.service.Public, s.target, 1)
		b.note(prefix+"ingest_durable_rps", durable)
		b.note(prefix+"ingest_ratio", durable/bare)
		b.note(prefix+"ingest_rss_mb", harness.ResidentMB(b, s.process))
		client := b.client(s.service.Public, s.target, 1)
		client.Connections = patient
		took, err := client.Pace(b.Context(), length, durable/2)
		if err != nil {
			b.Fatal(err)
		}
		b.note(prefix+"ingest_p99_ms", float64(took[len(took)*99/100].Microseconds())/1000)
		s.process.Kill()

		s = b.start(prefix, b.stalled)
		b.note(prefix+"ingest_items_rps_batch20", largeBatch*b.flood(s.service.Public, s.target, largeBatch))
		s.process.Kill()

		s = b.start(prefix, "")
		b.note(prefix+"ingest_ratio_draining", b.flood(s.service.Public, s.target, 1)/bare)
		began := time.Now()
		harness.Eventually(b, drained, func() error { return s.empty() })
		b.note(prefix+"ingest_drain_s", time.Since(began).Seconds())
		s.process.Kill()
	}
}

func (b *bench) client(address string, target load.Target, batch int) *load.Client {
	return &load.Client{Address: address, Target: target, Connections: connections, Batch: batch, First: &b.changes}
}

func (b *bench) flood(address string, target load.Target, batch int) float64 {
	rate, err := b.client(address, target, batch).Flood(b.Context(), length)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}

// started is a service with one subscription and an empty store.
type started struct {
	service *harness.Service
	process *harness.Process
	target  load.Target
}

// start runs one on the store of the prefix. Its events go to a file, or to a
// webhook when there is one.
func (b *bench) start(prefix, webhook string) *started {
	sim := harness.StartSimulator(b)
	defer sim.Kill()
	s := &started{service: harness.NewService(b, sim, 1)}
	if prefix == "pg_" {
		s.service.Put("database.url", []byte(b.server.Schema(b)))
		s.service.Rewrite("sqlite: {path: data/graphsubd.db}", "postgres: {url: {file: database.url}}")
		s.service.Rewrite("publicURL:", "lease: {file: {path: lease, single: true}}\npublicURL:")
	}
	if webhook != "" {
		s.service.Rewrite("file: {path: changes.jsonl}", fmt.Sprintf("webhook: {url: %q, secrets: [{file: signing.key}]}", webhook))
	}
	s.process = s.service.Start()
	harness.Eventually(b, 30*time.Second, func() error {
		if targets := load.Targets(b, sim); len(targets) == 1 {
			s.target = targets[0]
			return s.service.Metric(`subscriptions{state="active"}`, "1")
		}
		return fmt.Errorf("no subscription lives")
	})
	return s
}

// empty is an error while something waits for a sink.
func (s *started) empty() error {
	_, page, err := s.service.Telemetry("/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "graphsubd_backlog_rows{") && !strings.HasSuffix(line, " 0\n") {
			return fmt.Errorf("not empty: %s", line)
		}
	}
	return nil
}

// startBare runs this program again, as the bare handler.
func startBare(t harness.T) (address string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, "bare")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it ends by the signal
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// stalledSink takes connections and never answers, so that nothing is delivered.
func stalledSink(t harness.T) (url string) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String() + "/"
}
