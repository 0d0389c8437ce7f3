package graphsim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Run delivers notifications until ctx ends, then waits for those under way. It
// returns nil. Items that are not settled stay queued for a later Run.
func (s *Sim) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, s.cfg.Concurrency)
	for {
		p, left := s.nextDue()
		if p == nil {
			if !s.pause(ctx, left) {
				return nil
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			s.putBack(p)
			return nil
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.attempt(ctx, p)
		})
	}
}

// pause waits for the time, for news in the outbox or for the end, in which
// case it gives false.
func (s *Sim) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

func (s *Sim) putBack(p *parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requeue(p, p.due)
}

// attempt tries a parcel once: any 2xx in time settles it, all else makes it
// wait or, after the retry window, be dropped.
func (s *Sim) attempt(ctx context.Context, p *parcel) {
	timeout, ok := s.start(p)
	if !ok {
		return
	}
	began := time.Now()
	status := s.deliver(ctx, p, timeout)
	if status == 0 && ctx.Err() != nil {
		s.putBack(p)
		return
	}
	s.finish(p, status, time.Since(began))
}

// start asks the endpoint's health and notes the attempt.
func (s *Sim) start(p *parcel) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch e := s.endpoint(p.url); e.judge(now) {
	case dropping:
		s.settle(p, false)
		return 0, false
	case slow:
		if p.attempts == 0 && !p.delayed {
			p.delayed = true
			s.requeue(p, now.Add(s.scaled(s.cfg.Health.Window)))
			return 0, false
		}
	case healthy:
	}
	timeout := s.cfg.RetryTimeout
	if p.attempts == 0 {
		timeout, p.first = s.cfg.FirstTimeout, now
		s.noteSent(p)
	}
	p.attempts++
	s.counts.Attempts++
	return timeout, true
}

func (s *Sim) noteSent(p *parcel) {
	if p.duplicate {
		s.counts.DuplicatesSent += len(p.items)
	}
	for _, it := range p.items {
		if !it.sent {
			it.sent = true
			s.counts.Sent++
		}
	}
}

// deliver gives the status of the endpoint's answer, 0 without one.
func (s *Sim) deliver(ctx context.Context, p *parcel, timeout time.Duration) int {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := s.client.Do(req)
	if err != nil {
		s.cfg.Logger.DebugContext(ctx, "notification not delivered", "attempt", p.attempts)
		return 0
	}
	// The rest of the body only serves to keep the connection.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	return resp.StatusCode
}

func (s *Sim) finish(p *parcel, status int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.endpoint(p.url).record(now, took)
	if status >= 200 && status < 300 {
		s.settle(p, true)
		return
	}
	due := now.Add(s.backoff(p))
	if due.Sub(p.first) > s.scaled(s.cfg.RetryWindow) {
		s.settle(p, false)
		return
	}
	s.requeue(p, due)
}

// backoff doubles with each attempt, up to a fifth more or less.
func (s *Sim) backoff(p *parcel) time.Duration {
	d := s.cfg.RetryBackoff
	for i := 1; i < p.attempts && d < s.cfg.MaxBackoff; i++ {
		d *= 2
	}
	d = s.scaled(min(d, s.cfg.MaxBackoff))
	return d - d/5 + upTo(stream(s.seed, "retry", p.sequence, p.attempts), 2*d/5)
}
