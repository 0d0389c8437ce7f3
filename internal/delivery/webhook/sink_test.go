package webhook_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
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
			// The last one may be closed by the end of the server too.
			if state == http.StateIdle {
				if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
		}
		s.Start()
	})
	sink := newSink(t, c.URL, func(cfg *webhook.Config) { cfg.Concurrency = 1 })
	if err := errors.Join(sink.Send(t.Context(), makeEvents(50))...); err != nil {
		t.Error(err)
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
