package webhook_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/graphsubd/graphsubd/internal/delivery/webhook"
)

// source is a secret that can be replaced, and counts its readers.
type source struct {
	text, fault atomic.Value
	reads       atomic.Int32
}

func newSource(text string) *source {
	s := &source{}
	s.text.Store(text)
	s.fault.Store("")
	return s
}

func (s *source) read() (string, error) {
	s.reads.Add(1)
	if fault, ok := s.fault.Load().(string); ok && fault != "" {
		return "", errors.New(fault)
	}
	text, _ := s.text.Load().(string)
	return text, nil
}

func from(s *source) func(*webhook.Config) {
	return func(c *webhook.Config) { c.Secrets = []func() (string, error){s.read} }
}

// checking answers 401 to what the key does not sign.
func checking(t *testing.T, key string) func(http.ResponseWriter, *http.Request) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhookRaw([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		e := makeEvent(r.Header.Get("Webhook-Id"))
		body, err := e.MarshalJSON()
		if err != nil || verifier.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

func TestSecretIsReadAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	const next = "hunter2-next-0123456789abcdefgh"
	c := newConsumer(t, checking(t, next), (*httptest.Server).Start)
	s := newSource(plain)
	sink := newSink(t, c.URL, from(s))
	assertText(t, sink.Send(t.Context(), makeEvents(1))[0], "webhook: the consumer answered 401 Unauthorized")
	s.text.Store(next)
	for range 3 {
		if err := sink.Send(t.Context(), makeEvents(1))[0]; err != nil {
			t.Error(err)
		}
	}
	if n := s.reads.Load(); n != 2 {
		t.Errorf("read %d times, want 2", n)
	}
}

func TestSecretIsReadOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(plain)
		// An empty batch reads what is due and needs no network.
		sink := newSink(t, "http://127.0.0.1:1/", from(s))
		for range 10*60 + 1 {
			sink.Send(t.Context(), nil)
			time.Sleep(time.Second)
		}
		if n := s.reads.Load(); n != 11 {
			t.Errorf("read %d times in ten minutes, want 11", n)
		}
	})
}

func TestUnreadableSecretLeavesTheLastInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newSource(plain)
		sink := newSink(t, "http://127.0.0.1:1/", from(s), func(c *webhook.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		sink.Send(t.Context(), nil)
		lines := func() int { return strings.Count(log.String(), "webhook secret cannot be read") }
		for _, spoil := range []func(){
			func() { s.fault.Store("file x is empty") },
			func() { s.text.Store("hunter2") },
			func() { s.text.Store("whsec_hunter2-is-no-base64-at-all") },
		} {
			before := lines()
			spoil()
			for range 3 {
				time.Sleep(time.Minute)
				sink.Send(t.Context(), nil)
			}
			if lines() != before+1 {
				t.Errorf("log: %s", log.String())
			}
			s.fault.Store("")
			s.text.Store(plain)
			time.Sleep(time.Minute)
			sink.Send(t.Context(), nil)
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("a secret leaks: %s", log.String())
		}
	})
}

func TestBadSecretSendsNothing(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, nil, (*httptest.Server).Start)
	for text, want := range map[string]string{
		"hunter2":                "webhook secret: the key has 7 bytes, it needs 24",
		"":                       "webhook secret: the key has 0 bytes, it needs 24",
		"whsec_":                 "webhook secret: the key has 0 bytes, it needs 24",
		"whsec_aHVudGVyMg==":     "webhook secret: the key has 7 bytes, it needs 24",
		"whsec_" + plain + "!!!": "webhook secret: what follows whsec_ is no base64",
	} {
		for _, err := range newSink(t, c.URL, from(newSource(text))).Send(t.Context(), makeEvents(2)) {
			assertText(t, err, want)
		}
	}
	s := newSource(plain)
	s.fault.Store("file x: no such file or directory")
	sink := newSink(t, c.URL, from(s))
	assertText(t, sink.Send(t.Context(), makeEvents(1))[0], "webhook secret: file x: no such file or directory")
	if len(c.all()) != 0 {
		t.Errorf("%d requests", len(c.all()))
	}
	s.fault.Store("")
	if err := sink.Send(t.Context(), makeEvents(1))[0]; err != nil {
		t.Error(err)
	}
}

// TestDocumentedConsumer holds docs/sinks.md to a consumer that works.
func TestDocumentedConsumer(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sinks.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("consumer_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, lines, found := strings.Cut(string(source), ")\n\n")
	if !found || !strings.Contains(string(page), "```go\n"+lines+"```") {
		t.Error("the page does not hold the lines of consumer_test.go")
	}
	kept := map[string]string{}
	consumer, err := receive(prefixed, func(id string, event []byte) error {
		if _, known := kept[id]; !known && id == "e1" {
			kept[id] = ""
			return errors.New("disk is full")
		}
		kept[id] = string(event)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(consumer)
	t.Cleanup(server.Close)
	serial := func(c *webhook.Config) { c.Concurrency = 1 }
	results := newSink(t, server.URL, serial).Send(t.Context(), makeEvents(2))
	if results[0] != nil || !strings.Contains(kept["e0"], `"id":"e0"`) {
		t.Errorf("result %v, kept %q", results[0], kept)
	}
	assertText(t, results[1], "webhook: the consumer answered 503 Service Unavailable")
	stranger := newSink(t, server.URL, from(newSource(plain)))
	assertText(t, stranger.Send(t.Context(), makeEvents(1))[0], "webhook: the consumer answered 401 Unauthorized")
	if _, err := receive("whsec_!", nil); err == nil {
		t.Error("a bad secret is taken")
	}
}
