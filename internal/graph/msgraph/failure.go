package msgraph

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// maxRetryAfter caps what an answer may ask for: one wrong header must not
// end the renewal of anything.
const maxRetryAfter = time.Hour

// refusal reads an answer that is no success. An answer whose body is not
// Graph's envelope keeps its status and says that it is not enveloped.
func refusal(operation graph.Operation, a answer, now time.Time, secrets []string) *graph.Error {
	var envelope struct {
		Error struct {
			Code       string `json:"code"`
			Message    string `json:"message"`
			InnerError struct {
				RequestID string `json:"request-id"`
			} `json:"innerError"` // The case does not matter: innererror is read as well.
		} `json:"error"`
	}
	// What decodes before a type mismatch counts, and the page of a proxy
	// leaves all of it empty.
	_ = json.Unmarshal(a.body, &envelope)
	raw := envelope.Error
	requestID := a.header.Get("request-id")
	if requestID == "" {
		requestID = raw.InnerError.RequestID
	}
	message := clean(raw.Message, secrets...)
	if a.status == http.StatusUnauthorized && strings.Contains(strings.ToLower(message), "audience") {
		message += "; the token is for another cloud: check apps[].cloud and apps[].endpoints"
	}
	return &graph.Error{
		Operation:  operation,
		Status:     a.status,
		Code:       clean(raw.Code, secrets...),
		Message:    message,
		Embedded:   graph.EmbeddedStatus(raw.Message),
		Enveloped:  raw.Code != "",
		RetryAfter: retryAfter(a.header, now),
		RequestID:  clean(requestID, secrets...),
	}
}

// silence is a call without an answer. When ctx has ended, why it has is part
// of the error, so that a lost lease is told from a slow Graph.
func silence(ctx context.Context, operation graph.Operation, err error) *graph.Error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
		if !errors.Is(cause, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
	}
	if located, ok := errors.AsType[*url.Error](err); ok {
		err = located.Err // its text has the URL, with the query string
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = fmt.Errorf("%w; trust the authority's certificate with endpoints.caFile, or check the clock", err)
	}
	return &graph.Error{Operation: operation, Err: err}
}

// retryAfter reads the header: seconds, with a fraction or not, or an HTTP
// date, which is set against the answer's own Date so that clocks may differ.
// It is 0 when there is none, and never beyond an hour.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range still has a sign
		at, err := http.ParseTime(value)
		if err != nil {
			return 0
		}
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			now = date
		}
		seconds = at.Sub(now).Seconds()
	}
	switch {
	case math.IsNaN(seconds), seconds <= 0:
		return 0
	case seconds >= maxRetryAfter.Seconds():
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}

// maxText bounds a foreign text that goes into logs and the store.
const maxText = 1000

// clean makes a foreign text fit to be shown: without the secrets, without
// the paths of URLs (ours carry a token), on one line, bounded.
func clean(text string, secrets ...string) string {
	text = regexp.MustCompile(`(?i)(https?://[^/\s'"<>?#]+)[/?#][^\s'"<>]*`).ReplaceAllString(text, "$1/(removed)")
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(removed)")
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.TrimSpace(text)
}
