package webhook_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/delivery/webhook"
)

// TestRequest looks at every part of a request.
func TestRequest(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, nil, (*httptest.Server).Start)
	sink := newSink(t, c.URL+"/hooks/graph?x=1", func(cfg *webhook.Config) {
		cfg.Secrets = []func() (string, error){secret(prefixed), secret(plain)}
	})
	from := time.Now().Unix()
	if err := errors.Join(sink.Send(t.Context(), makeEvents(1))...); err != nil {
		t.Fatal(err)
	}
	got := c.all()[0]
	e := makeEvent("e0")
	want := `{"specversion":"1.0","id":"e0","source":"/tenants/t/applications/a","type":"Microsoft.Graph.MessageCreated",` +
		`"datacontenttype":"application/json","time":"2030-01-02T03:04:05Z","data":` + string(e.Data()) + `}`
	if got.method != http.MethodPost || got.uri != "/hooks/graph?x=1" || string(got.body) != want || got.length != int64(len(want)) {
		t.Errorf("%s %s %s, want %s", got.method, got.uri, got.body, want)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/cloudevents+json", "User-Agent": "graphsubd", "Webhook-Id": "e0",
		"Idempotency-Key": "", "Accept-Encoding": "",
	} {
		if has := got.header.Get(name); has != value {
			t.Errorf("%s is %q, want %q", name, has, value)
		}
	}
	at := json.Number(got.header.Get("Webhook-Timestamp"))
	if seconds, err := at.Int64(); err != nil || seconds < from || seconds > time.Now().Unix() {
		t.Errorf("timestamp %s: %v", at, err)
	}
	signatures := strings.Split(got.header.Get("Webhook-Signature"), " ")
	if len(signatures) != 2 {
		t.Fatalf("signatures %q", signatures)
	}
	first, err := standardwebhooks.NewWebhook(prefixed)
	if err != nil {
		t.Fatal(err)
	}
	second, err := standardwebhooks.NewWebhookRaw([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := standardwebhooks.NewWebhookRaw([]byte(prefixed))
	if err != nil {
		t.Fatal(err)
	}
	// Each secret verifies its own place, and the whole header.
	for i, verifier := range []*standardwebhooks.Webhook{first, second} {
		alone := got.header.Clone()
		alone.Set("Webhook-Signature", signatures[i])
		if err := errors.Join(verifier.Verify(got.body, got.header), verifier.Verify(got.body, alone)); err != nil {
			t.Errorf("secret %d: %v", i, err)
		}
		if verifier.Verify(append(got.body, ' '), got.header) == nil {
			t.Errorf("secret %d verifies another body", i)
		}
	}
	if stranger.Verify(got.body, got.header) == nil {
		t.Error("a strange secret verifies")
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, nil, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	roots := x509.NewCertPool()
	roots.AddCert(c.Certificate())
	sink := newSink(t, c.URL)
	webhook.Trust(sink, roots)
	if err := errors.Join(sink.Send(t.Context(), makeEvents(20))...); err != nil {
		t.Fatal(err)
	}
	for _, got := range c.all() {
		if got.proto != "HTTP/2.0" || got.from != c.all()[0].from {
			t.Errorf("%s from %s", got.proto, got.from)
		}
	}
}

func TestStrangeCertificateIsRefused(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, nil, (*httptest.Server).StartTLS)
	for _, err := range newSink(t, c.URL).Send(t.Context(), makeEvents(5)) {
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("error %v", err)
		}
	}
	if len(c.all()) != 0 {
		t.Error("events went to a stranger")
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, func(w http.ResponseWriter, _ *http.Request) {
		write(w, strings.Repeat("x", 10_000))
	}, (*httptest.Server).Start)
	sink := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = 2 })
	for range 3 {
		if err := errors.Join(sink.Send(t.Context(), makeEvents(10))...); err != nil {
			t.Fatal(err)
		}
	}
	connections := map[string]bool{}
	for _, got := range c.all() {
		connections[got.from] = true
	}
	// One may be dialled while another is on its way back.
	if len(connections) > 6 {
		t.Errorf("%d connections", len(connections))
	}
}

// TestClosedIdleConnectionIsNoFailure has the consumer end each connection as
// soon as it is idle, without saying so.
func TestClosedIdleConnectionIsNoFailure(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, nil, func(s *httptest.Server) {
		s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				mustClose(t, conn)
			}
		}
		s.Start()
	})
	sink := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = 1 })
	if err := errors.Join(sink.Send(t.Context(), makeEvents(50))...); err != nil {
		t.Error(err)
	}
}

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

func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 4
	full := make(chan struct{})
	var waiting atomic.Int32
	c := newConsumer(t, func(http.ResponseWriter, *http.Request) {
		if waiting.Add(1) == limit {
			close(full) // as many as may be are here at once
		}
		<-full
	}, (*httptest.Server).Start)
	sink := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = limit })
	if err := errors.Join(sink.Send(t.Context(), makeEvents(40))...); err != nil {
		t.Error(err)
	}
	if c.top != limit || len(c.all()) != 40 {
		t.Errorf("%d at once, %d in all", c.top, len(c.all()))
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

func TestContextEndsSend(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := newConsumer(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}, (*httptest.Server).Start)
	results := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = 1 }).Send(ctx, makeEvents(3))
	assertText(t, results[0], "webhook: stopped while waiting for the answer: context canceled")
	for _, err := range results[1:] {
		if !errors.Is(err, delivery.ErrNotTried) {
			t.Errorf("error %v", err)
		}
	}
	if len(c.all()) != 1 {
		t.Errorf("%d requests", len(c.all()))
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

func TestWhatCannotBeEncodedFailsAlone(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, nil, (*httptest.Server).Start)
	events := makeEvents(2)
	events[0] = event.Event{}
	results := newSink(t, c.URL).Send(t.Context(), events)
	if results[0] == nil || results[1] != nil || len(c.all()) != 1 {
		t.Errorf("results %v, %d requests", results, len(c.all()))
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := webhook.Config{URL: "https://host/path", Secrets: []func() (string, error){secret(plain)}}
	for name, spoil := range map[string]func(*webhook.Config){
		"no URL":         func(c *webhook.Config) { c.URL = "" },
		"no host":        func(c *webhook.Config) { c.URL = "http:///path" },
		"no scheme":      func(c *webhook.Config) { c.URL = "ftp://host" },
		"no address":     func(c *webhook.Config) { c.URL = "http://hunter2:%" },
		"a user":         func(c *webhook.Config) { c.URL = "https://x:hunter2@host" },
		"no secret":      func(c *webhook.Config) { c.Secrets = nil },
		"no concurrency": func(c *webhook.Config) { c.Concurrency = -1 },
		"no time":        func(c *webhook.Config) { c.Timeout = -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := webhook.New(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	newSink(t, good.URL)
}
