package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/lease"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/renewal"
	"github.com/graphsubd/graphsubd/internal/store"
)

// App is one process.
type App struct {
	cfg      *config.Config // the one that runs; watchConfig alone replaces it
	opts     Options
	log      *slog.Logger
	registry *prometheus.Registry
	holder   string
	keysLost bool         // no configured key is one that the store knows
	term     atomic.Int64 // the term this process leads in, 0 when it does not
	reloaded prometheus.Gauge
	// What a reload replaces while others read it.
	accepts    atomic.Pointer[func(sink string, n *notification.Notification) bool]
	sinks      atomic.Pointer[map[string]bool]
	appIDs     atomic.Pointer[map[string]string]
	deliveries chan *delivery.Delivery

	keys          *notification.Keys
	store         *store.Store
	registrations map[string]registration // by the app's name
	renewal       *renewal.Manager
	lease         elector
	delivery      *delivery.Delivery
	readiness     *httpapi.Readiness
	listeners     listeners
	public        *http.Server
	rest          *httpapi.Admin
	admin         *http.Server
	telemetry     *http.Server

	undo []func() error // closes what New and Run opened, last first
}

// New opens the store, builds every part and binds the listeners. A fault
// undoes what was done. Nothing runs before Run.
func New(ctx context.Context, cfg *config.Config, opts Options) (*App, error) {
	if err := opts.validate(cfg); err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, opts: opts, log: opts.Logger, registry: prometheus.NewRegistry(),
		holder: newHolder(), deliveries: make(chan *delivery.Delivery, 1),
	}
	if err := a.build(ctx, opts); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// newHolder names this process, and no other that ever ran.
func newHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return lease.NewIdentity(host)
}

// build is one long list on purpose: it is read from top to bottom to see what
// the process consists of.
func (a *App) build(ctx context.Context, opts Options) (err error) {
	if err = errors.Join(a.registerBuild(opts), a.registerReload()); err != nil {
		return err
	}
	a.setAccepts(a.cfg)
	raw := make([][]byte, len(a.cfg.SigningKeys))
	for i, key := range a.cfg.SigningKeys {
		raw[i] = []byte(key.Text())
	}
	if a.keys, err = notification.NewKeys(a.cfg.Instance, raw); err != nil {
		return fmt.Errorf("signingKeys: %w", err)
	}
	if err = a.buildReceiverAndStore(ctx); err != nil {
		return err
	}
	if a.delivery, err = a.newDelivery(a.cfg); err != nil {
		return err
	}
	if a.lease, err = a.newElector(); err != nil {
		return err
	}
	if err = a.buildRenewal(); err != nil {
		return err
	}
	if a.listeners, err = bind(ctx, a.cfg.Listen, opts.Public); err != nil {
		return err
	}
	a.defers(closeOnce(a.listeners.public), closeOnce(a.listeners.admin), closeOnce(a.listeners.telemetry))
	return a.buildAdmin(opts)
}

func (a *App) registerBuild(opts Options) error {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "graphsubd_build_info", Help: "Always 1, with what was built.",
	}, []string{"version", "commit"})
	info.WithLabelValues(opts.Version, opts.Commit).Set(1)
	return errors.Join(a.registry.Register(info), a.registry.Register(collectors.NewGoCollector()),
		a.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
}

func (a *App) component(name string) *slog.Logger {
	return a.log.With("component", name)
}

func (a *App) defers(undo ...func() error) { a.undo = append(a.undo, undo...) }

// close undoes what was opened, last first.
func (a *App) close() error {
	var errs []error
	for _, undo := range slices.Backward(a.undo) {
		errs = append(errs, undo())
	}
	a.undo = nil
	return errors.Join(errs...)
}

// Addresses are where the process listens, also when port 0 was asked for.
func (a *App) Addresses() Addresses {
	return Addresses{
		Public: a.listeners.public.Addr().String(), Admin: a.listeners.admin.Addr().String(),
		Telemetry: a.listeners.telemetry.Addr().String(),
	}
}

// Gatherer gives the metrics of this process.
func (a *App) Gatherer() prometheus.Gatherer { return a.registry }

// Run serves until ctx ends and then stops in order. It returns nil after a
// stop that was asked for, and otherwise what made the process end. It may be
// called once.
func (a *App) Run(ctx context.Context) error {
	p, wanted := newParts(), len(a.cfg.Subscriptions)
	keep := p.start(ctx, "store", a.store.Run)
	public := p.start(ctx, "public listener", func(ctx context.Context) error {
		return serve(ctx, a.public, a.listeners.public)
	})
	admin := p.start(ctx, "admin listener", func(ctx context.Context) error {
		return serve(ctx, a.admin, a.listeners.admin)
	})
	telemetry := p.start(ctx, "telemetry listener", func(ctx context.Context) error {
		return serve(ctx, a.telemetry, a.listeners.telemetry)
	})
	deliver := p.start(ctx, "delivery", a.deliver)
	removed := p.start(ctx, "removed sinks", a.buryRemoved)
	watch := p.start(ctx, "configuration", a.watchConfig)
	receiving := p.start(ctx, "receiving", a.noteReceiving)
	a.readiness.Set(conditionListening, true)
	lead := p.start(ctx, "lease", func(ctx context.Context) error { return a.lease.Run(ctx, a.lead) })
	a.log.InfoContext(ctx, "started", "holder", a.holder,
		"public_address", a.Addresses().Public, "admin_address", a.Addresses().Admin,
		"telemetry_address", a.Addresses().Telemetry,
		"wishes", wanted)

	select {
	case <-ctx.Done():
	case failed := <-p.failed:
		a.log.ErrorContext(ctx, "part ended, stopping", "part", failed.name)
	}
	began := time.Now()
	a.readiness.Set(conditionListening, false)
	end(watch, receiving)
	end(lead, public) // leadership is given up at once, beside the drain
	end(deliver, removed)
	end(keep)
	end(admin, telemetry)
	err := errors.Join(append(p.errs(), a.close())...)
	a.log.InfoContext(ctx, "stopped", "duration_seconds", time.Since(began).Seconds())
	return err
}

// lead is what the leader does: take a term from the store and renew in it.
// With the keys lost it does nothing: it would make every subscription anew.
func (a *App) lead(ctx context.Context) error {
	if a.keysLost {
		<-ctx.Done()
		return nil
	}
	term, err := a.store.NewTerm(ctx, a.holder)
	if err != nil {
		return fmt.Errorf("take a term: %w", err)
	}
	if err := a.store.PutSigningKeys(ctx, term, a.keys.Fingerprints()); err != nil {
		return fmt.Errorf("note the signing keys: %w", err)
	}
	a.term.Store(term)
	defer a.term.Store(0)
	return a.renewal.Run(ctx, term)
}

// checkKeys compares the configured signing keys with those that signed what
// lives. Where none of them is left, nothing may be written until a person has
// said so: a key that was lost by mistake would recreate everything.
func (a *App) checkKeys(ctx context.Context, receiver *httpapi.Receiver) error {
	stored, err := a.store.SigningKeys(ctx)
	if err != nil {
		return fmt.Errorf("signingKeys: %w", err)
	}
	known := len(stored) == 0 || slices.ContainsFunc(a.keys.Fingerprints(), func(key string) bool { return slices.Contains(stored, key) })
	if known || a.opts.AcceptKeys {
		return nil
	}
	a.keysLost = true
	receiver.SetKeysLost(true)
	a.log.ErrorContext(ctx, "none of the configured signing keys is one that signed the living subscriptions: "+
		"nothing is renewed or created, and notifications are answered 503; put the former key back, beside the new one, "+
		"or start once with --accept-new-keys to make every subscription anew", "known_keys", len(stored))
	return nil
}

// stamp goes into the request id of every write to Graph.
func (a *App) stamp() string { return fmt.Sprintf("%d-%s", a.term.Load(), a.holder) }

func (a *App) buildRenewal() (err error) {
	if a.registrations, err = registrations(a.cfg, nil, a.stamp, a.log, a.registry); err != nil {
		return err
	}
	a.defers(func() error { a.setRegistrations(nil); return nil })
	rules, err := graph.LoadRules()
	if err != nil {
		return err
	}
	publicURL := a.cfg.PublicURL // a reload never changes it
	self := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a.renewal, err = renewal.New(renewal.Config{
		Store: a.store, Identity: a.identity(), Rules: rules, Policy: renewal.DefaultPolicy(),
		Prove: func(ctx context.Context) error { return prove(ctx, self, a.keys, publicURL) },
		Left:  a.lease.Left,
		// Who says that the keys are lost knows what that replaces.
		AcceptReplacements: a.opts.AcceptKeys,
		Rand:               newRand(),
		Logger:             a.component("renewal"), Registerer: a.registry,
	})
	if err != nil {
		return err
	}
	return a.want(a.cfg, a.registrations)
}

func (a *App) identity() identity {
	return identity{keys: a.keys, base: a.cfg.PublicURL, appIDs: func() map[string]string { return *a.appIDs.Load() }}
}

// newRand draws jitter, which needs no secrecy.
func newRand() *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64())) //nolint:gosec // See above.
}

// buildReceiverAndStore joins the two that depend on each other: the receiver
// appends to the store, and the store's router tells the receiver's metrics
// what became of an item.
func (a *App) buildReceiverAndStore(ctx context.Context) (err error) {
	var receiver *httpapi.Receiver
	settings, err := storeConfig(a.cfg, a.holder)
	if err != nil {
		return err
	}
	settings.Logger, settings.Registerer = a.component("store"), a.registry
	settings.Accepts = a.accepted
	settings.Verdict = func(verdict string, reason notification.Reason, n int) { receiver.CountVerdict(verdict, reason, n) }
	if a.store, err = store.Open(ctx, settings); err != nil {
		return err
	}
	a.defers(a.store.Close)
	receiver, err = httpapi.NewReceiver(httpapi.Config{
		PublicURL: a.cfg.PublicURL, MaxBody: int64(a.cfg.Receiver.MaxBody), Marks: httpapi.Marks(a.cfg.Receiver.Marks),
		TrustedProxies: prefixes(a.cfg.Receiver.TrustedProxies), AllowedSources: prefixes(a.cfg.Receiver.AllowedSources),
		Logger: a.component("receiver"), Registerer: a.registry,
	}, a.keys, a.store)
	if err != nil {
		return err
	}
	if err := a.checkKeys(ctx, receiver); err != nil {
		return err
	}
	a.readiness = httpapi.NewReadiness(conditionListening, conditionStore)
	a.readiness.Set(conditionStore, true) // it was opened once, which is all that is asked
	a.public = httpapi.NewServer(receiver, a.component("public"))
	if a.public.TLSConfig, err = a.serverTLS("listen.public", a.cfg.Listen.Public.TLS); err != nil {
		return err
	}
	a.telemetry = httpapi.NewServer(httpapi.NewHealth(a.registry, a.readiness), a.component("telemetry"))
	return nil
}

// prefixes reads ranges that the configuration has checked.
func prefixes(ranges []string) []netip.Prefix {
	read := make([]netip.Prefix, len(ranges))
	for i, text := range ranges {
		read[i] = netip.MustParsePrefix(text)
	}
	return read
}

// What /readyz waits for.
const (
	conditionListening = "listening"
	conditionStore     = "store_opened"
)
