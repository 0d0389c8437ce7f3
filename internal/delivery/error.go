package delivery

import (
	"errors"
	"time"
)

// MaxRetryAfter is the longest that a destination can put off a next try.
const MaxRetryAfter = time.Hour

// ErrNotTried is a sink's result for an event that it did not come to before
// its context ended. The event is due again at once, and no failure is counted.
var ErrNotTried = errors.New("not tried before the time was up")

// RetryError is a sink's error for an event whose destination said when to try
// again. The next try comes no sooner than RetryAfter from now, of which at
// most MaxRetryAfter counts; it still comes before the event is too old.
type RetryError struct {
	Err        error
	RetryAfter time.Duration
}

// Error gives the text of the error alone.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap gives the error.
func (e *RetryError) Unwrap() error { return e.Err }

// retryAfter is how long the destination asked to be left alone, 0 for not.
func retryAfter(err error) time.Duration {
	retry, ok := errors.AsType[*RetryError](err)
	if !ok {
		return 0
	}
	return min(max(retry.RetryAfter, 0), MaxRetryAfter)
}
