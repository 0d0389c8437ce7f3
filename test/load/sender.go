package load

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// Graph's first attempt is given up after 3 s. Its later ones come after
// seconds to minutes and may take 10 s, which is only shortened here.
const (
	attempt = 3 * time.Second
	again   = 20 * time.Millisecond
)

// Sender posts changes as Graph does: what is not answered 2xx in time is sent
// again until it is, and what is answered 2xx never.
type Sender struct {
	// Addresses are where it posts, each attempt to the next one.
	Addresses []string
	Targets   []Target

	// Acknowledged counts changes, Refused attempts that were answered
	// otherwise, and Lost those without an answer.
	Acknowledged, Refused, Lost atomic.Int64

	next, attempts atomic.Int64
}

// Run posts over some connections until ctx ends, and goes on until all that
// it began to send is acknowledged. It gives how many changes those are: the
// ones from 0 on.
func (s *Sender) Run(ctx context.Context, connections int) int64 {
	client := &http.Client{Timeout: attempt, Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for ctx.Err() == nil {
				n := s.next.Add(1) - 1
				for !s.post(context.WithoutCancel(ctx), client, n) {
					time.Sleep(again)
				}
				s.Acknowledged.Add(1)
			}
		})
	}
	group.Wait()
	return s.next.Load()
}

// post makes one attempt.
func (s *Sender) post(ctx context.Context, client *http.Client, n int64) bool {
	target := &s.Targets[n%int64(len(s.Targets))]
	address := s.Addresses[s.attempts.Add(1)%int64(len(s.Addresses))]
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+target.Path, bytes.NewReader(target.Body(n, 1)))
	if err != nil {
		return false
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	response, err := client.Do(request)
	if err != nil {
		s.Lost.Add(1)
		return false
	}
	_ = response.Body.Close()
	if response.StatusCode/100 != 2 {
		s.Refused.Add(1)
		return false
	}
	return true
}

// Delivered counts the events of a file sink by the resource of their change.
func Delivered(service *harness.Service) map[string]int {
	times := map[string]int{}
	for _, event := range service.Lines("changes.jsonl") {
		data, _ := event["data"].(map[string]any)
		resource, _ := data["resourceData"].(map[string]any)
		id, _ := resource["id"].(string)
		times[id]++
	}
	return times
}
