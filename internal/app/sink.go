package app

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/delivery/file"
	"github.com/graphsubd/graphsubd/internal/delivery/webhook"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// The kinds of events that a sink can ask for.
const (
	eventsChanges    = "changes"
	eventsGaps       = "gaps"
	eventsOperations = "operations"
)

// accepts says for each sink which kinds of events it takes.
func accepts(sinks []config.Sink) func(sink string, n *notification.Notification) bool {
	wanted := map[string][]string{}
	for _, sink := range sinks {
		wanted[sink.Name] = sink.Events
	}
	return func(sink string, n *notification.Notification) bool {
		kinds, known := wanted[sink]
		// Of a sink that is not configured, the delivery becomes a dead letter;
		// taken for refused, an acknowledged item would be gone.
		return !known || len(kinds) == 0 || slices.Contains(kinds, kindOf(n))
	}
}

func kindOf(n *notification.Notification) string {
	switch {
	case n.Kind != notification.KindOperation:
		return eventsChanges
	case strings.HasPrefix(n.Type, "io.graphsubd.gap."):
		return eventsGaps
	}
	return eventsOperations
}

// fileBatch is how many events a file is given at once: each batch is a sync of
// it and two of the store, so that 100 of them would lag behind a flood.
const fileBatch = 300

// newDelivery makes a worker for each sink of a configuration.
func (a *App) newDelivery(cfg *config.Config) (*delivery.Delivery, error) {
	destinations := make([]delivery.Destination, 0, len(cfg.Sinks))
	for i := range cfg.Sinks {
		settings := &cfg.Sinks[i]
		sink, err := newSink(settings, a.opts.Stdout, a.component("delivery"))
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", settings.Name, err)
		}
		destination := delivery.Destination{Name: settings.Name, Sink: sink, MaxAge: settings.Retry.MaxAge}
		if settings.File != nil {
			destination.Batch = fileBatch
		}
		destinations = append(destinations, destination)
	}
	appIDs := appByTenantID(cfg)
	return delivery.New(delivery.Config{
		Sinks: destinations, Grace: stopDelivery,
		AppOf: func(tenantID string) string { return appIDs[tenantID] },
		Rand:  newRand(), Logger: a.component("delivery"), Registerer: a.registry,
	}, a.store)
}

// newSink makes the sink of a checked configuration, which has exactly one
// kind.
func newSink(sink *config.Sink, stdout io.Writer, logger *slog.Logger) (delivery.Sink, error) {
	if hook := sink.Webhook; hook != nil {
		secrets := make([]func() (string, error), 0, len(hook.Secrets))
		for _, secret := range hook.Secrets {
			secrets = append(secrets, secret.Current)
		}
		return webhook.New(webhook.Config{
			URL: hook.URL, Secrets: secrets, Concurrency: sink.Concurrency,
			Logger: logger.With("sink", sink.Name),
		})
	}
	return file.New(file.Config{Path: sink.File.Path, Writer: stdout})
}

func appByTenantID(cfg *config.Config) map[string]string {
	clientIDs := map[string]string{}
	for _, app := range cfg.Apps {
		clientIDs[app.Name] = app.ClientID
	}
	byTenant := map[string]string{}
	for _, tenant := range cfg.Tenants {
		byTenant[tenant.TenantID] = clientIDs[tenant.App]
	}
	return byTenant
}

func appByTenantName(cfg *config.Config) map[string]string {
	byID := appByTenantID(cfg)
	byName := map[string]string{}
	for _, tenant := range cfg.Tenants {
		byName[tenant.Name] = byID[tenant.TenantID]
	}
	return byName
}
