package renewal

import (
	"context"
	"math"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// A write that is on its way to Graph cannot be called back. So that none is
// still answered when another process leads, it has to end writeMargin before
// leadership may, and it does not begin with so little left that it would
// hardly be answered. All of these are in our time, not in Graph's.
const (
	writeMargin = 5 * time.Second
	writeNeeds  = 25 * time.Second
	deleteNeeds = 10 * time.Second
	// lookAgain is when to look whether leadership was prolonged.
	lookAgain = time.Second
)

// unlimited is the Left of a leader that nobody can follow while it lives.
func unlimited() time.Duration { return math.MaxInt64 }

// needs is how long leadership has to last for a call to begin.
func needs(v Verb) time.Duration {
	switch v {
	case Create, Renew:
		return writeNeeds
	case Delete:
		return deleteNeeds
	case Check, Inspect, Seek, List, Adopt, Forget, Lapse, Wait:
	}
	return 0
}

// room is when a call may begin as far as leadership is concerned: now, or
// when to look again.
func (t *term) room(now time.Time, v Verb) time.Time {
	if t.m.cfg.Left() < needs(v) {
		return now.Add(lookAgain)
	}
	return now
}

// write makes a call that changes something at Graph, within what is left of
// leadership. With too little left it is not sent.
func (t *term) write(ctx context.Context, v Verb, operation graph.Operation, call func(ctx context.Context) (graph.Subscription, error)) answer {
	left := t.m.cfg.Left()
	if left < needs(v) {
		return answer{err: &graph.Error{Operation: operation, Unsent: true, Err: graph.ErrLeaseLost}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left-writeMargin, graph.ErrLeaseLost)
	defer cancel()
	sub, err := call(ctx)
	return answer{sub: sub, err: err}
}
