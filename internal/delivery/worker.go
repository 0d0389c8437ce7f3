package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	// minWait keeps a queue that says "due" and gives nothing, because
	// another replica holds it, from being asked without pause.
	minWait = 50 * time.Millisecond
	// settleBase and settleTop are the waits while the queue is away.
	settleBase = 100 * time.Millisecond
	settleTop  = 5 * time.Second
	// maxErrorText bounds, in bytes, what is stored of a sink's error.
	maxErrorText = 512
)

// worker serves one sink. All of it belongs to the goroutine of run.
type worker struct {
	cfg        Config
	name       string
	batch      int
	sink       Sink
	queue      Queue
	log        *slog.Logger
	ladder     ladder
	dice       *dice
	deliveries *prometheus.CounterVec

	// sinkFails and queueFails remember states, to log their changes only.
	sinkFails, queueFails bool
	queueWait             time.Duration
}

// run claims and delivers until ctx ends; then it closes the sink.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		// Asked for before the claim: what becomes due in between is seen.
		pending := w.queue.Pending(w.name)
		until := time.Now().Add(w.cfg.Lease)
		batch, err := w.queue.Claim(ctx, w.name, w.batch, w.cfg.Lease)
		w.noteQueue(ctx, err)
		switch {
		case err != nil:
			w.sleep(ctx, w.nextQueueWait())
		case len(batch) == 0:
			w.idle(ctx, pending)
		default:
			w.deliver(ctx, batch, until)
		}
	}
	if err := w.sink.Close(); err != nil {
		return fmt.Errorf("close sink %s: %w", w.name, err)
	}
	return nil
}

// deliver sends one batch and settles it before its claim ends at until.
func (w *worker) deliver(ctx context.Context, batch []notification.Delivery, until time.Time) {
	settling, cancel := lingering(ctx, w.cfg.Grace, until)
	defer cancel()
	if ctx.Err() != nil {
		w.settle(settling, release(batch, time.Now()))
		return
	}
	results := w.send(ctx, batch)
	now := time.Now()
	outcomes := make([]notification.Outcome, len(batch))
	for i := range batch {
		outcomes[i] = w.outcome(&batch[i], results[i], now)
		if results[i].err != nil && ctx.Err() != nil && retryAfter(results[i].err) == 0 {
			// The end of the process is no fault of the delivery.
			outcomes[i] = notification.Outcome{DeliveryID: batch[i].ID, Next: now, Error: outcomes[i].Error}
		}
	}
	w.settle(settling, outcomes)
	w.noteSink(ctx, results)
	w.noteDead(ctx, outcomes)
}

// result is how one delivery fared. hopeless says that no try can succeed.
type result struct {
	err      error
	hopeless bool
}

// send makes the events and hands them to the sink in one call.
func (w *worker) send(ctx context.Context, batch []notification.Delivery) []result {
	results := make([]result, len(batch))
	events := make([]event.Event, 0, len(batch))
	sent := make([]int, 0, len(batch))
	for i := range batch {
		e, err := Event(&batch[i].Notification, w.cfg.AppOf)
		if err != nil {
			results[i] = result{err, true}
			continue
		}
		if batch[i].Key != "" {
			e.SetExtension(extensionKey, batch[i].Key)
		}
		events, sent = append(events, e), append(sent, i)
	}
	if len(events) == 0 {
		return results
	}
	sending, cancel := lingering(ctx, w.cfg.Grace*3/4, time.Now().Add(w.cfg.SendTimeout))
	defer cancel()
	faults := w.sink.Send(sending, events)
	for n, i := range sent {
		if len(faults) != len(events) {
			results[i].err = fmt.Errorf("sink gave %d results for %d events", len(faults), len(events))
			continue
		}
		results[i].err = faults[n]
	}
	return results
}

// outcome decides what follows one try.
func (w *worker) outcome(d *notification.Delivery, r result, now time.Time) notification.Outcome {
	out := notification.Outcome{DeliveryID: d.ID}
	if r.err == nil {
		return out
	}
	if errors.Is(r.err, ErrNotTried) {
		out.Next = now
		return out
	}
	out.Error = bounded(r.err.Error())
	if r.hopeless {
		out.Dead = true
		return out
	}
	out.Next, out.Dead = w.ladder.next(now, d.Notification.ReceivedAt, d.Attempts, w.dice.share(), retryAfter(r.err))
	return out
}

// settle records the outcomes, again and again until ctx ends, without
// sending anything twice. What cannot be settled becomes due with the end of
// its claim, and is then sent again with the same event id.
func (w *worker) settle(ctx context.Context, outcomes []notification.Outcome) {
	for {
		err := w.queue.Settle(ctx, outcomes)
		w.noteQueue(ctx, err)
		if err == nil {
			w.count(outcomes)
			return
		}
		if !w.sleep(ctx, w.nextQueueWait()) {
			w.log.WarnContext(ctx, "deliveries stay unsettled and may be sent again", "count", len(outcomes))
			return
		}
	}
}

func (w *worker) count(outcomes []notification.Outcome) {
	for i := range outcomes {
		switch out := &outcomes[i]; {
		case out.Dead:
			w.deliveries.WithLabelValues(w.name, outcomeDead).Inc()
		case out.Next.IsZero():
			w.deliveries.WithLabelValues(w.name, outcomeDelivered).Inc()
		case out.Error != "":
			w.deliveries.WithLabelValues(w.name, outcomeRetried).Inc()
		}
	}
}

// idle waits until something may be due.
func (w *worker) idle(ctx context.Context, pending <-chan struct{}) {
	wait := w.cfg.Poll
	at, found, err := w.queue.NextDue(ctx, w.name)
	if err == nil && found {
		wait = min(max(time.Until(at), minWait), w.cfg.Poll)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-pending:
	case <-timer.C:
	}
}

// sleep is false when ctx ended it.
func (w *worker) sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// nextQueueWait doubles with every failure in a row; noteQueue resets it.
func (w *worker) nextQueueWait() time.Duration {
	w.queueWait = min(max(2*w.queueWait, settleBase), settleTop)
	return w.queueWait
}

// noteQueue logs where the queue's trouble begins and ends.
func (w *worker) noteQueue(ctx context.Context, err error) {
	switch {
	case err == nil:
		w.queueWait = 0
		if w.queueFails {
			w.queueFails = false
			w.log.InfoContext(ctx, "queue answers again")
		}
	case ctx.Err() == nil && !w.queueFails:
		w.queueFails = true
		w.log.WarnContext(ctx, "queue gives no answer", "error", err)
	}
}

// noteSink logs where the sink's trouble begins and ends. It fails while
// nothing gets through; one event that it alone refuses is no such state.
func (w *worker) noteSink(ctx context.Context, results []result) {
	var fault error
	for _, r := range results {
		if r.hopeless || errors.Is(r.err, ErrNotTried) {
			continue
		}
		if r.err == nil {
			if w.sinkFails {
				w.sinkFails = false
				w.log.InfoContext(ctx, "sink takes events again")
			}
			return
		}
		fault = r.err
	}
	if fault != nil && !w.sinkFails && ctx.Err() == nil {
		w.sinkFails = true
		w.log.WarnContext(ctx, "sink takes no events", "error", bounded(fault.Error()))
	}
}

// noteDead logs once for each batch that dead letters came of it.
func (w *worker) noteDead(ctx context.Context, outcomes []notification.Outcome) {
	dead, text := 0, ""
	for i := range outcomes {
		if outcomes[i].Dead {
			dead, text = dead+1, outcomes[i].Error
		}
	}
	if dead > 0 {
		w.log.WarnContext(ctx, "deliveries became dead letters", "count", dead, "error", text)
	}
}

// release gives a claimed batch back untried.
func release(batch []notification.Delivery, now time.Time) []notification.Outcome {
	outcomes := make([]notification.Outcome, len(batch))
	for i := range batch {
		outcomes[i] = notification.Outcome{DeliveryID: batch[i].ID, Next: now}
	}
	return outcomes
}

// lingering gives a context that outlives ctx by grace, so that what a sink
// has taken is not sent twice for want of a moment to settle it. It ends at
// the deadline in any case.
func lingering(ctx context.Context, grace time.Duration, deadline time.Time) (context.Context, context.CancelFunc) {
	out, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return out, func() {
		stop()
		cancel()
	}
}

// bounded cuts a text for storing.
func bounded(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "")
}
