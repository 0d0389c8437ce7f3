package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// Store is an open database.
type Store struct {
	cfg     Config
	lock    *flock.Flock
	reader  *reader
	queue   *queue
	writing sync.WaitGroup
	tally   *tally
	metrics *metrics

	// ids and router belong to the writer.
	ids    *idSource
	router *router

	arrived   chan struct{} // capacity 1: the router has work
	lifecycle chan struct{} // capacity 1: the leader has work

	mu      sync.Mutex
	pending map[string]chan struct{} // by sink, guarded by mu
	closing sync.Once
}

// Open opens the database, creates it or brings it up to date, and starts the
// writer; Close has to follow. The errors are ErrInUse, ErrNewerSchema, those
// of Config.Validate and graph.ErrStoreUnavailable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	lock, err := lockFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// lockFile keeps a second process out. The kernel frees the lock when this
// process dies, however it dies.
func lockFile(path string) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, unavailable("lock the store", err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s is locked: stop the other graphsubd, or give this one another path; "+
			"two or more replicas need PostgreSQL", ErrInUse, path)
	}
	return lock, nil
}

func open(ctx context.Context, cfg Config, lock *flock.Flock) (s *Store, err error) {
	if err := migrate(ctx, cfg.Path, cfg.Logger); err != nil {
		return nil, err
	}
	source, err := dataSource(cfg.Path, fmt.Sprintf("cache_size(-%d)", writerCache))
	if err != nil {
		return nil, err
	}
	s = &Store{
		cfg: cfg, lock: lock, queue: newQueue(), tally: newTally(),
		arrived: make(chan struct{}, 1), lifecycle: make(chan struct{}, 1), pending: map[string]chan struct{}{},
	}
	s.router = newRouter(s)
	if s.metrics, err = newMetrics(cfg.Registerer, s.tally, s.size); err != nil {
		return nil, err
	}
	if s.reader, err = newReader(cfg.Path); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, s.reader.close())
	}
	w := &writer{queue: s.queue, source: source, observer: s.metrics.commit, failed: s.router.forget}
	// The writer outlives the call that opened it: Close ends it.
	detached := context.WithoutCancel(ctx)
	s.writing.Go(func() { w.loop(detached) })
	if err := s.releaseClaims(ctx); err != nil {
		return nil, errors.Join(err, s.shut())
	}
	token(s.arrived)
	return s, nil
}

// load reads what the store keeps in memory.
func (s *Store) load(ctx context.Context) (err error) {
	if err := s.tally.load(ctx, s.reader); err != nil {
		return err
	}
	if s.ids, err = newIDSource(ctx, s.reader); err != nil {
		return err
	}
	var term int64
	if _, err := s.reader.row(ctx, `SELECT term FROM leader`, nil, &term); err != nil {
		return err
	}
	s.metrics.term.Set(float64(term))
	return nil
}

// Run routes what arrives and removes what is old until ctx ends, then gives
// nil. A failure of the database is logged and tried again.
func (s *Store) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { s.routeAll(ctx); return nil })
	group.Go(func() error { s.retainAll(ctx); return nil })
	return group.Wait()
}

// Close takes no more writes, ends those that wait, moves the log into the
// database and closes it. It may be called again.
func (s *Store) Close() (err error) {
	s.closing.Do(func() { err = errors.Join(s.shut(), s.lock.Close()) })
	return err
}

func (s *Store) shut() error {
	s.queue.close()
	s.writing.Wait()
	return s.reader.close()
}

// size is that of the database with its log.
func (s *Store) size() int64 {
	var sum int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.cfg.Path + suffix); err == nil {
			sum += info.Size()
		}
	}
	return sum
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

// Totals costs next to nothing, however much is stored.
func (s *Store) Totals(ctx context.Context) (Totals, error) {
	totals := Totals{
		New: s.tally.unrouted(stateNew), Held: s.tally.unrouted(stateHeld),
		Pending: s.tally.pendingRows(), Dead: s.tally.deadRows(),
		Quarantine: s.tally.quarantineRows(), Bytes: s.size(),
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
