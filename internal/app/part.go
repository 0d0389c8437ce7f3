package app

import (
	"context"
	"fmt"
)

// part is one running piece of the process.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // valid once done is closed
}

// parts runs the pieces of the process and knows when one has failed.
type parts struct {
	all    []*part
	failed chan *part
}

func newParts() *parts { return &parts{failed: make(chan *part, 16)} }

// start runs a piece under a context of its own, so that the pieces end in
// order and not all at once when the process is told to stop.
func (p *parts) start(ctx context.Context, name string, run func(ctx context.Context) error) *part {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	piece := &part{name: name, stop: stop, done: make(chan struct{})}
	p.all = append(p.all, piece)
	go func() { // joined by end, which wait for done
		defer close(piece.done)
		if err := run(own); err != nil {
			piece.err = fmt.Errorf("%s: %w", name, err)
		}
		if own.Err() == nil {
			p.failed <- piece // it ended although nobody asked it to
		}
	}()
	return piece
}

// end stops pieces side by side and waits until all of them have ended.
func end(pieces ...*part) {
	for _, piece := range pieces {
		piece.stop()
	}
	for _, piece := range pieces {
		<-piece.done
	}
}

// errs gives what the ended pieces report.
func (p *parts) errs() []error {
	var errs []error
	for _, piece := range p.all {
		if piece.err != nil {
			errs = append(errs, piece.err)
		}
	}
	return errs
}
