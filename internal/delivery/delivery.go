package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// Queue holds the deliveries. All methods obey their context and are called
// concurrently for different sinks.
type Queue interface {
	// Claim takes up to limit due deliveries of a sink for the length of
	// lease, oldest first; none is no error. A claim that is not settled
	// ends with its lease, and its deliveries become due again.
	Claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error)
	// Settle records outcomes, all or none. It may be called again with the
	// same outcomes after an error.
	Settle(ctx context.Context, outcomes []notification.Outcome) error
	// Pending gives a channel that is closed or gets a value when something
	// may have become due. It is asked for before each claim.
	Pending(sink string) <-chan struct{}
	// NextDue gives when the next delivery of a sink is due; found is false
	// when none waits.
	NextDue(ctx context.Context, sink string) (at time.Time, found bool, err error)
}

// Sink is one destination. Its methods are called by one goroutine.
type Sink interface {
	// Send hands events over, begun in order, and gives one result for each:
	// results[i] belongs to events[i], and nil means that the destination
	// has it durably. A failed event will be sent again; a RetryError says
	// when at the earliest, and ErrNotTried is no failure. Send obeys its
	// context; errors hold no secrets.
	Send(ctx context.Context, events []event.Event) []error
	// Close ends the sink; no Send follows.
	Close() error
}

// Delivery runs one worker for each sink.
type Delivery struct {
	workers []*worker
}

// New checks the configuration and registers the metrics.
func New(cfg Config, queue Queue) (*Delivery, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	deliveries, err := newMetrics(cfg.Registerer, cfg.Sinks)
	if err != nil {
		return nil, fmt.Errorf("delivery: register metrics: %w", err)
	}
	dice := &dice{rand: cfg.Rand}
	d := &Delivery{}
	for _, sink := range cfg.Sinks {
		d.workers = append(d.workers, &worker{
			cfg: cfg, name: sink.Name, batch: cmp.Or(sink.Batch, cfg.Batch), sink: sink.Sink, queue: queue, deliveries: deliveries, dice: dice,
			log:    cfg.Logger.With("sink", sink.Name),
			ladder: ladder{base: cfg.Base, top: cfg.Top, maxAge: cmp.Or(sink.MaxAge, DefaultMaxAge)},
		})
	}
	return d, nil
}

// Run delivers until ctx ends, and for at most the configured grace after it.
// It closes the sinks; its error is theirs.
func (d *Delivery) Run(ctx context.Context) error {
	faults := make([]error, len(d.workers))
	var wait sync.WaitGroup
	for i, w := range d.workers {
		wait.Go(func() { faults[i] = w.run(ctx) })
	}
	wait.Wait()
	return errors.Join(faults...)
}

// dice draws jitter for all workers.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
}

func (d *dice) share() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.Float64()
}
