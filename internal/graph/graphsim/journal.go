package graphsim

import (
	"maps"
	"net/http"
	"time"
)

// Entry is one request to the simulator. A request that is still being answered
// is pending and has no status; one whose connection was closed by a fault has
// status 0.
type Entry struct {
	N               uint64    `json:"n"`
	Time            time.Time `json:"time"` // of arrival, by the simulator's clock
	Service         string    `json:"service"`
	Operation       string    `json:"operation"`
	Method          string    `json:"method"`
	Path            string    `json:"path"` // without query
	Status          int       `json:"status"`
	ClientRequestID string    `json:"client-request-id"`
	Pending         bool      `json:"pending,omitempty"`
}

// journal holds the latest requests in order of arrival.
type journal struct {
	limit   int
	last    uint64
	entries []*Entry
}

func (j *journal) add(e *Entry) {
	j.last++
	e.N = j.last
	// Trimmed by half, so that appending stays cheap.
	if len(j.entries) >= 2*j.limit {
		j.entries = append([]*Entry(nil), j.entries[len(j.entries)-j.limit:]...)
	}
	j.entries = append(j.entries, e)
}

// Log gives the requests that came after the one with number after, in order of
// arrival. At least Config.LogSize requests are kept.
func (s *Sim) Log(after uint64) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []Entry{}
	for _, e := range s.journal.entries {
		if e.N > after {
			found = append(found, *e)
		}
	}
	return found
}

// Counts tell what happened since the start.
type Counts struct {
	Created          int `json:"created"`
	Renewed          int `json:"renewed"`
	Reauthorized     int `json:"reauthorized"`
	Removed          int `json:"removed"` // by Remove
	Deleted          int `json:"deleted"` // by DELETE
	Expired          int `json:"expired"`
	Handshakes       int `json:"handshakes"`        // answered correctly
	HandshakesFailed int `json:"handshakes_failed"` // not
	Sent             int `json:"sent"`              // distinct items tried at least once
	Acknowledged     int `json:"acknowledged"`      // distinct items with a 2xx in time
	Attempts         int `json:"attempts"`          // POSTs of notifications
	DuplicatesSent   int `json:"duplicates_sent"`   // items sent once more on purpose
	Dropped          int `json:"dropped"`           // distinct items given up unacknowledged
	Queued           int `json:"queued"`            // items that wait or are under way, repetitions included
	Throttled        int `json:"throttled"`         // answers 429
	// Overlaps are a PATCH and a reauthorize of one subscription within ten
	// minutes, which Graph forbids.
	Overlaps   int                    `json:"reauthorize_overlaps"`
	Live       int                    `json:"live"`
	Operations map[string]map[int]int `json:"operations"` // answers by operation and status
}

// Counts gives the counts of this moment.
func (s *Sim) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	c := s.counts
	c.Live = len(s.subs)
	c.Queued = s.outbox.items
	c.Operations = map[string]map[int]int{}
	for op, statuses := range s.counts.Operations {
		c.Operations[op] = maps.Clone(statuses)
	}
	return c
}

// begin notes the arrival of a request.
func (s *Sim) begin(service, operation string, r *http.Request) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &Entry{
		Time: s.now().UTC(), Service: service, Operation: operation, Method: r.Method, Path: r.URL.Path,
		ClientRequestID: r.Header.Get("client-request-id"), Pending: true,
	}
	s.journal.add(e)
	x := &exchange{request: r, entry: e, now: e.Time, random: stream(s.seed, "request", e.N)}
	x.requestID = guid(x.random)
	x.clientRequestID = e.ClientRequestID
	if x.clientRequestID == "" {
		x.clientRequestID = x.requestID
	}
	return x
}

// end notes the answer to a request, before it is written, so that a client
// that has it finds it in the log.
func (s *Sim) end(x *exchange, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.entry.Status, x.entry.Pending = status, false
	if s.counts.Operations[x.entry.Operation] == nil {
		s.counts.Operations[x.entry.Operation] = map[int]int{}
	}
	s.counts.Operations[x.entry.Operation][status]++
	if status == http.StatusTooManyRequests {
		s.counts.Throttled++
	}
}
