package graphsim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

const (
	tenant  = "84bd8158-6d4d-4958-8b9f-9d6445542f95"
	app     = "5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11"
	secret  = "hush"
	inbox   = "users/622eaaff-0683-4862-9de4-f2ec83c2bd98/mailFolders('inbox')/messages"
	hookURL = "https://hooks.test/notifications/a"
	lifeURL = "https://hooks.test/lifecycle/a"
)

// world is a simulator, a client of it and a notification endpoint, without
// sockets.
type world struct {
	t         *testing.T
	sim       *graphsim.Sim
	transport *graphsim.Transport
	client    *http.Client
	hook      *hook
	token     string
}

// hook is a notification endpoint. By default it echoes handshakes and answers
// 202 to notifications.
type hook struct {
	mu         sync.Mutex
	handshakes []*http.Request
	bodies     [][]byte
	times      []time.Time
	urls       []string
	handshake  http.HandlerFunc // replaces the echo
	notify     http.HandlerFunc // replaces the 202
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("validationToken") {
		h.mu.Lock()
		h.handshakes = append(h.handshakes, r)
		f := h.handshake
		h.mu.Unlock()
		if f == nil {
			f = echo
		}
		f(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.bodies, h.times, h.urls = append(h.bodies, body), append(h.times, time.Now()), append(h.urls, r.URL.String())
	f := h.notify
	h.mu.Unlock()
	if f == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	f(w, r)
}

func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, r.URL.Query().Get("validationToken"))
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func (h *hook) set(handshake, notify http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handshake, h.notify = handshake, notify
}

// items gives all items received, in order.
func (h *hook) items(t *testing.T) []map[string]any {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []map[string]any
	for _, body := range h.bodies {
		var c struct {
			Value []map[string]any `json:"value"`
		}
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatalf("notification body: %v", err)
		}
		all = append(all, c.Value...)
	}
	return all
}

func (h *hook) posts() (urls []string, times []time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.urls...), append([]time.Time(nil), h.times...)
}

func newWorld(t *testing.T, cfg graphsim.Config) *world {
	t.Helper()
	w := &world{t: t, hook: &hook{}}
	handlers := map[string]http.Handler{"hooks.test": w.hook}
	w.transport = graphsim.NewTransport(handlers)
	w.client = &http.Client{Transport: w.transport}
	cfg.HTTPClient = w.client
	if cfg.Seed == 0 {
		cfg.Seed = 7
	}
	sim, err := graphsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.transport.Wait()
		if t.Failed() {
			t.Logf("seed %d", sim.Seed())
		}
	})
	w.sim = sim
	handlers["graph.test"], handlers["login.test"], handlers["control.test"] = sim.Graph(), sim.Login(), sim.Control()
	w.token = w.signIn(tenant, app)
	return w
}

// run delivers until the test ends.
func (w *world) run() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.sim.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func (w *world) signIn(tenant, app string) string {
	w.t.Helper()
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {app}, "client_secret": {secret},
		"scope": {"https://graph.microsoft.com/.default"},
	}
	code, body := w.postForm("https://login.test/"+tenant+"/oauth2/v2.0/token", form)
	token, ok := body["access_token"].(string)
	if code != http.StatusOK || !ok {
		w.t.Fatalf("token: %d %v", code, body)
	}
	return token
}

func (w *world) postForm(target string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	req := w.request(http.MethodPost, target, form.Encode())
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.send(req)
}

func (w *world) request(method, target, body string) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(target, "https://graph.test") {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	return req
}

// reply is an answer whose body was read.
type reply struct {
	status int // 0: no answer
	header http.Header
	body   []byte
}

// send gives status and JSON body; 0 when there was no answer.
func (w *world) send(req *http.Request) (int, map[string]any) {
	w.t.Helper()
	got := w.raw(req)
	var v map[string]any
	if len(got.body) > 0 && json.Unmarshal(got.body, &v) != nil {
		w.t.Fatalf("%s %s: body %q is not a JSON object", req.Method, req.URL, got.body)
	}
	return got.status, v
}

func (w *world) raw(req *http.Request) reply {
	w.t.Helper()
	resp, err := w.client.Do(req)
	if err != nil {
		return reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, body}
}

// graph calls the subscriptions with an optional JSON body.
func (w *world) graph(method, path string, body any) (int, map[string]any) {
	w.t.Helper()
	text := ""
	if body != nil {
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			w.t.Fatal(err)
		}
		text = b.String()
	}
	return w.send(w.request(method, "https://graph.test/v1.0/subscriptions"+path, text))
}

// with is a good create body, changed. A nil value takes a member away.
func with(changes map[string]any) map[string]any {
	body := map[string]any{
		"changeType": "created,updated", "notificationUrl": hookURL, "resource": inbox,
		"expirationDateTime": in(time.Hour), "clientState": "sesame",
	}
	maps.Copy(body, changes)
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	return body
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }

// create makes a subscription and gives its id.
func (w *world) create(changes map[string]any) string {
	w.t.Helper()
	code, body := w.graph(http.MethodPost, "", with(changes))
	id, ok := body["id"].(string)
	if code != http.StatusCreated || !ok {
		w.t.Fatalf("create: %d %v", code, body)
	}
	return id
}

func errorOf(body map[string]any) (code, message string) {
	e, _ := body["error"].(map[string]any)
	code, _ = e["code"].(string)
	message, _ = e["message"].(string)
	return code, message
}

// refused checks an error answer.
func (w *world) refused(gotStatus int, body map[string]any, wantStatus int, wantCode, wantMessage string) {
	w.t.Helper()
	code, message := errorOf(body)
	if gotStatus != wantStatus || code != wantCode || wantMessage != "" && message != wantMessage {
		w.t.Errorf("got %d %s %q, want %d %s %q", gotStatus, code, message, wantStatus, wantCode, wantMessage)
	}
}

func expiry(t *testing.T, body map[string]any) time.Time {
	t.Helper()
	text, _ := body["expirationDateTime"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
