package graphsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Control serves the steering of the simulator below /sim/v1/. It asks for no
// credentials: serve it on loopback only. Durations are texts such as "1m30s";
// unknown members are refused. Success without a result is 204; an error is
// {"error": text} with 400, or 404 for a subscription that is not alive.
//
//	GET    state                          State
//	GET    counts                         Counts
//	GET    log?after=N                    a list of Entry
//	POST   faults                         {match, status, body, headers, delay, times, effect, drop}, see Fault
//	DELETE faults                         end them all
//	POST   subscriptions/{id}/remove      {lifecycle: bool}, optional
//	POST   subscriptions/{id}/expire
//	POST   subscriptions/{id}/hide        {hidden: bool}, default true
//	POST   notify                         {id, count, changeType, clientState, content}, all optional: {queued: n}
//	POST   lifecycle                      {id, event}
//	POST   clock                          {offset}: {now}
func (s *Sim) Control() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			result, err := f(r)
			s.reply(w, result, err)
		})
	}
	handle("GET /sim/v1/state", func(*http.Request) (any, error) { return s.State(), nil })
	handle("GET /sim/v1/counts", func(*http.Request) (any, error) { return s.Counts(), nil })
	handle("GET /sim/v1/log", s.controlLog)
	handle("POST /sim/v1/faults", s.controlFault)
	handle("DELETE /sim/v1/faults", func(*http.Request) (any, error) { s.ClearFaults(); return nothing{}, nil })
	handle("POST /sim/v1/subscriptions/{id}/remove", s.controlRemove)
	handle("POST /sim/v1/subscriptions/{id}/expire", func(r *http.Request) (any, error) {
		return nothing{}, s.Expire(r.PathValue("id"))
	})
	handle("POST /sim/v1/subscriptions/{id}/hide", s.controlHide)
	handle("POST /sim/v1/notify", s.controlNotify)
	handle("POST /sim/v1/lifecycle", s.controlLifecycle)
	handle("POST /sim/v1/clock", s.controlClock)
	return mux
}

// nothing is the result of what has none.
type nothing struct{}

func (s *Sim) reply(w http.ResponseWriter, result any, err error) {
	status := http.StatusOK
	switch {
	case errors.Is(err, ErrUnknownSubscription):
		status, result = http.StatusNotFound, map[string]string{"error": err.Error()}
	case err != nil:
		status, result = http.StatusBadRequest, map[string]string{"error": err.Error()}
	case result == any(nothing{}):
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(result); err != nil {
		s.cfg.Logger.Debug("control answer not written", "error", err)
	}
}

// read decodes a body strictly. An empty one leaves the target as it is.
func read(r *http.Request, target any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(target); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the body: %w", err)
	}
	return nil
}

// duration is a time.Duration whose JSON is a text such as "1m30s".
type duration time.Duration

// UnmarshalText reads what time.ParseDuration does.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func (s *Sim) controlLog(r *http.Request) (any, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		return s.Log(0), nil
	}
	after, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("after: %w", err)
	}
	return s.Log(after), nil
}

func (s *Sim) controlFault(r *http.Request) (any, error) {
	var body struct {
		Match   string            `json:"match"`
		Status  int               `json:"status"`
		Body    json.RawMessage   `json:"body"`
		Headers map[string]string `json:"headers"`
		Delay   duration          `json:"delay"`
		Times   int               `json:"times"`
		Effect  string            `json:"effect"`
		Drop    bool              `json:"drop"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	return nothing{}, s.AddFault(Fault{
		Match: body.Match, Status: body.Status, Body: body.Body, Header: body.Headers,
		Delay: time.Duration(body.Delay), Times: body.Times, Effect: body.Effect, Drop: body.Drop,
	})
}

func (s *Sim) controlRemove(r *http.Request) (any, error) {
	var body struct {
		Lifecycle bool `json:"lifecycle"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	return nothing{}, s.Remove(r.PathValue("id"), body.Lifecycle)
}

func (s *Sim) controlHide(r *http.Request) (any, error) {
	body := struct {
		Hidden bool `json:"hidden"`
	}{true}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	return nothing{}, s.Hide(r.PathValue("id"), body.Hidden)
}

func (s *Sim) controlNotify(r *http.Request) (any, error) {
	var body struct {
		ID          string          `json:"id"`
		Count       int             `json:"count"`
		ChangeType  string          `json:"changeType"`
		ClientState *string         `json:"clientState"`
		Content     json.RawMessage `json:"content"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	queued, err := s.Notify(Notification{
		SubscriptionID: body.ID, Count: body.Count, ChangeType: body.ChangeType,
		ClientState: body.ClientState, Content: body.Content,
	})
	return map[string]int{"queued": queued}, err
}

func (s *Sim) controlLifecycle(r *http.Request) (any, error) {
	var body struct {
		ID    string         `json:"id"`
		Event LifecycleEvent `json:"event"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	return nothing{}, s.Lifecycle(body.ID, body.Event)
}

func (s *Sim) controlClock(r *http.Request) (any, error) {
	var body struct {
		Offset duration `json:"offset"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.SetClockOffset(time.Duration(body.Offset))
	return map[string]time.Time{"now": s.Now().UTC()}, nil
}
