package graphsim

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// spread is how far, in Graph's time, a POST that is reordered or a second copy
// of an item lags behind.
const spread = 5 * time.Second

// parcel is one POST of notifications, first or repeated.
type parcel struct {
	sequence  uint64
	url       string
	items     []*item
	body      []byte
	duplicate bool // sent on purpose though the items go out elsewhere too
	delayed   bool // by a slow endpoint, once
	attempts  int
	first     time.Time // of the first attempt
	due       time.Time // real time
}

// outbox holds the parcels that are not under way, soonest first.
type outbox struct {
	parcels  parcels
	items    int // not yet settled, those under way included
	sequence uint64
	proofs   map[string]proof
}

type parcels []*parcel

func (p parcels) Len() int { return len(p) }
func (p parcels) Less(i, j int) bool {
	if p[i].due.Equal(p[j].due) {
		return p[i].sequence < p[j].sequence
	}
	return p[i].due.Before(p[j].due)
}
func (p parcels) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push is for the heap only.
func (p *parcels) Push(x any) {
	if one, ok := x.(*parcel); ok {
		*p = append(*p, one)
	}
}

// Pop is for the heap only.
func (p *parcels) Pop() any {
	old := *p
	one := old[len(old)-1]
	old[len(old)-1] = nil
	*p = old[:len(old)-1]
	return one
}

// post queues items: those of one URL share POSTs of a drawn size. The caller
// holds the lock.
func (s *Sim) post(items []*item) error {
	var urls []string
	byURL := map[string][]*item{}
	for _, it := range items {
		if _, ok := byURL[it.url]; !ok {
			urls = append(urls, it.url)
		}
		byURL[it.url] = append(byURL[it.url], it)
	}
	for _, url := range urls {
		for rest := byURL[url]; len(rest) > 0; {
			r := stream(s.seed, "batch", s.outbox.sequence)
			n := min(len(rest), 1+r.IntN(s.cfg.BatchSize))
			if err := s.pack(slices.Clone(rest[:n])); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	s.stir()
	return nil
}

// pack queues one POST and the copies that the duplicate rate asks for. The
// caller holds the lock.
func (s *Sim) pack(items []*item) error {
	r := stream(s.seed, "parcel", s.outbox.sequence)
	due := time.Now().Add(upTo(r, s.scaled(s.cfg.Delay)))
	if s.cfg.ReorderRate > 0 && r.Float64() < s.cfg.ReorderRate {
		due = due.Add(s.scaled(spread)/2 + upTo(r, s.scaled(spread)/2))
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	}
	if err := s.enqueue(items, due, false); err != nil {
		return err
	}
	for _, it := range items {
		if s.cfg.DuplicateRate > 0 && r.Float64() < s.cfg.DuplicateRate {
			if err := s.enqueue([]*item{it}, due.Add(upTo(r, s.scaled(spread))), true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Sim) enqueue(items []*item, due time.Time, duplicate bool) error {
	collection := struct {
		Value            []json.RawMessage `json:"value"`
		ValidationTokens []string          `json:"validationTokens,omitempty"`
	}{}
	for _, it := range items {
		collection.Value = append(collection.Value, it.body)
		if !it.rich {
			continue
		}
		token, err := s.prove(it.app, it.tenant)
		if err != nil {
			return err
		}
		if !slices.Contains(collection.ValidationTokens, token) {
			collection.ValidationTokens = append(collection.ValidationTokens, token)
		}
	}
	body, err := json.Marshal(collection)
	if err != nil {
		return fmt.Errorf("graphsim: encode notifications: %w", err)
	}
	for _, it := range items {
		it.copies++
	}
	s.outbox.sequence++
	s.outbox.items += len(items)
	heap.Push(&s.outbox.parcels, &parcel{
		sequence: s.outbox.sequence, url: items[0].url, items: items, body: body, duplicate: duplicate, due: due,
	})
	return nil
}

// stir wakes Run.
func (s *Sim) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// nextDue takes the first parcel that is due, or tells how long until one is.
// Without any it gives an hour, since stir ends every wait.
func (s *Sim) nextDue() (*parcel, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outbox.parcels) == 0 {
		return nil, time.Hour
	}
	if left := time.Until(s.outbox.parcels[0].due); left > 0 {
		return nil, left
	}
	p, _ := heap.Pop(&s.outbox.parcels).(*parcel)
	return p, 0
}

// requeue puts a parcel back. The caller holds the lock.
func (s *Sim) requeue(p *parcel, due time.Time) {
	p.due = due
	heap.Push(&s.outbox.parcels, p)
	s.stir()
}

// settle ends a parcel: acknowledged, or given up. The caller holds the lock.
func (s *Sim) settle(p *parcel, acknowledged bool) {
	s.outbox.items -= len(p.items)
	for _, it := range p.items {
		it.copies--
		switch {
		case it.proven:
		case acknowledged:
			it.proven = true
			s.counts.Acknowledged++
		case it.copies == 0:
			s.counts.Dropped++
		}
	}
}
