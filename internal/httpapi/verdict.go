package httpapi

import (
	"context"
	"strings"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// The verdicts on items.
const (
	VerdictAccepted    = "accepted"
	VerdictQuarantined = "quarantined"
	VerdictDuplicate   = "duplicate"
	VerdictDropped     = "dropped"
	VerdictRefused     = "refused"
)

// maxEventsLogged and maxEventName, in bytes, bound what unknown lifecycle
// events can leave in memory and in a log line.
const (
	maxEventsLogged = 32
	maxEventName    = 64
)

// CountVerdict adds to the verdicts on items. The router of the store uses it
// too, since it decides on duplicates and on what is not desired.
func (r *Receiver) CountVerdict(verdict string, reason notification.Reason, n int) {
	r.metrics.count(verdict, reason, n)
}

// stored counts what is now durable.
func (r *Receiver) stored(ctx context.Context, judged *batch) {
	verdicts := map[notification.Reason]int{}
	for i := range judged.rows {
		row := &judged.rows[i]
		verdicts[row.Reason]++
		if row.Kind == notification.KindLifecycle && row.Reason == "" {
			r.metrics.lifecycle.WithLabelValues(row.Type).Inc()
		}
	}
	for reason, n := range verdicts {
		verdict := VerdictQuarantined
		if reason == "" {
			verdict = VerdictAccepted
		}
		r.metrics.count(verdict, reason, n)
	}
	r.metrics.count(VerdictDropped, notification.ReasonProbe, judged.probes)
	if len(judged.rows) > 0 {
		r.metrics.last.SetToCurrentTime()
	}
	for _, name := range judged.unknownEvents {
		r.noteEvent(ctx, name)
	}
}

// noteEvent logs an unknown lifecycle event once for each name. Graph says
// that new ones will come.
func (r *Receiver) noteEvent(ctx context.Context, name string) {
	name = strings.ToValidUTF8(name[:min(len(name), maxEventName)], "")
	r.mu.Lock()
	logged := r.events[name] || len(r.events) >= maxEventsLogged
	if !logged {
		r.events[name] = true
	}
	r.mu.Unlock()
	if !logged {
		r.log.WarnContext(ctx, "lifecycle event is unknown", "event", name)
	}
}
