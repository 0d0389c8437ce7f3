package test_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/load"
)

// consumer is a webhook's other end. It counts the events it was given.
type consumer struct {
	hold chan struct{} // it answers nothing until this is closed

	mu  sync.Mutex
	ids map[string]bool // guarded by mu
}

func (c *consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-c.hold:
	case <-r.Context().Done():
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids[r.Header.Get("webhook-id")] = true
	w.WriteHeader(http.StatusNoContent)
}

func (c *consumer) has(events int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return want("events", len(c.ids), events)
}

// caseA30 posts at 50 a second while a sink stalls for 30 s, and while one is
// down: Graph sees nothing of it, and all is delivered later.
func caseA30(t *testing.T) {
	t.Parallel()
	const rate, length, stalled, soon = 50, 10 * time.Second, 30 * time.Second, time.Second
	for _, name := range []string{"stalled", "down"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := &consumer{hold: make(chan struct{}), ids: map[string]bool{}}
			server := &http.Server{Handler: sink, ReadHeaderTimeout: time.Minute}
			address := harness.FreeAddress(t)
			serve := func() {
				listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() { // joined in the cleanup
					defer close(done)
					_ = server.Serve(listener) // it ends by Close
				}()
				t.Cleanup(func() {
					_ = server.Close()
					<-done
				})
			}
			if name == "stalled" {
				serve()
			}
			began := time.Now()
			sim := harness.StartSimulator(t, "--time-scale", "60")
			service := harness.NewService(t, sim, 1)
			service.Rewrite("file: {path: changes.jsonl}", fmt.Sprintf("webhook: {url: \"http://%s/\", secrets: [{file: signing.key}]}", address))
			service.Start()
			harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 1) })
			client := &load.Client{
				Address: service.Public, Target: load.Targets(t, sim)[0], Connections: 8, Batch: 1, First: &atomic.Int64{},
			}
			took, err := client.Pace(t.Context(), length, rate)
			if err != nil {
				t.Fatal("not answered 202: ", err)
			}
			if slowest := took[len(took)-1]; slowest > soon {
				t.Errorf("an answer took %v", slowest)
			}
			if err := sink.has(0); err != nil {
				t.Error("the sink was not in trouble: ", err)
			}
			if name == "stalled" {
				<-time.After(stalled - time.Since(began))
			} else {
				serve()
			}
			close(sink.hold)
			harness.Eventually(t, time.Minute, func() error { return sink.has(len(took)) })
		})
	}
}
