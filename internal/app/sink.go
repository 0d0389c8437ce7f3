package app

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
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
		// A sink that this process does not know may be another's by now.
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

func storeConfig(cfg *config.Config, holder string) store.Config {
	keep := cfg.Store.Retention
	return store.Config{
		Path: cfg.Store.SQLite.Path, Owner: holder,
		MaxBacklogRows: cfg.Store.MaxBacklog.Rows, MaxBacklogBytes: int64(cfg.Store.MaxBacklog.Bytes),
		RetainDelivered: keep.Delivered, RetainDeadLetters: keep.DeadLetters, RetainAudit: keep.Audit,
		MaxBytes: int64(keep.MaxBytes), Accepts: accepts(cfg.Sinks),
	}
}
