//go:build bench

package renewal_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// TestConverge is the benchmark group "converge": 10,000 subscriptions come to
// life from nothing in fake time under the documented budgets, in one tenant
// and in a thousand, and are then kept through a month with 1 % transient
// errors, two upstream purges and an outage of six hours. It prints figures;
// its bars are held by whoever reads them.
func TestConverge(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range []struct {
		prefix          string
		tenants, each   int
		writesPerSecond float64
	}{{"", 1, 10_000, 500.0 / 20}, {"tenants_", 1000, 10, 2000.0 / 20}} {
		synctest.Test(t, func(t *testing.T) {
			c := newConvergence(t, key, shape.tenants, shape.each)
			took := c.bring(true)
			fmt.Printf("%sconverge_quota_ratio %.3f ratio\n", shape.prefix, float64(shape.tenants*shape.each)/took.Seconds()/(shape.writesPerSecond*0.9))
			fmt.Printf("%sconverge_throttled %d count\n", shape.prefix, c.sim.Counts().Throttled)
			lapsed, twins := c.month()
			fmt.Printf("%slapsed_avoidable %d count\n", shape.prefix, lapsed)
			fmt.Printf("%sduplicates_left %d count\n", shape.prefix, twins)
			c.close()
		})
		synctest.Test(t, func(t *testing.T) {
			c := newConvergence(t, key, shape.tenants, shape.each)
			fmt.Printf("%sconverge_fresh_s %.0f s\n", shape.prefix, c.bring(false).Seconds())
			c.close()
		})
	}
}

// convergence is a manager and a simulated Graph with many tenants.
type convergence struct {
	t       *testing.T
	sim     *graphsim.Sim
	desired renewal.Desired
	total   int
	store   *fakeStore
	stop    context.CancelCauseFunc
	done    chan error
	closing []func()
}

func newConvergence(t *testing.T, key *rsa.PrivateKey, tenants, each int) *convergence {
	t.Helper()
	inbound := graphsim.NewTransport(map[string]http.Handler{"our": echo()})
	sim, err := graphsim.New(graphsim.Config{
		Seed: 1, HTTPClient: &http.Client{Transport: inbound}, SigningKey: key, LoginURL: "https://login.sim", Budgets: graphsim.DocumentedBudgets(),
		Quotas: graphsim.Quotas{Mailbox: -1}, LogSize: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	outbound := graphsim.NewTransport(map[string]http.Handler{"graph.sim": sim.Graph(), "login.sim": sim.Login()})
	client, err := msgraph.New(msgraph.Config{
		Cloud: msgraph.CloudGlobal, GraphURL: "https://graph.sim", LoginURL: "https://login.sim", ClientID: simApp,
		Credential: msgraph.Credential{ClientSecret: func() (string, error) { return "secret", nil }}, Transport: outbound,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &convergence{t: t, sim: sim, total: tenants * each}
	for i := range tenants {
		name, id := fmt.Sprintf("t%04d", i), fmt.Sprintf("84bd8158-6d4d-4958-8b9f-%012d", i)

		c.desired.Tenants = append(c.desired.Tenants, renewal.Tenant{Name: name, App: "hooks", Client: client.Tenant(id), Scale: 1, QuotaShare: 0.9})
		for n := range each {
			c.desired.Wishes = append(c.desired.Wishes, graph.Wish{
				Name: fmt.Sprintf("%s-%05d", name, n), Gen: "g", Tenant: name, Resource: fmt.Sprintf("users/u%d/messages", n),
				ChangeTypes: []graph.ChangeType{graph.Created}, Sinks: []string{"x"},
			})
		}
	}
	c.closing = []func(){client.Close, outbound.Wait, inbound.Wait}
	return c
}

// bring leads until everything lives, and gives how long that took. Where the
// store has been listed the wishes come to a leader that knows all there is;
// else they are found in a store that may be a lost one, and each tenant is
// listed before anything is made in it.
func (c *convergence) bring(listed bool) time.Duration {
	c.t.Helper()
	c.store = newFakeStore()
	rules, err := graph.LoadRules()
	if err != nil {
		c.t.Fatal(err)
	}
	manager, err := renewal.New(renewal.Config{
		Store: c.store, Identity: fakeIdentity{}, Rules: rules, Policy: renewal.DefaultPolicy(),
		Prove: func(context.Context) error { return nil },
		Rand:  mathrand.New(mathrand.NewPCG(1, 2)), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	want := func(d renewal.Desired) {
		if err := manager.SetDesired(d); err != nil {
			c.t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancelCause(c.t.Context())
	c.stop, c.done = stop, make(chan error, 1)
	if listed {
		want(renewal.Desired{Tenants: c.desired.Tenants})
		go func() { c.done <- manager.Run(ctx, c.store.term) }()
		time.Sleep(time.Minute)
	}
	began := time.Now()
	want(c.desired)
	if !listed {
		go func() { c.done <- manager.Run(ctx, c.store.term) }()
	}
	for c.sim.Counts().Live < c.total {
		time.Sleep(time.Second)
		if time.Since(began) > 24*time.Hour {
			c.t.Fatalf("%d of %d live after a day", c.sim.Counts().Live, c.total)
		}
	}
	return time.Since(began)
}

// approve is the person who looks, and lets what is held after a purge be made
// anew.
func (c *convergence) approve() {
	if n, id := c.store.held(); n > 0 {
		c.store.command(graph.CommandApprove, id)
	}
}

// month keeps everything for 30 days with trouble, and gives how many expired
// and how many exist twice in the end. Every expiry here is one that could have
// been avoided: no outage is as long as the last third of a life. A person looks
// every two hours.
func (c *convergence) month() (lapsed, twins int) {
	c.t.Helper()
	random := mathrand.New(mathrand.NewPCG(3, 4))
	for day := range 30 {
		switch day {
		case 7, 19:
			for i, sub := range c.sim.State().Subscriptions {
				if i%4 == 0 {
					_ = c.sim.Remove(sub.ID, i%8 == 0)
				}
			}
		case 12:
			c.fault(graphsim.Fault{Match: "* /v1.0/subscriptions/*", Status: 503, Times: -1})
			time.Sleep(6 * time.Hour)
			c.sim.ClearFaults()
		}
		// About one call in a hundred of the day fails.
		c.fault(graphsim.Fault{Match: "PATCH /v1.0/subscriptions/*", Status: 503, Times: 10 + random.IntN(10)})
		c.fault(graphsim.Fault{Match: "PATCH /v1.0/subscriptions/*", Drop: true, Effect: "after", Times: 5 + random.IntN(5)})
		c.pass(24 * time.Hour)
	}
	c.sim.ClearFaults()
	c.pass(8 * 24 * time.Hour)
	seen := map[string]bool{}
	for _, sub := range c.sim.State().Subscriptions {
		if seen[sub.NotificationURL] {
			twins++
		}
		seen[sub.NotificationURL] = true
	}
	if len(seen) != c.total {
		c.t.Errorf("%d live at the end, want %d", len(seen), c.total)
	}
	return c.sim.Counts().Expired, twins
}

// pass lets time go by.
func (c *convergence) pass(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(2 * time.Hour) {
		c.approve()
	}
}

func (c *convergence) fault(f graphsim.Fault) {
	c.t.Helper()
	if f.Status != 0 {
		f.Body = json.RawMessage(`{"error":{"code":"ServiceUnavailable","message":"","innerError":{}}}`)
	}
	if err := c.sim.AddFault(f); err != nil {
		c.t.Fatal(err)
	}
}

func (c *convergence) close() {
	c.stop(nil)
	if err := <-c.done; err != nil {
		c.t.Error(err)
	}
	for _, end := range c.closing {
		end()
	}
}
