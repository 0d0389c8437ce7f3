package graphsim

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Sim is one simulated Graph with its token service. It is safe for concurrent
// use. Deliveries happen only while Run runs.
type Sim struct {
	cfg    Config
	seed   uint64
	rules  ruleTable
	keys   *keyring
	client *http.Client
	wake   chan struct{} // tells Run that the outbox changed

	mu         sync.Mutex // guards all below; never held across a wait
	login      string     // the root of version 2 issuers
	offset     time.Duration
	subs       map[string]*subscription
	births     map[string]int // subscriptions ever made, by owner and resource
	ordinal    uint64         // of the latest subscription
	nextExpiry time.Time      // no live subscription ends sooner
	pools      map[string]int
	budgets    map[string][]time.Time
	faults     []*fault
	journal    journal
	counts     Counts
	outbox     outbox
	endpoints  map[string]*endpoint
}

// New checks the configuration and makes a Sim. It draws an RSA key unless one
// is given, does no I/O and starts nothing.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	seed := cfg.Seed
	if seed == 0 {
		var err error
		if seed, err = drawSeed(); err != nil {
			return nil, err
		}
	}
	keys, err := newKeyring(cfg.SigningKey)
	if err != nil {
		return nil, err
	}
	login := cfg.LoginURL
	if login == "" {
		login = "https://login.microsoftonline.com"
	}
	s := &Sim{
		cfg: cfg, seed: seed, rules: rules(), keys: keys, client: outboundClient(cfg),
		wake: make(chan struct{}, 1), login: strings.TrimSuffix(login, "/"),
		subs: map[string]*subscription{}, births: map[string]int{}, pools: map[string]int{},
		budgets: map[string][]time.Time{}, endpoints: map[string]*endpoint{},
		counts: Counts{Operations: map[string]map[int]int{}},
	}
	s.journal.limit = cfg.LogSize
	return s, nil
}

// outboundClient follows no redirect: whether Graph does is not documented, and
// an endpoint must not depend on it.
func outboundClient(cfg Config) *http.Client {
	client := &http.Client{}
	if cfg.HTTPClient != nil {
		*client = *cfg.HTTPClient
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = cfg.Concurrency
		client.Transport = t
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Seed gives the seed in use, drawn or configured.
func (s *Sim) Seed() uint64 { return s.seed }

// TimeScale gives the factor in use.
func (s *Sim) TimeScale() float64 { return s.cfg.TimeScale }

// scaled is a duration of Graph's own in real time.
func (s *Sim) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.cfg.TimeScale)
}

// now is the simulator's clock. The caller holds the lock.
func (s *Sim) now() time.Time { return time.Now().Add(s.offset) }

// Now gives the simulator's clock, which its Date header and its judgements of
// expiry follow.
func (s *Sim) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// SetClockOffset moves the simulator's clock to that distance from real time.
func (s *Sim) SetClockOffset(offset time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = offset
	s.nextExpiry = time.Time{}
	s.sweep()
}

// sweep deletes what has expired. The caller holds the lock.
func (s *Sim) sweep() {
	now := s.now()
	if now.Before(s.nextExpiry) {
		return
	}
	s.nextExpiry = now.Add(24 * time.Hour)
	for _, sub := range s.subs {
		if !now.Before(sub.expires) {
			s.discard(sub)
			s.counts.Expired++
		} else if sub.expires.Before(s.nextExpiry) {
			s.nextExpiry = sub.expires
		}
	}
}

// discard forgets a subscription. The caller holds the lock.
func (s *Sim) discard(sub *subscription) {
	delete(s.subs, sub.id)
	s.count(sub, -1)
}

// live gives the living subscriptions in the order of their creation. The
// caller holds the lock.
func (s *Sim) live() []*subscription {
	s.sweep()
	all := make([]*subscription, 0, len(s.subs))
	for _, sub := range s.subs {
		all = append(all, sub)
	}
	slices.SortFunc(all, func(a, b *subscription) int {
		if a.ordinal < b.ordinal {
			return -1
		}
		return 1
	})
	return all
}

// find gives a living subscription. The caller holds the lock.
func (s *Sim) find(id string) (*subscription, error) {
	s.sweep()
	sub, ok := s.subs[strings.ToLower(id)]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnknownSubscription, id)
	}
	return sub, nil
}

// Remove takes a subscription away as Graph sometimes does. With event, a
// subscriptionRemoved lifecycle event is queued.
func (s *Sim) Remove(id string, event bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.find(id)
	if err != nil {
		return err
	}
	if event {
		s.queueLifecycle(sub, SubscriptionRemoved)
	}
	s.discard(sub)
	s.counts.Removed++
	return nil
}

// Expire ends a subscription now, as if its time had come.
func (s *Sim) Expire(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.find(id)
	if err != nil {
		return err
	}
	s.discard(sub)
	s.counts.Expired++
	return nil
}

// Hide keeps a subscription out of listings, or shows it again. It goes on
// living, and a GET by id finds it.
func (s *Sim) Hide(id string, hidden bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.find(id)
	if err != nil {
		return err
	}
	sub.hidden = hidden
	return nil
}

// Notify queues change notifications for one subscription or for all, and gives
// the number of items. Run delivers them.
func (s *Sim) Notify(n Notification) (int, error) {
	if n.Count < 0 {
		return 0, errors.New("graphsim: the count of notifications must not be negative")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	subs := s.live()
	if n.SubscriptionID != "" {
		sub, err := s.find(n.SubscriptionID)
		if err != nil {
			return 0, err
		}
		subs = []*subscription{sub}
	}
	var items []*item
	for _, sub := range subs {
		for range max(n.Count, 1) {
			it, err := s.newItem(sub, n)
			if err != nil {
				return 0, err
			}
			items = append(items, it)
		}
	}
	return len(items), s.post(items)
}

// Lifecycle queues a lifecycle event of a living subscription. It changes
// nothing else: to send the event of a removal, use Remove.
func (s *Sim) Lifecycle(id string, event LifecycleEvent) error {
	switch event {
	case ReauthorizationRequired, SubscriptionRemoved, Missed:
	default:
		return fmt.Errorf("graphsim: %q is not a lifecycle event", event)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.find(id)
	if err != nil {
		return err
	}
	s.queueLifecycle(sub, event)
	return nil
}
