package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// Store is an open database.
type Store struct {
	cfg     Config
	engine  engine
	reader  *reader
	tally   *tally
	metrics *metrics
	// quarantineWasFull is to log the change only.
	quarantineWasFull atomic.Bool
	ids               *idSource
	// router is used inside of transactions that have entered it.
	router *router

	arrived   chan struct{} // capacity 1: the router has work
	lifecycle chan struct{} // capacity 1: the leader has work

	mu      sync.Mutex
	pending map[string]chan struct{} // by sink, guarded by mu
	closing sync.Once
}

// Open opens the database, creates it or brings it up to date, and starts what
// writes; Close has to follow. The errors are ErrInUse, ErrNewerSchema,
// ErrUnsafe, those of Config.Validate and graph.ErrStoreUnavailable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg.withDefaults(), tally: newTally(), metrics: newMetrics(), ids: newIDSource(),
		arrived: make(chan struct{}, 1), lifecycle: make(chan struct{}, 1), pending: map[string]chan struct{}{},
	}
	s.router = newRouter(s)
	open := openSQLite
	if cfg.Postgres != nil {
		open = openPostgres
	}
	var err error
	if s.engine, err = open(ctx, s); err != nil {
		return nil, err
	}
	s.reader = &reader{s.engine}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	token(s.arrived)
	return s, nil
}

// load reads what the store keeps in memory.
func (s *Store) load(ctx context.Context) (err error) {
	if err := s.tally.load(ctx, s.reader); err != nil {
		if !s.engine.shared() {
			return err
		}
		// A long backlog takes long to count. It shrinks only while a process
		// runs, and is counted again every second.
		s.cfg.Logger.WarnContext(ctx, "backlog not counted yet, starting without its bound", "error", err)
	}
	if !s.engine.shared() {
		if err := s.ids.follow(ctx, s.reader); err != nil {
			return err
		}
	}
	var term int64
	if _, err := s.reader.row(ctx, `SELECT term FROM leader`, nil, &term); err != nil {
		return err
	}
	s.metrics.term.Set(float64(term))
	return s.metrics.register(s.cfg.Registerer, s.tally, s.engine.size)
}

// Run routes what arrives and removes what is old until ctx ends, then gives
// nil. A failure of the database is logged and tried again.
func (s *Store) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { s.routeAll(ctx); return nil })
	group.Go(func() error { s.retainAll(ctx); return nil })
	if s.engine.shared() {
		group.Go(func() error { s.refreshAll(ctx); return nil })
	}
	return group.Wait()
}

// refreshAll is the loop that learns what other processes did.
func (s *Store) refreshAll(ctx context.Context) {
	cause := graph.Reason("")
	for untilNext(ctx, nil, s.cfg.PollInterval) {
		cause = s.report(ctx, "refresh", cause, s.engine.refresh(ctx))
	}
}

// Close takes no more writes, ends those that wait and closes the database. It
// may be called again.
func (s *Store) Close() (err error) {
	s.closing.Do(func() { err = s.engine.close() })
	return err
}

// Totals says what is not done with.
type Totals struct {
	// New and Held are received rows that are not routed yet.
	New, Held int64
	// Pending and Dead are deliveries by sink.
	Pending, Dead map[string]int64
	Quarantine    map[notification.Reason]int64
	OpenGaps      int64
	Bytes         int64 // of the database with its log
}

// Totals costs next to nothing, however much is stored. What other processes
// did of late may be missing.
func (s *Store) Totals(ctx context.Context) (Totals, error) {
	totals := Totals{
		New: s.tally.unrouted(stateNew), Held: s.tally.unrouted(stateHeld),
		Pending: s.tally.pendingRows(), Dead: s.tally.deadRows(),
		Quarantine: s.tally.quarantineRows(), Bytes: s.engine.size(),
	}
	_, err := s.reader.row(ctx, `SELECT count(*) FROM gap WHERE state = 'open'`, nil, &totals.OpenGaps)
	return totals, err
}

// Stats says how much the store holds.
type Stats struct {
	Totals
	// Routed and Duplicate are received rows by their state; a routed one is
	// kept until its retention ends.
	Routed, Duplicate int64
}

// Stats counts. It reads an index of all stored rows, so it is not for every
// look.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	if s.engine.shared() {
		if err := s.tally.load(ctx, s.reader); err != nil {
			return Stats{}, err
		}
	}
	totals, err := s.Totals(ctx)
	if err != nil {
		return Stats{}, err
	}
	states, err := s.countStates(ctx)
	totals.New, totals.Held = states[stateNew], states[stateHeld]
	return Stats{Totals: totals, Routed: states[stateRouted], Duplicate: states[stateDuplicate]}, err
}

// untilNext waits for a token or d; it is false when ctx has ended.
func untilNext(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}
