package webhook_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/delivery/webhook"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		200: "", 201: "", 202: "", 204: "", 299: "",
		301: "webhook: the consumer answered 301 Moved Permanently, and redirects are not followed",
		307: "webhook: the consumer answered 307 Temporary Redirect, and redirects are not followed",
		304: "webhook: the consumer answered 304 Not Modified, and redirects are not followed",
		400: "webhook: the consumer answered 400 Bad Request",
		410: "webhook: the consumer answered 410 Gone",
		413: "webhook: the consumer answered 413 Request Entity Too Large",
		422: "webhook: the consumer answered 422 Unprocessable Entity",
		500: "webhook: the consumer answered 500 Internal Server Error",
		599: "webhook: the consumer answered 599",
	} {
		c := newConsumer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere?token=hunter2")
			w.WriteHeader(status)
			if status != http.StatusNoContent && status != http.StatusNotModified {
				write(w, `{"secret":"hunter2"}`)
			}
		}, (*httptest.Server).Start)
		err := newSink(t, c.URL+"/?token=hunter2").Send(t.Context(), makeEvents(1))[0]
		if want != "" {
			assertText(t, err, want)
		} else if err != nil {
			t.Errorf("%d: %v", status, err)
		}
		if len(c.all()) != 1 {
			t.Errorf("%d: %d requests", status, len(c.all()))
		}
	}
}

func TestOneRefusedEventFailsAlone(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Webhook-Id") {
		case "e3":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case "e5", "e7", "e9":
			panic(http.ErrAbortHandler) // the connection breaks
		}
	}, (*httptest.Server).Start)
	sink := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = 1 })
	for i, err := range sink.Send(t.Context(), makeEvents(11)) {
		if failed := slices.Contains([]int{3, 5, 7, 9}, i); failed != (err != nil) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if ids := slices.Compact(c.ids()); strings.Join(ids, " ") != "e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 e10" {
		t.Errorf("order %q", ids)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Id") == "e1" {
			<-r.Context().Done()
		}
	}, (*httptest.Server).Start)
	sink := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Timeout, cfg.Concurrency = 200*time.Millisecond, 1 })
	results := sink.Send(t.Context(), makeEvents(3))
	if results[0] != nil || results[2] != nil {
		t.Errorf("results %v", results)
	}
	assertText(t, results[1], "webhook: no answer within 200ms")
}

// TestAnswerWithoutEndCounts has a consumer that says yes and goes on talking.
func TestAnswerWithoutEndCounts(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			write(w, strings.Repeat("x", 8<<10))
		}
	}, (*httptest.Server).Start)
	from := time.Now()
	err := errors.Join(newSink(t, c.URL).Send(t.Context(), makeEvents(3))...)
	if took := time.Since(from); err != nil || took >= webhook.DefaultTimeout {
		t.Errorf("took %s: %v", took, err)
	}
}

// TestDestinationThatIsDownIsLeftAlone counts connections, not requests.
func TestDestinationThatIsDownIsLeftAlone(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			mustClose(t, conn)
		}
	}()
	sink := newSink(t, "http://"+listener.Addr().String()+"/?token=hunter2", func(cfg *webhook.Config) { cfg.Concurrency = 1 })
	results := sink.Send(t.Context(), makeEvents(100))
	mustClose(t, listener)
	<-done
	for i, err := range results {
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.HasSuffix(err.Error(), ", as for 3 events before it") != (i >= 3) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if n := tries.Load(); n != 3 {
		t.Errorf("%d tries", n)
	}
	// Nobody listens any more.
	err = sink.Send(t.Context(), makeEvents(1))[0]
	assertText(t, err, "webhook: dial tcp "+listener.Addr().String()+": connect: connection refused")
}

func TestTooManyRequestsEndsTheBatch(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Id") == "e2" {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}, (*httptest.Server).Start)
	results := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = 1 }).Send(t.Context(), makeEvents(5))
	for i, err := range results {
		retry, ok := errors.AsType[*delivery.RetryError](err)
		if held := i >= 2; held != (ok && retry.RetryAfter == 7*time.Second) || !held && err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if len(c.all()) != 3 {
		t.Errorf("%d requests", len(c.all()))
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const slack = 2 * time.Second // a date has whole seconds
	for _, test := range []struct {
		status   int
		text     string
		min, max time.Duration
	}{
		{503, "120", 2 * time.Minute, 2 * time.Minute},
		{400, "1", time.Second, time.Second},
		{302, "5", 5 * time.Second, 5 * time.Second},
		{503, time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat), 10*time.Minute - slack - 30*time.Second, 10 * time.Minute},
		{503, "99999999999999999999999999", delivery.MaxRetryAfter, delivery.MaxRetryAfter},
		{503, time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
		{503, "0", 0, 0},
		{503, "-5", 0, 0},
		{503, "soon", 0, 0},
		{503, "", 0, 0},
	} {
		c := newConsumer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", test.text)
			w.WriteHeader(test.status)
		}, (*httptest.Server).Start)
		err := newSink(t, c.URL).Send(t.Context(), makeEvents(1))[0]
		var got time.Duration
		if retry, ok := errors.AsType[*delivery.RetryError](err); ok {
			got = retry.RetryAfter
		}
		if err == nil || got < test.min || got > test.max {
			t.Errorf("%d %q: %s, want %s to %s; %v", test.status, test.text, got, test.min, test.max, err)
		}
	}
}
