package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/httpapi"
)

// fakeReader answers from memory. The error, where set, comes first.
type fakeReader struct {
	status admin.Status
	list   []admin.Subscription
	plan   admin.Plan
	err    error
	panics bool

	approved []string
}

func (f *fakeReader) Status(context.Context) (admin.Status, error) {
	if f.panics {
		panic("a bug that holds hunter2")
	}
	return f.status, f.err
}

func (f *fakeReader) Subscriptions(context.Context) ([]admin.Subscription, error) {
	return f.list, f.err
}

func (f *fakeReader) Subscription(_ context.Context, name string) (admin.Subscription, bool, error) {
	for _, s := range f.list {
		if s.Name == name {
			return s, true, f.err
		}
	}
	return admin.Subscription{}, false, f.err
}

func (f *fakeReader) Plan(_ context.Context, limit int) (admin.Plan, error) {
	plan := f.plan
	plan.Items = plan.Items[:min(limit, len(plan.Items))]
	return plan, f.err
}

func (f *fakeReader) Approve(_ context.Context, caller, id string) (admin.Approval, bool, error) {
	f.approved = append(f.approved, caller+" "+id)
	return admin.Approval{State: "done", Result: "2 changes released"}, f.plan.Hold != nil && id == f.plan.Hold.ID, f.err
}

// vault is a token that can be replaced, as a file can.
type vault struct {
	mu   sync.Mutex
	text string
	err  error
}

func (v *vault) current() (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text, v.err
}

func (v *vault) put(text string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text, v.err = text, err
}

const (
	opsToken     = "hunter2-ops-0123456789"
	watcherToken = "hunter2-watcher-0123456789"
	strangeToken = "hunter2-strange-0123456789"
)

// desk is an admin handler with all that surrounds it.
type desk struct {
	*httpapi.Admin
	t        *testing.T
	reader   *fakeReader
	ops      *vault
	registry *prometheus.Registry
	log      *logBuffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, reader: example(), ops: &vault{text: opsToken}, registry: prometheus.NewRegistry(), log: &logBuffer{}}
	fixed := func(text string) func() (string, error) { return func() (string, error) { return text, nil } }
	var err error
	d.Admin, err = httpapi.NewAdmin(httpapi.AdminConfig{
		Tokens: []httpapi.AdminToken{
			{Name: "ops", Role: "operator", Current: d.ops.current},
			{Name: "watcher", Role: "viewer", Current: fixed(watcherToken)},
			{Name: "strange", Role: "owner", Current: fixed(strangeToken)},
			{Name: "short", Role: "admin", Current: fixed("hunter2")},
			{Name: "empty", Role: "admin", Current: fixed("")},
		},
		Logger: slog.New(slog.NewJSONHandler(d.log, nil)), Registerer: d.registry,
	}, d.reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if strings.Contains(d.log.String(), "hunter2") {
			t.Errorf("the log holds a secret:\n%s", d.log.String())
		}
	})
	return d
}

// ask sends a request with a header of authorization, "" for none.
func (d *desk) ask(method, target, authorization string) *httptest.ResponseRecorder {
	d.t.Helper()
	request := httptest.NewRequestWithContext(d.t.Context(), method, target, http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, request)
	if strings.Contains(answer.Body.String(), "hunter2") {
		d.t.Errorf("%s shows a secret: %s", target, answer.Body)
	}
	return answer
}

// get reads an answer of 200 into a value.
func (d *desk) get(target string, into any) {
	d.t.Helper()
	answer := d.ask(http.MethodGet, target, "Bearer "+watcherToken)
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/json" {
		d.t.Fatalf("%s: %d %v: %s", target, answer.Code, answer.Header(), answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
		d.t.Fatal(err)
	}
}

// problem checks that an answer is a problem document and gives its detail.
func (d *desk) problem(answer *httptest.ResponseRecorder, status int) string {
	d.t.Helper()
	var document struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil {
		d.t.Fatalf("%d %s: %v", answer.Code, answer.Body, err)
	}
	if answer.Code != status || document.Status != status || document.Title != http.StatusText(status) || document.Detail == "" ||
		answer.Header().Get("Content-Type") != "application/problem+json" {
		d.t.Errorf("want a problem of %d, got %d %v: %s", status, answer.Code, answer.Header(), answer.Body)
	}
	for _, e := range document.Errors {
		document.Detail += " " + e.Location + " " + e.Message
	}
	return document.Detail
}

// example is a world in which every field has something to say.
func example() *fakeReader {
	at := time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC)
	wish := graph.Wish{
		Name: "orders-inbox", Source: graph.SourceFile, Gen: "k3v6o2q7ma", Tenant: "contoso", Resource: "users/u/messages",
		ChangeTypes: []graph.ChangeType{graph.Created}, Lifetime: 90 * time.Minute, ImmutableIDs: true, Rotation: 1,
		Paused: false, SilentAfter: time.Hour, Sinks: []string{"orders"},
	}
	record := graph.Record{
		Name: "orders-inbox", Gen: "k3v6o2q7ma", Tenant: "contoso", ID: s1, State: graph.StateActive,
		Reason: graph.ReasonThrottled, Detail: "renew subscription: Graph answered 429", CreatedAt: at, GrantedAt: at,
		ExpiresAt: at.Add(time.Hour), RenewAt: at.Add(40 * time.Minute), NextAt: at.Add(time.Minute), Attempt: 2, LostAt: at.Add(-time.Hour),
	}
	older := record
	older.Gen = "aaaaaaaaaa"
	other, parked := wish, record
	other.Name, other.Tenant = "rooms", "fabrikam"
	parked.Name, parked.Tenant, parked.ID, parked.State, parked.Reason = "rooms", "fabrikam", "", graph.StateParked, graph.ReasonForbidden
	waiting := wish
	waiting.Name = "tasks"
	f := &fakeReader{plan: admin.Plan{
		At: at, Hold: &admin.Hold{ID: "abc", Count: 1}, Counts: map[string]int64{"delete": 1}, More: 1,
		Items: []admin.PlanStep{{Name: "orders-inbox", Gen: "k3v6o2q7ma", Tenant: "contoso", Resource: "users/u/messages", Action: "delete", At: at, Held: true}},
	}, list: admin.List([]graph.Wish{wish, other, waiting}, []graph.Record{record, older, parked},
		admin.Heard{
			Now: at.Add(2 * time.Hour), Last: map[string]time.Time{"orders-inbox": at},
			Receiving: graph.Receiving{Since: at.Add(-time.Hour), At: at.Add(2 * time.Hour)},
		})}
	f.status = admin.Status{
		Instance: "prod", Version: "1.0.0", Holder: "host-1", Leading: true, Term: 7,
		Leader: admin.Leader{Holder: "host-1", Term: 7, Since: &at}, Unrouted: 1, Backlog: map[string]int64{"orders": 3},
		DeadLetters: map[string]int64{}, Quarantine: map[string]int64{"malformed": 1}, OpenGaps: 1,
		Store: admin.StoreStatus{Bytes: 4096}, StartedAt: at,
	}
	f.status.Describe(f.list)
	return f
}
