package app_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// downSink takes nothing until it is up again.
type downSink struct {
	mu    sync.Mutex
	up    time.Time
	tries int
	ids   map[string]int
}

// Send fails while the sink is down.
func (d *downSink) Send(_ context.Context, events []event.Event) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make([]error, len(events))
	for i := range events {
		if time.Now().Before(d.up) {
			d.tries++
			results[i] = errors.New("connection refused")
			continue
		}
		d.ids[events[i].ID()]++
	}
	return results
}

// Close ends nothing.
func (d *downSink) Close() error { return nil }

// A sink that is down for an hour changes no answer to Graph. All of it is
// delivered afterwards, and once.
func TestSinkDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &downSink{up: time.Now().Add(time.Hour), ids: map[string]int{}}
		s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Owner: "test", PollInterval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		const subscription = "11111111-1111-4111-8111-111111111111"
		wish := graph.Wish{Name: "inbox", Gen: "abcdefghij", Sinks: []string{"orders"}}
		term, err := s.NewTerm(t.Context(), "test")
		if err == nil {
			err = s.PutWishes(t.Context(), term, graph.SourceFile, []graph.Wish{wish})
		}
		if err == nil {
			record := graph.Record{Name: wish.Name, Gen: wish.Gen, ID: subscription, State: graph.StateActive}
			err = s.Save(t.Context(), term, graph.Change{Record: record})
		}
		if err != nil {
			t.Fatal(err)
		}
		keys, err := notification.NewKeys("test", [][]byte{[]byte(strings.Repeat("k", notification.MinKeyLength))})
		if err != nil {
			t.Fatal(err)
		}
		receiver, err := httpapi.NewReceiver(httpapi.Config{PublicURL: "https://hooks.contoso.com"}, keys, s)
		if err != nil {
			t.Fatal(err)
		}
		worker, err := delivery.New(delivery.Config{
			Sinks: []delivery.Destination{{Name: "orders", Sink: sink}}, Poll: time.Minute, Rand: rand.New(rand.NewPCG(1, 2)),
		}, s)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- s.Run(ctx) }()
		go func() { ended <- worker.Run(ctx) }()

		const posts = 60
		url := keys.Path(notification.PurposeNotifications, wish.Name, wish.Gen)
		for n := range posts {
			body := fmt.Sprintf(`{"value":[{"id":"item-%d","subscriptionId":%q,"changeType":"created","resource":"users/u/messages/%d","clientState":%q}]}`,
				n, subscription, n, keys.ClientState(wish.Name, wish.Gen))
			began := time.Now()
			w := httptest.NewRecorder()
			receiver.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body)))
			if took := time.Since(began); w.Code != http.StatusAccepted || took > time.Second {
				t.Fatalf("POST %d: answered %d after %v", n, w.Code, took)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		sink.mu.Lock()
		defer sink.mu.Unlock()
		twice := 0
		for _, times := range sink.ids {
			twice += times - 1
		}
		if len(sink.ids) != posts || twice != 0 || sink.tries < posts {
			t.Errorf("%d of %d delivered, %d twice, after %d tries in vain", len(sink.ids), posts, twice, sink.tries)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
