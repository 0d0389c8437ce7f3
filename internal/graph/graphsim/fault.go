package graphsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Fault changes the answers to matching calls. Faults are tried in the order
// they were added; the first that matches is used.
type Fault struct {
	// Match is a method and a path pattern, such as
	// "PATCH /v1.0/subscriptions/*". The method may be *. The pattern is that of
	// path.Match over the whole path without query: * never crosses a slash. The
	// calls of the token service match too.
	Match string
	// Status is answered in place of the real answer. 0 keeps the real one.
	Status int
	// Body is the answer's body: a JSON string stands for its text, any other
	// JSON value for itself. Nil gives the service's own error of that status.
	Body json.RawMessage
	// Header is added to the answer.
	Header map[string]string
	// Delay holds the answer back, in real time.
	Delay time.Duration
	// Times is how many calls it hits; 0 is one, a negative number is all.
	Times int
	// Effect tells whether the call takes its effect when its answer is
	// replaced: "before" (the default), the fault comes first and there is no
	// effect, or "after". A mere delay comes before or after the effect.
	Effect string
	// Drop closes the connection without an answer. On a connection that was used
	// before, Go's client repeats a dropped GET once by itself.
	Drop bool
}

type fault struct {
	Fault
	method, pattern string
	left            int
}

func (f Fault) after() bool { return f.Effect == "after" }

// AddFault makes a fault active.
func (s *Sim) AddFault(f Fault) error {
	method, pattern, ok := strings.Cut(f.Match, " ")
	if !ok || method == "" || !strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("graphsim: match %q is not a method and a path", f.Match)
	}
	if _, err := path.Match(pattern, "/"); err != nil {
		return fmt.Errorf("graphsim: match %q: %w", f.Match, err)
	}
	if err := f.check(); err != nil {
		return err
	}
	left := f.Times
	if left == 0 {
		left = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{Fault: f, method: method, pattern: pattern, left: left})
	return nil
}

func (f Fault) check() error {
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("graphsim: a fault cannot answer status %d", f.Status)
	}
	if f.Status == 0 && (f.Body != nil || f.Header != nil) {
		return errors.New("graphsim: a fault with a body or headers needs a status")
	}
	if f.Status == 0 && f.Delay <= 0 && !f.Drop {
		return errors.New("graphsim: the fault changes nothing")
	}
	switch f.Effect {
	case "", "before", "after":
	default:
		return fmt.Errorf(`graphsim: effect %q is neither "before" nor "after"`, f.Effect)
	}
	return nil
}

// ClearFaults ends all faults.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// takeFault uses up one hit of the first fault that matches.
func (s *Sim) takeFault(r *http.Request) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.method != "*" && f.method != r.Method {
			continue
		}
		if ok, err := path.Match(f.pattern, r.URL.Path); err != nil || !ok {
			continue
		}
		if f.left > 0 {
			if f.left--; f.left == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return f.Fault, true
	}
	return Fault{}, false
}

func (f Fault) answer(svc service, x *exchange) answer {
	a := answer{status: f.Status, header: http.Header{}}
	var text string
	switch body := bytes.TrimSpace(f.Body); {
	case len(body) == 0 && f.Status >= 400:
		a = refuse(svc, x, refusal(f.Status))
	case len(body) == 0:
	case json.Unmarshal(body, &text) == nil:
		a.body = []byte(text)
	default:
		a.body = body
		a.header.Set("Content-Type", "application/json")
	}
	for key, value := range f.Header {
		a.header.Set(key, value)
	}
	return a
}
