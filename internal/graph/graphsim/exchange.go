package graphsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

const maxBody = 1 << 20

// exchange is one request under way.
type exchange struct {
	request         *http.Request
	entry           *Entry // guarded by Sim.mu once begun
	now             time.Time
	random          *rand.Rand
	requestID       string
	clientRequestID string
}

// answer is what a handler gives back. It is written at the edge only, so that a
// fault can replace it after its effect.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func jsonAnswer(status int, contentType string, v any) (answer, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return answer{}, err
	}
	return answer{status, http.Header{"Content-Type": {contentType}}, bytes.TrimSpace(b.Bytes())}, nil
}

// operation is one call of a service. It gives a *problem to refuse.
type operation func(*exchange) (answer, error)

// service is one of the two simulated services.
type service struct {
	name   string
	route  func(*http.Request) (string, operation)
	refuse func(*exchange, *problem) (answer, error)
}

// ServeHTTP runs the order of every request: log, fault, handler, answer.
func (s *Sim) serve(svc service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, op := svc.route(r)
		x := s.begin(svc.name, name, r)
		a, dropped := s.respond(svc, x, op)
		s.end(x, a.status)
		if dropped {
			// The server closes the connection without an answer.
			panic(http.ErrAbortHandler)
		}
		s.write(w, svc, x, a)
	})
}

// respond lets a matching fault act before or after the operation.
func (s *Sim) respond(svc service, x *exchange, op operation) (a answer, dropped bool) {
	f, ok := s.takeFault(x.request)
	if !ok {
		return s.perform(svc, x, op), false
	}
	if f.after() {
		a = s.perform(svc, x, op)
	}
	wait(x.request, f.Delay)
	switch {
	case f.Drop:
		return answer{}, true
	case f.Status != 0:
		return f.answer(svc, x), false
	case f.after():
		return a, false
	default:
		return s.perform(svc, x, op), false
	}
}

func (s *Sim) perform(svc service, x *exchange, op operation) answer {
	a, err := op(x)
	if err == nil {
		return a
	}
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{status: http.StatusInternalServerError, code: "InternalServerError", message: err.Error()}
	}
	return refuse(svc, x, p)
}

func refuse(svc service, x *exchange, p *problem) answer {
	a, err := svc.refuse(x, p)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return a
}

// wait pauses a request unless its client leaves first.
func wait(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func (s *Sim) write(w http.ResponseWriter, svc service, x *exchange, a answer) {
	h := w.Header()
	h.Set("Date", s.Now().UTC().Format(http.TimeFormat))
	h.Set("client-request-id", x.clientRequestID)
	if svc.name == "graph" {
		h.Set("request-id", x.requestID)
	} else {
		h.Set("x-ms-request-id", x.requestID)
		h.Set("Cache-Control", "no-store, no-cache")
	}
	for key, values := range a.header {
		h[http.CanonicalHeaderKey(key)] = values
	}
	w.WriteHeader(a.status)
	if _, err := w.Write(a.body); err != nil && len(a.body) > 0 {
		s.cfg.Logger.Debug("answer not written", "error", err)
	}
}

// readJSON reads a body as Graph's strictest reader would.
func readJSON(r *http.Request) (map[string]json.RawMessage, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, unsupportedMedia()
	}
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return nil, unsupportedMedia()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, malformed()
	}
	if len(body) > maxBody {
		return nil, tooLarge()
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, malformed()
	}
	return members, nil
}

// origin is the root that the client called.
func origin(r *http.Request) string {
	scheme := r.URL.Scheme
	if scheme == "" {
		scheme = "http"
		if r.TLS != nil {
			scheme = "https"
		}
	}
	return scheme + "://" + r.Host
}
