package httpapi

import (
	"sync"
	"time"
)

// Marks are where Graph draws its lines, over windows of ten minutes: with more
// than SlowRatio of the answers later than SlowAfter it delays what it sends by
// minutes, and with more than DropRatio later than DropAfter it drops it.
type Marks struct {
	SlowAfter time.Duration
	SlowRatio float64
	DropAfter time.Duration
	DropRatio float64
}

// DefaultMarks are the documented ones. They have moved before, from 2.9 s to
// 10 s and back to 3 s:
// https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks (April 2026).
func DefaultMarks() Marks {
	return Marks{SlowAfter: 3 * time.Second, DropAfter: 10 * time.Second, SlowRatio: 0.10, DropRatio: 0.15}
}

const (
	// window is Graph's; it is kept in steps.
	window     = 10 * time.Minute
	windowStep = 30 * time.Second
	// fewAnswers is how many answers a ratio needs: Graph looked at no fewer.
	fewAnswers = 100
	// warnAt is the share of a ratio at which a person is told, while there
	// is time.
	warnAt = 0.5
)

// pace is how an endpoint does against the marks.
type pace int

const (
	paceGood pace = iota
	paceNear      // more than warnAt of a mark
	paceSlow
	paceDropped
)

// answers counts answers, those that were slow, and those that were dropped.
type answers struct{ all, slow, dropped int64 }

func (a *answers) add(other answers) {
	a.all += other.all
	a.slow += other.slow
	a.dropped += other.dropped
}

// ratio is the share of slow answers.
func (a *answers) ratio() float64 { return share(a.slow, a.all) }

func share(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// judge gives the pace of some answers.
func (m Marks) judge(a answers) pace {
	slow, dropped := a.ratio(), share(a.dropped, a.all)
	switch {
	case a.all < fewAnswers:
		return paceGood
	case dropped > m.DropRatio:
		return paceDropped
	case slow > m.SlowRatio:
		return paceSlow
	case slow > warnAt*m.SlowRatio, dropped > warnAt*m.DropRatio:
		return paceNear
	}
	return paceGood
}

// endpoint remembers how fast the last answers were.
type endpoint struct {
	marks Marks

	mu    sync.Mutex
	steps [window / windowStep]struct {
		at answersAt
		answers
	} // guarded by mu; a ring
	pace pace // guarded by mu
}

// answersAt numbers the steps of all time.
type answersAt int64

func stepOf(now time.Time) answersAt { return answersAt(now.UnixNano() / int64(windowStep)) }

// note counts an answer. changed says that the pace is another than before.
func (e *endpoint) note(now time.Time, took time.Duration) (p pace, a answers, changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	step := &e.steps[int64(stepOf(now))%int64(len(e.steps))]
	if step.at != stepOf(now) {
		step.at, step.answers = stepOf(now), answers{}
	}
	step.add(answers{1, count(took > e.marks.SlowAfter), count(took > e.marks.DropAfter)})
	a = e.sum(now)
	p = e.marks.judge(a)
	changed, e.pace = p != e.pace, p
	return p, a, changed
}

// recent gives the answers of the window that ends now.
func (e *endpoint) recent(now time.Time) answers {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sum(now)
}

// sum is recent for who holds mu.
func (e *endpoint) sum(now time.Time) (a answers) {
	for i := range e.steps {
		if step := &e.steps[i]; stepOf(now)-step.at < answersAt(len(e.steps)) {
			a.add(step.answers)
		}
	}
	return a
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
