package webhook_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/delivery/webhook"
)

// Signing secrets in both spellings.
var (
	prefixed = "whsec_" + base64.StdEncoding.EncodeToString([]byte("hunter2-prefixed-0123456789abcdef"))
	plain    = "hunter2-plain-0123456789abcdef"
)

func makeEvent(id string) event.Event {
	e := event.New()
	e.SetID(id)
	e.SetType("Microsoft.Graph.MessageCreated")
	e.SetSource("/tenants/t/applications/a")
	e.SetTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	e.SetDataContentType(event.ApplicationJSON)
	e.DataEncoded = []byte(`{"filter":"a<b&c","id":"` + id + `"}`)
	return e
}

// makeEvents makes e0, e1 and so on.
func makeEvents(n int) []event.Event {
	events := make([]event.Event, n)
	for i := range events {
		events[i] = makeEvent(fmt.Sprintf("e%d", i))
	}
	return events
}

func secret(text string) func() (string, error) {
	return func() (string, error) { return text, nil }
}

func newSink(t *testing.T, url string, changes ...func(*webhook.Config)) *webhook.Sink {
	t.Helper()
	cfg := webhook.Config{URL: url, Secrets: []func() (string, error){secret(prefixed)}}
	for _, change := range changes {
		change(&cfg)
	}
	sink, err := webhook.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return sink
}

// received is one request as the consumer saw it.
type received struct {
	method, uri, proto, from string
	length                   int64
	header                   http.Header
	body                     []byte
}

// consumer is an HTTP server that records what it gets.
type consumer struct {
	*httptest.Server

	// answer writes the answer; nil is 204.
	answer func(w http.ResponseWriter, r *http.Request)

	mu       sync.Mutex
	got      []received
	now, top int // requests under way, and the most of them
}

// newConsumer starts a server; start is one of httptest.Server's methods.
func newConsumer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request), start func(*httptest.Server)) *consumer {
	t.Helper()
	c := &consumer{answer: answer}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(c.Server)
	t.Cleanup(c.Close)
	return c
}

func (c *consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.got = append(c.got, received{r.Method, r.RequestURI, r.Proto, r.RemoteAddr, r.ContentLength, r.Header.Clone(), body})
	c.now++
	c.top = max(c.top, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	if c.answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c.answer(w, r)
}

func (c *consumer) all() []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

func (c *consumer) ids() []string {
	var ids []string
	for _, r := range c.all() {
		ids = append(ids, r.header.Get("Webhook-Id"))
	}
	return ids
}

// write sends a body.
func write(w io.Writer, body string) {
	if _, err := io.WriteString(w, body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func mustClose(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// assertText holds an error to its whole text, without anything secret.
func assertText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret leaks: %v", err)
	}
}
