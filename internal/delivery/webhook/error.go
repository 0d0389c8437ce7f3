package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/graphsubd/graphsubd/internal/delivery"
)

const (
	// maxCause bounds the text of a connection's fault: it may quote bytes
	// that are no HTTP.
	maxCause = 200
	// maxInARow is how many requests in a row may get no answer before the
	// destination counts as down.
	maxInARow = 3
)

// statusError is an answer other than 2xx.
type statusError struct{ code int }

func (e *statusError) Error() string {
	text := "the consumer answered " + strconv.Itoa(e.code)
	if name := http.StatusText(e.code); name != "" {
		text += " " + name
	}
	if e.code/100 == 3 {
		text += ", and redirects are not followed"
	}
	return "webhook: " + text
}

// transportError says that no answer came.
type transportError struct{ cause error }

func (e *transportError) Error() string {
	text := e.cause.Error()
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "")
	}
	return "webhook: " + text
}

func (e *transportError) Unwrap() error { return e.cause }

// withoutURL takes the URL, whose query may hold a secret, off an error of the
// client.
func withoutURL(err error) error {
	if withURL, ok := errors.AsType[*url.Error](err); ok {
		err = withURL.Err
	}
	return &transportError{err}
}

// verdict reads an answer; nil is success.
func verdict(response *http.Response, now time.Time) error {
	if response.StatusCode/100 == 2 {
		return nil
	}
	err := &statusError{response.StatusCode}
	if wait := retryAfter(response.Header.Get("Retry-After"), now); wait > 0 {
		return &delivery.RetryError{Err: err, RetryAfter: wait}
	}
	return err
}

// retryAfter reads seconds or a date; 0 is neither, or the past.
func retryAfter(text string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(delivery.MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// outage remembers, for one Send, whether going on is in vain.
type outage struct {
	mu     sync.Mutex
	inARow int   // guarded by mu
	cause  error // guarded by mu
}

// err is nil while going on makes sense.
func (o *outage) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}

// note takes the result of one request.
func (o *outage) note(err error) {
	_, unreachable := errors.AsType[*transportError](err)
	status, refused := errors.AsType[*statusError](err)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case unreachable:
		if o.inARow++; o.inARow >= maxInARow && o.cause == nil {
			o.cause = fmt.Errorf("%w, as for %d events before it", err, maxInARow)
		}
	case refused && status.code == http.StatusTooManyRequests:
		o.cause = err
	default:
		o.inARow = 0
	}
}
