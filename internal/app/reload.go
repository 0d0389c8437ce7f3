package app

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// registerReload makes the gauge that says whether the configuration that runs is the one on disk.
func (a *App) registerReload() error {
	a.reloaded = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "graphsubd_config_reload_success",
		Help: "1 when the last configuration that was read is the one that runs, 0 when it was refused.",
	})
	a.reloaded.Set(1)
	return a.registry.Register(a.reloaded)
}

// refusedAgain is how long after a refusal the configuration is read again: a
// secret that it names may come later than it, and nothing tells of that.
const refusedAgain = time.Minute

// watchConfig reads the configuration anew each time that it is told to. What
// is refused changes nothing and is said in full.
func (a *App) watchConfig(ctx context.Context) error {
	var again <-chan time.Time
	refused := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.opts.Changed:
			refused = "" // said again to whoever changed it
		case <-again:
		}
		next, err := a.opts.Load()
		if err == nil {
			err = a.reload(ctx, next)
		}
		if err == nil {
			again = nil
			a.reloaded.Set(1)
			continue
		}
		again = time.After(refusedAgain)
		a.reloaded.Set(0)
		if err.Error() == refused {
			continue
		}
		refused = err.Error()
		for line := range strings.SplitSeq(err.Error(), "\n") {
			a.component("config").ErrorContext(ctx, "configuration refused, the former one goes on", "error", line)
		}
	}
}

// reload takes over what a changed configuration asks for, all of it or
// nothing.
func (a *App) reload(ctx context.Context, next *config.Config) error {
	if sections := a.cfg.NeedRestart(next); len(sections) > 0 {
		return fmt.Errorf("restart needed: %s changed, which a running process cannot take over", strings.Join(sections, ", "))
	}
	byApp, err := registrations(next, a.registrations, a.stamp, a.log, a.registry)
	if err != nil {
		return err
	}
	var deliver *delivery.Delivery
	if !reflect.DeepEqual(a.cfg.Sinks, next.Sinks) || !reflect.DeepEqual(a.cfg.Tenants, next.Tenants) {
		if deliver, err = a.newDelivery(next); err != nil {
			return err
		}
	}
	if err := a.want(next, byApp); err != nil {
		return err
	}
	// Nothing can fail from here on.
	a.cfg = next
	a.setAccepts(next)
	a.setRegistrations(byApp)
	a.rest.SetTokens(adminTokens(next.Admin))
	if deliver != nil {
		select {
		case <-a.deliveries: // an older change that was not begun
		default:
		}
		a.deliveries <- deliver
	}
	a.component("config").InfoContext(ctx, "configuration taken over", "wishes", len(next.Subscriptions),
		"tenants", len(next.Tenants), "sinks", len(next.Sinks))
	return nil
}

// want hands the renewal what a configuration asks for.
func (a *App) want(cfg *config.Config, byApp map[string]registration) error {
	a.appIDs.Store(new(appByTenantName(cfg)))
	return a.renewal.SetDesired(renewal.Desired{
		Tenants: tenants(cfg, byApp),
		Wishes:  wishes(cfg, a.keys.SigningKeyID()),
	})
}

// setRegistrations ends the idle connections of clients that are replaced.
func (a *App) setRegistrations(byApp map[string]registration) {
	for name, former := range a.registrations {
		if byApp[name].client != former.client {
			former.client.Close()
		}
	}
	a.registrations = byApp
}

func (a *App) setAccepts(cfg *config.Config) {
	names := map[string]bool{}
	for _, sink := range cfg.Sinks {
		names[sink.Name] = true
	}
	a.sinks.Store(&names)
	a.accepts.Store(new(accepts(cfg.Sinks)))
}

// accepted asks the rules of the configuration that runs now.
func (a *App) accepted(sink string, n *notification.Notification) bool {
	return (*a.accepts.Load())(sink, n)
}

// deliver runs the delivery, and its successor when the sinks change: the
// former ends what it has begun first, so that no sink is written to by two.
func (a *App) deliver(ctx context.Context) error {
	current := a.delivery
	for {
		own, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- current.Run(own) }() // joined below on every way
		select {
		case err := <-done:
			stop()
			return err
		case next := <-a.deliveries:
			stop()
			if err := <-done; err != nil {
				a.component("delivery").WarnContext(ctx, "former sink did not close", "error", err.Error())
			}
			current = next
		}
	}
}
