package graphsim

import (
	"net/url"
	"time"
)

type health string

const (
	healthy  health = "healthy"
	slow     health = "slow"
	dropping health = "dropping"
)

// probes are the responses that suffice for a judgement after a state ended.
const probes = 3

// endpoint is the health of one scheme and host, judged by how slow its
// responses are; errors that come fast do not count.
type endpoint struct {
	cfg         Health
	window      time.Duration // in real time
	slow, drop  time.Duration // what a response may take
	minimum     int
	state       health
	until       time.Time // end of the state
	responses   []response
	late        int // responses that took slow or longer
	tooLate     int // responses that took drop or longer
	transitions int
}

type response struct {
	at   time.Time
	took time.Duration
}

// endpoint gives the endpoint of a URL. The caller holds the lock.
func (s *Sim) endpoint(target string) *endpoint {
	key := target
	if u, err := url.Parse(target); err == nil {
		key = u.Scheme + "://" + u.Host
	}
	e, ok := s.endpoints[key]
	if !ok {
		e = &endpoint{
			cfg: s.cfg.Health, window: s.scaled(s.cfg.Health.Window), slow: s.cfg.FirstTimeout, drop: s.cfg.RetryTimeout,
			minimum: s.cfg.Health.Minimum, state: healthy,
		}
		s.endpoints[key] = e
	}
	return e
}

// judge gives the state of this moment. A slow endpoint is judged again when its
// delay is over, one whose notifications are dropped starts anew.
func (e *endpoint) judge(now time.Time) health {
	if e.state == healthy || now.Before(e.until) {
		return e.state
	}
	e.prune(now)
	if e.state == slow && share(e.late, len(e.responses)) > e.cfg.SlowShare {
		e.until = now.Add(e.window)
		return e.state
	}
	if e.state == dropping {
		e.responses, e.late, e.tooLate = nil, 0, 0
	}
	e.enter(healthy, time.Time{})
	e.minimum = min(probes, e.cfg.Minimum)
	return e.state
}

// record notes a response and enters the state that it leads to.
func (e *endpoint) record(now time.Time, took time.Duration) {
	if e.cfg.Off {
		return
	}
	e.responses = append(e.responses, response{now, took})
	e.tally(took, 1)
	e.prune(now)
	if len(e.responses) < e.minimum || e.state == dropping {
		return
	}
	switch {
	case share(e.tooLate, len(e.responses)) > e.cfg.DropShare:
		e.enter(dropping, now.Add(e.window))
	case e.state == healthy && share(e.late, len(e.responses)) > e.cfg.SlowShare:
		e.enter(slow, now.Add(e.window))
	case e.state == healthy && len(e.responses) >= e.cfg.Minimum:
		e.minimum = e.cfg.Minimum
	}
}

func (e *endpoint) enter(state health, until time.Time) {
	e.state, e.until = state, until
	e.transitions++
}

func (e *endpoint) prune(now time.Time) {
	for len(e.responses) > 0 && now.Sub(e.responses[0].at) > e.window {
		e.tally(e.responses[0].took, -1)
		e.responses = e.responses[1:]
	}
}

func (e *endpoint) tally(took time.Duration, n int) {
	if took >= e.slow {
		e.late += n
	}
	if took >= e.drop {
		e.tooLate += n
	}
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
