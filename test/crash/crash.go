// Package crash kills graphsubd over and over while notifications arrive, and
// looks for those that were acknowledged and never delivered.
package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/load"
	"github.com/graphsubd/graphsubd/test/postgres"
)

const (
	subscriptions = 3
	// connections is how many POSTs are under way at once.
	connections = 8
	// alive is how long a process may take to serve.
	alive = 30 * time.Second
	// settled is how long the last events may take: what a killed process had
	// claimed is free after a minute.
	settled = 3 * time.Minute
	// A store that is stalled for this long has not answered in time.
	stall = 4 * time.Second
)

// Outcome is what the kills did.
type Outcome struct {
	Kills, Acknowledged, Lost, Duplicates int
}

// victims is one service, or two on one database.
type victims struct {
	harness.T
	services  []*harness.Service
	processes []*harness.Process
	sender    *load.Sender
	random    *rand.Rand

	// prepare, if set, is called when the store is there and nothing is sent.
	prepare func()
	// The two kinds of trouble with a store: each lasts until the function
	// that it gives is called, or by itself for a while.
	fullDisk, stalled func() (end func())
}

// SQLite kills a service on a SQLite store so many times.
func SQLite(t harness.T, kills int) Outcome {
	t.Helper()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	v := &victims{T: t, services: []*harness.Service{harness.NewService(t, sim, subscriptions)}}
	inject := func(what string) func() func() {
		return func() func() {
			_, stop := harness.Trace(t, v.processes[0], "-e", "trace=pwrite64,fsync,fdatasync", "-e", "inject="+what)
			return stop
		}
	}
	v.fullDisk = inject("pwrite64:error=ENOSPC")
	v.stalled = inject(fmt.Sprintf("fsync,fdatasync:delay_enter=%d", stall.Microseconds()))
	return v.run(sim, kills)
}

// Postgres kills two replicas on a database in turn, together so many times.
func Postgres(t harness.T, server *postgres.Server, kills int) Outcome {
	t.Helper()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	address, lease := server.Schema(t), filepath.Join(t.TempDir(), "lease")
	_, schema, _ := strings.Cut(address, "search_path=")
	schema, _, _ = strings.Cut(schema, "&")
	v := &victims{T: t}
	for range 2 {
		s := harness.NewService(t, sim, subscriptions)
		s.Put("database.url", []byte(address))
		s.Rewrite("sqlite: {path: data/graphsubd.db}}",
			fmt.Sprintf("postgres: {url: {file: database.url}}}\nlease: {file: {path: %s, single: true}}", lease))
		v.services = append(v.services, s)
	}
	v.services[1].Rewrite("publicURL: http://"+v.services[1].Public, "publicURL: http://"+v.services[0].Public)
	// The server's own words for a disk that is full. The trigger is made
	// before there is load, and only its function changes under it: that takes
	// no lock that the service could be in the way of.
	disk := func(body string) {
		server.Exec(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s.disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; END $$`, schema, body))
	}
	v.prepare = func() {
		disk("RETURN NEW")
		server.Exec(t, fmt.Sprintf(`CREATE TRIGGER disk BEFORE INSERT ON %[1]s.notification FOR EACH ROW EXECUTE FUNCTION %[1]s.disk()`, schema))
	}
	v.fullDisk = func() func() {
		disk("RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'")
		return func() { disk("RETURN NEW") }
	}
	v.stalled = func() func() {
		done := make(chan struct{})
		go func() { // joined by the function that is given
			defer close(done)
			server.Exec(t, fmt.Sprintf(`DO $$ BEGIN LOCK TABLE %s.notification IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep(%f); END $$`,
				schema, stall.Seconds()))
		}()
		return func() { <-done }
	}
	return v.run(sim, kills)
}

// run sends and kills. The second kill hits a process whose disk is full, and
// the fourth one whose store is stalled; more of both follow when there are
// many kills.
func (v *victims) run(sim *harness.Simulator, kills int) Outcome {
	v.Helper()
	seed := uint64(time.Now().UnixNano())
	v.Logf("seed %d", seed)
	v.random = rand.New(rand.NewPCG(seed, 0))
	v.sender = &load.Sender{}
	for i, s := range v.services {
		v.processes = append(v.processes, s.Start())
		v.ready(i)
		v.sender.Addresses = append(v.sender.Addresses, s.Public)
	}
	harness.Eventually(v, alive, func() error {
		if v.sender.Targets = load.Targets(v, sim); len(v.sender.Targets) != subscriptions {
			return fmt.Errorf("%d live", len(v.sender.Targets))
		}
		return nil
	})
	if v.prepare != nil {
		v.prepare()
	}
	ctx, stop := context.WithCancel(v.Context())
	defer stop()
	sent := make(chan int64, 1)
	go func() { sent <- v.sender.Run(ctx, connections) }() // joined below
	for n := range kills {
		switch n % 25 {
		case 1:
			v.trouble(n, "full disk", v.fullDisk)
		case 3:
			v.trouble(n, "stalled store", v.stalled)
		default:
			v.acknowledges()
			<-time.After(time.Duration(v.random.IntN(300)) * time.Millisecond)
			v.kill(n)
		}
	}
	v.acknowledges()
	stop()
	return v.outcome(kills, <-sent)
}

// trouble kills in the middle of it, once notifications are refused for it.
func (v *victims) trouble(n int, what string, begin func() func()) {
	v.acknowledges()
	before := v.sender.Refused.Load()
	end := begin()
	harness.Eventually(v, alive, func() error {
		if v.sender.Refused.Load() == before {
			return errors.New(what + ": nothing is refused")
		}
		return nil
	})
	v.kill(n)
	end()
}

// kill ends a process, and starts it again.
func (v *victims) kill(n int) {
	i := n % len(v.processes)
	v.processes[i].Kill()
	v.processes[i] = v.services[i].Start()
	v.ready(i)
}

func (v *victims) ready(i int) {
	harness.Eventually(v, alive, func() error {
		status, _, err := v.services[i].Telemetry("/readyz")
		if err == nil && status != http.StatusOK {
			err = errors.New("not ready")
		}
		return err
	})
}

// acknowledges waits until something new is.
func (v *victims) acknowledges() {
	before := v.sender.Acknowledged.Load()
	harness.Eventually(v, alive, func() error {
		if v.sender.Acknowledged.Load() <= before {
			return errors.New("nothing is acknowledged")
		}
		return nil
	})
}

// outcome looks for every change that was sent; all are acknowledged by now.
func (v *victims) outcome(kills int, sent int64) Outcome {
	o := Outcome{Kills: kills, Acknowledged: int(sent)}
	began := time.Now()
	times := map[string]int{}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		clear(times)
		o.Lost = 0
		for _, s := range v.services {
			for id, n := range load.Delivered(s) {
				times[id] += n
			}
		}
		for n := range sent {
			if times[load.ResourceID(n)] == 0 {
				o.Lost++
			}
		}
		if o.Lost == 0 || time.Since(began) > settled {
			break
		}
		<-look.C
	}
	for _, n := range times {
		o.Duplicates += n - 1
	}
	v.Logf("%d acknowledged, %d refused, %d without an answer; all there after %v",
		sent, v.sender.Refused.Load(), v.sender.Lost.Load(), time.Since(began).Round(time.Millisecond))
	return o
}
