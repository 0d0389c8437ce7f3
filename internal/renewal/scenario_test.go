package renewal_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// TestMain sets how many histories are played: 200, unless -rapid.checks says
// otherwise, and 20 with -short. It draws their seed, unless -rapid.seed names
// one, so that it is known also when all goes well.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := "200"
	if testing.Short() {
		checks = "20"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": fmt.Sprint(mathrand.Uint64N(1 << 40))} {
		asked := false
		flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == name })
		if asked {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// step is one thing that happens in a history, and how long nothing else does
// after it.
type step struct {
	what  string
	which int
	wait  time.Duration
}

func (s step) String() string { return fmt.Sprintf("%s %d, then %v", s.what, s.which, s.wait) }

// The things that can happen. What is an outage ends by itself after at most
// six hours, a third of what the last third of a three-day life has.
func whats() []string {
	return []string{
		"remove", "remove and tell", "challenge", "hide", "wish", "unwish", "change", "restart", "kill", "lose the lease",
		"503", "502 page", "404 page", "429", "401", "embedded 401", "lose answers", "lose creates", "kill a create", "list 500", "list nothing", "store away", "nothing",
	}
}

func history() *rapid.Generator[[]step] {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			what:  rapid.SampledFrom(whats()).Draw(t, "what"),
			which: rapid.IntRange(0, 5).Draw(t, "which"),
			wait:  time.Duration(rapid.IntRange(1, 30*60).Draw(t, "minutes")) * time.Minute,
		}
	})
	return rapid.SliceOfN(one, 3, 25)
}

// TestHistories plays random histories of a month against the simulator and
// holds what must always hold at the end of each. A failing history is shrunk
// and printed.
func TestHistories(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s histories with -rapid.seed=%s", flag.Lookup("rapid.checks").Value, flag.Lookup("rapid.seed").Value)
	rapid.Check(t, func(rt *rapid.T) {
		steps := history().Draw(rt, "history")
		seed := rapid.Uint64Range(1, 1<<40).Draw(rt, "seed")
		var faults error
		synctest.Test(t, func(t *testing.T) { faults = play(t, key, seed, steps, nil) })
		if faults != nil {
			rt.Fatalf("seed %d:\n%v", seed, faults)
		}
	})
}

// TestPlantedFaultsAreFound breaks the service in ways that a mistake could,
// and expects the histories to notice each.
func TestPlantedFaultsAreFound(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(*stage){
		"a 404 is taken for a success":    func(s *stage) { s.spoilClient = func(c tenantClient) tenantClient { return deaf{c} } },
		"a create is not announced":       func(s *stage) { s.spoilStore = func(f *fakeStore) { f.forgetful = true } },
		"every renewal is a little short": func(s *stage) { s.policy.RenewEarliest, s.policy.RenewLatest = 0.9999, 0.99999 },
		"what is not wished for is kept":  func(s *stage) { s.spoilClient = func(c tenantClient) tenantClient { return hoarder{c} } },
		"a listing is cut without a word": func(s *stage) { s.spoilClient = func(c tenantClient) tenantClient { return shortSighted{c} } },
		"the loop gives up after an error": func(s *stage) {
			s.policy.RetryBase, s.policy.RetryMax = 100*24*time.Hour, 200*24*time.Hour
			s.policy.TriesLeft = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				steps := history().Example(int(seed))
				var faults error
				synctest.Test(t, func(t *testing.T) { faults = play(t, key, seed+1, steps, plant) })
				if faults != nil {
					return
				}
			}
			t.Error("60 histories did not notice")
		})
	}
}

// tenantClient is what the renewal calls.
type tenantClient interface {
	Create(ctx context.Context, sub graph.Subscription) (graph.Subscription, error)
	Renew(ctx context.Context, id string, renewal graph.Renewal) (graph.Subscription, error)
	Get(ctx context.Context, id string) (graph.Subscription, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]graph.Subscription, error)
}

type deaf struct{ tenantClient }

func (d deaf) Renew(ctx context.Context, id string, r graph.Renewal) (graph.Subscription, error) {
	sub, err := d.tenantClient.Renew(ctx, id, r)
	if errors.Is(err, graph.ErrSubscriptionGone) {
		return graph.Subscription{ID: id, ExpiresAt: r.ExpiresAt}, nil
	}
	return sub, err
}

type hoarder struct{ tenantClient }

func (hoarder) Delete(context.Context, string) error { return nil }

type shortSighted struct{ tenantClient }

func (s shortSighted) List(ctx context.Context) ([]graph.Subscription, error) {
	subs, err := s.tenantClient.List(ctx)
	return subs[:len(subs)/4], err
}

const (
	simTenant = "84bd8158-6d4d-4958-8b9f-9d6445542f95"
	simApp    = "5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11"
)

// stage is a manager with a simulated Graph and a store that outlives it.
type stage struct {
	t      *testing.T
	random *mathrand.Rand
	sim    *graphsim.Sim
	store  *fakeStore
	policy renewal.Policy
	client tenantClient
	wishes []graph.Wish
	made   int // names given so far
	// oneEach says that this Graph allows one subscription for each resource.
	oneEach bool

	spoilClient func(tenantClient) tenantClient
	spoilStore  func(*fakeStore)

	manager *renewal.Manager
	stop    context.CancelCauseFunc
	done    chan error

	removed []removal
}

type removal struct {
	name string
	at   time.Time
}

// play plays one history in a bubble and gives what does not hold at its end.
func play(t *testing.T, key *rsa.PrivateKey, seed uint64, steps []step, plant func(*stage)) error {
	t.Helper()
	s := &stage{t: t, random: mathrand.New(mathrand.NewPCG(seed, 1)), store: newFakeStore(), policy: renewal.DefaultPolicy(), oneEach: seed%3 == 0}
	if plant != nil {
		plant(s)
	}
	if s.spoilStore != nil {
		s.spoilStore(s.store)
	}
	inbound := graphsim.NewTransport(map[string]http.Handler{"our": s.receiver(), "theirs": echo()})
	var err error
	s.sim, err = graphsim.New(graphsim.Config{
		Seed: seed, HTTPClient: &http.Client{Transport: inbound}, SigningKey: key, LoginURL: "https://login.sim",
		ConflictOnDuplicate: s.oneEach, ConflictShowsID: seed%6 == 0, Budgets: graphsim.DocumentedBudgets(), PageSize: 2,
	})
	if err != nil {
		return err
	}
	outbound := graphsim.NewTransport(map[string]http.Handler{"graph.sim": s.sim.Graph(), "login.sim": s.sim.Login()})
	client, err := msgraph.New(msgraph.Config{
		Cloud: msgraph.CloudGlobal, GraphURL: "https://graph.sim", LoginURL: "https://login.sim", ClientID: simApp,
		Credential: msgraph.Credential{ClientSecret: func() (string, error) { return "secret", nil }}, Transport: outbound,
	})
	if err != nil {
		return err
	}
	s.client = client.Tenant(simTenant)
	if s.spoilClient != nil {
		s.client = s.spoilClient(s.client)
	}
	simCtx, stopSim := context.WithCancel(t.Context())
	simDone := make(chan error, 1)
	go func() { simDone <- s.sim.Run(simCtx) }()
	for range 3 {
		s.wish()
	}
	s.begin()
	time.Sleep(time.Hour)
	honest := !slices.ContainsFunc(steps, func(one step) bool { return one.what == "hide" || one.what == "list nothing" })
	var faults error
	for _, one := range steps {
		s.happen(one)
		time.Sleep(one.wait)
		if honest {
			faults = errors.Join(faults, s.twins())
		}
	}
	s.calm()
	faults = errors.Join(faults, s.check())
	s.end(nil)
	stopSim()
	faults = errors.Join(faults, <-simDone)
	client.Close()
	outbound.Wait()
	inbound.Wait()
	return faults
}

// receiver answers handshakes and takes lifecycle items in.
func (s *stage) receiver() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.URL.Query().Get("validationToken"); token != "" {
			echo().ServeHTTP(w, r)
			return
		}
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		var body struct {
			Value []struct {
				SubscriptionID string `json:"subscriptionId"`
				LifecycleEvent string `json:"lifecycleEvent"`
			} `json:"value"`
		}
		if json.NewDecoder(r.Body).Decode(&body) == nil {
			for i, item := range body.Value {
				if item.LifecycleEvent != "" && len(parts) == 3 {
					s.store.tell(graph.LifecycleItem{
						ID: fmt.Sprint(time.Now().UnixNano(), i, item.SubscriptionID), Name: parts[1], Gen: parts[2],
						SubscriptionID: item.SubscriptionID, Event: item.LifecycleEvent, ReceivedAt: time.Now(),
					})
				}
			}
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

func echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, r.URL.Query().Get("validationToken"))
	})
}

// wish adds a desired subscription that asks for three days.
func (s *stage) wish() {
	s.made++
	s.wishes = append(s.wishes, graph.Wish{
		Name: fmt.Sprintf("w%02d", s.made), Gen: "g1", Tenant: "contoso", Resource: fmt.Sprintf("users/u%d/messages", s.made),
		ChangeTypes: []graph.ChangeType{graph.Created}, Lifetime: 72 * time.Hour, Sinks: []string{"x"},
	})
}

// begin leads for a new term, as a new process would.
func (s *stage) begin() {
	rules, err := graph.LoadRules()
	if err != nil {
		s.t.Fatal(err)
	}
	s.manager, err = renewal.New(renewal.Config{
		Store: s.store, Identity: fakeIdentity{}, Rules: rules, Policy: s.policy,
		Prove: func(context.Context) error { return nil },
		Rand:  mathrand.New(mathrand.NewPCG(s.random.Uint64(), 2)), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.want()
	s.store.mu.Lock()
	s.store.term++
	term := s.store.term
	s.store.mu.Unlock()
	ctx, stop := context.WithCancelCause(s.t.Context())
	s.stop, s.done = stop, make(chan error, 1)
	manager, done := s.manager, s.done
	go func() { done <- manager.Run(ctx, term) }()
}

func (s *stage) want() {
	err := s.manager.SetDesired(renewal.Desired{
		Tenants: []renewal.Tenant{{Name: "contoso", App: "hooks", Client: s.client, Scale: 1, QuotaShare: 0.9}},
		Wishes:  slices.Clone(s.wishes),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) end(cause error) {
	s.stop(cause)
	if err := <-s.done; err != nil {
		s.t.Errorf("the term ended with %v", err)
	}
}

// change asks for another gen of one wish.
func (s *stage) change(which int) {
	s.wishes = slices.Clone(s.wishes)
	s.wishes[which%len(s.wishes)].Gen = fmt.Sprintf("g%d", time.Now().UnixNano())
	s.want()
}

// happen makes one thing happen.
func (s *stage) happen(one step) {
	live := s.sim.State().Subscriptions
	outage := func(f graphsim.Fault, longest time.Duration) {
		f.Times = -1
		if err := s.sim.AddFault(f); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Duration(s.random.Int64N(int64(longest))))
		s.sim.ClearFaults()
	}
	const day = 6 * time.Hour
	switch one.what {
	case "remove", "remove and tell":
		if len(live) > 0 {
			sub := live[one.which%len(live)]
			key, _ := fakeIdentity{}.Ours("contoso", graph.Subscription{NotificationURL: sub.NotificationURL})
			s.removed = append(s.removed, removal{key.Name, time.Now()})
			_ = s.sim.Remove(sub.ID, one.what == "remove and tell")
		}
	case "challenge":
		if len(live) > 0 {
			_ = s.sim.Lifecycle(live[one.which%len(live)].ID, graphsim.ReauthorizationRequired)
		}
	case "hide":
		if len(live) > 0 {
			_ = s.sim.Hide(live[one.which%len(live)].ID, true)
		}
	case "wish":
		if len(s.wishes) < 8 {
			s.wish()
			s.want()
		}
	case "unwish":
		if len(s.wishes) > 1 {
			i := one.which % len(s.wishes)
			s.wishes = slices.Delete(slices.Clone(s.wishes), i, i+1)
			s.want()
		}
	case "change":
		s.change(one.which)
	case "restart":
		s.end(nil)
		time.Sleep(time.Duration(one.which) * time.Minute)
		s.begin()
	case "kill":
		// The store is gone at once: nothing that happens after is written.
		s.store.setAway(true)
		s.end(graph.ErrLeaseLost)
		s.store.setAway(false)
		s.begin()
	case "lose the lease":
		s.end(graph.ErrLeaseLost)
		s.begin()
	case "503":
		outage(graphsim.Fault{Match: "* /v1.0/subscriptions/*", Status: 503}, day)
	case "502 page":
		outage(graphsim.Fault{Match: "* /v1.0/subscriptions/*", Status: 502, Body: json.RawMessage(`"<html>bad gateway</html>"`)}, day)
	case "404 page":
		outage(graphsim.Fault{Match: "* /v1.0/subscriptions/*", Status: 404, Body: json.RawMessage(`"<html>not found</html>"`)}, day)
	case "429":
		outage(graphsim.Fault{Match: "* /v1.0/subscriptions/*", Status: 429, Header: map[string]string{"Retry-After": "120"}}, day)
	case "401":
		outage(graphsim.Fault{Match: "POST /*/oauth2/v2.0/token", Status: 401}, day)
	case "embedded 401":
		outage(graphsim.Fault{Match: "PATCH /v1.0/subscriptions/*", Status: 401, Body: json.RawMessage(
			`{"error":{"code":"ExtensionError","message":"Operation: Update; Exception: [Status Code: Unauthorized; Reason: x]","innerError":{}}}`)}, day)
	case "lose answers":
		outage(graphsim.Fault{Match: "* /v1.0/subscriptions/*", Drop: true, Effect: "after"}, time.Hour)
	case "kill a create":
		// The answer takes half a minute, and the process does not live to see it.
		if err := s.sim.AddFault(graphsim.Fault{Match: "POST /v1.0/subscriptions", Delay: 30 * time.Second, Effect: "after", Times: -1}); err != nil {
			s.t.Fatal(err)
		}
		s.change(one.which)
		time.Sleep(10 * time.Second)
		s.store.setAway(true)
		s.end(graph.ErrLeaseLost)
		s.sim.ClearFaults()
		s.store.setAway(false)
		s.begin()
	case "lose creates":
		s.change(one.which)
		outage(graphsim.Fault{Match: "POST /v1.0/subscriptions", Drop: true, Effect: "after"}, time.Hour)
	case "list 500":
		outage(graphsim.Fault{Match: "GET /v1.0/subscriptions", Status: 500}, day)
	case "list nothing":
		outage(graphsim.Fault{Match: "GET /v1.0/subscriptions", Status: 200, Body: json.RawMessage(`{"value":[]}`)}, day)
	case "store away":
		s.store.setAway(true)
		time.Sleep(time.Duration(s.random.Int64N(int64(day))))
		s.store.setAway(false)
	}
}

// calm ends all trouble and waits until everything has had its turn twice: a
// life lasts three days, and each tenant is listed once a day at least.
func (s *stage) calm() {
	s.sim.ClearFaults()
	for _, sub := range s.sim.State().Subscriptions {
		_ = s.sim.Hide(sub.ID, false)
	}
	time.Sleep(8 * 24 * time.Hour)
}

// twins is an error when a wish's subscription exists twice. Where listings
// lie that can be for a while; elsewhere it never is.
func (s *stage) twins() error {
	seen := map[string]bool{}
	for _, sub := range s.sim.State().Subscriptions {
		if seen[sub.NotificationURL] {
			return fmt.Errorf("%s exists twice", sub.NotificationURL)
		}
		seen[sub.NotificationURL] = true
	}
	return nil
}

// check gives what does not hold.
func (s *stage) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	live := map[string]int{}
	for _, sub := range s.sim.State().Subscriptions {
		key, ours := fakeIdentity{}.Ours("contoso", graph.Subscription{NotificationURL: sub.NotificationURL})
		if !ours {
			fault("a subscription that is not ours: %s", sub.NotificationURL)
		}
		live[key.Name+" "+key.Gen]++
	}
	all := len(live)
	for _, wish := range s.wishes {
		if s.oneEach && live[wish.Name+" "+wish.Gen] == 0 {
			// Where Graph allows one for each resource, an older gen is kept
			// until it ends by itself.
			for key, n := range live {
				if strings.HasPrefix(key, wish.Name+" ") && n == 1 && all == len(s.wishes) {
					delete(live, key)
					live[wish.Name+" "+wish.Gen] = 1
				}
			}
		}
		if n := live[wish.Name+" "+wish.Gen]; n != 1 {
			fault("%s %s lives %d times", wish.Name, wish.Gen, n)
		}
		delete(live, wish.Name+" "+wish.Gen)
	}
	for key, n := range live {
		fault("%s lives %d times and nobody wishes for it", key, n)
	}
	if c := s.sim.Counts(); c.Expired > 0 || c.Overlaps > 0 {
		fault("%d expired although Graph took writes in the last third of their lives; %d overlaps", c.Expired, c.Overlaps)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, r := range s.store.records {
		if r.State != graph.StateActive || r.Reason != "" {
			if s.oneEach && r.Reason == graph.ReasonConflict {
				continue
			}
			fault("record %s %s is %s %s %s", r.Name, r.Gen, r.State, r.Reason, r.Detail)
		}
	}
	for _, gone := range s.removed {
		covered := slices.ContainsFunc(s.store.gaps, func(g graph.Gap) bool {
			return g.Name == gone.name && !g.From.After(gone.at) && !g.To.Before(gone.at)
		})
		wished := slices.ContainsFunc(s.wishes, func(w graph.Wish) bool { return w.Name == gone.name })
		if wished && !covered {
			fault("no gap tells of what %s missed since %v; gaps %+v", gone.name, gone.at, s.store.gaps)
		}
	}
	return errors.Join(faults...)
}
