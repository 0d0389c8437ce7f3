package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	s1 = "11111111-1111-4111-8111-111111111111"
	s2 = "22222222-2222-4222-8222-222222222222"
	s3 = "33333333-3333-4333-8333-333333333333"
	s9 = "99999999-9999-4999-8999-999999999999"
	t1 = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	t2 = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"

	base = "/graph"
)

// alpha is the wish that S1 belongs to; beta and gamma own S2 and S3.
func alpha() notification.Address { return notification.Address{Name: "alpha", Gen: "g1"} }
func beta() notification.Address  { return notification.Address{Name: "beta", Gen: "g2"} }
func gamma() notification.Address { return notification.Address{Name: "gamma", Gen: "g3"} }

// fakeInbox keeps the rows in memory. The functions, where set, come first.
type fakeInbox struct {
	append func(ctx context.Context, rows []notification.Row) error
	owner  func(ctx context.Context, id string) (notification.Address, bool, error)

	mu      sync.Mutex
	rows    []notification.Row
	appends int
	lookups int
}

func (f *fakeInbox) Append(ctx context.Context, rows []notification.Row) error {
	if f.append != nil {
		if err := f.append(ctx, rows); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.appends++
	f.rows = append(f.rows, rows...)
	return nil
}

func (f *fakeInbox) Owner(ctx context.Context, id string) (notification.Address, bool, error) {
	f.mu.Lock()
	f.lookups++
	f.mu.Unlock()
	if f.owner != nil {
		return f.owner(ctx, id)
	}
	a, found := map[string]notification.Address{s1: alpha(), s2: beta(), s3: gamma()}[id]
	return a, found, nil
}

// touched says how often the store was asked for anything.
func (f *fakeInbox) touched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.appends + f.lookups
}

// take gives the rows that came since the last call.
func (f *fakeInbox) take() []notification.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := f.rows
	f.rows = nil
	return rows
}

// rig is a receiver with all that surrounds it.
type rig struct {
	*httpapi.Receiver
	keys     *notification.Keys
	inbox    *fakeInbox
	registry *prometheus.Registry
	log      *logBuffer
}

func newRig(tb testing.TB, change func(*httpapi.Config)) *rig {
	tb.Helper()
	keys, err := notification.NewKeys("graphsubd", [][]byte{bytes.Repeat([]byte{7}, notification.MinKeyLength)})
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{keys: keys, inbox: &fakeInbox{}, registry: prometheus.NewRegistry(), log: &logBuffer{}}
	cfg := httpapi.Config{
		PublicURL:  "https://hooks.contoso.invalid" + base,
		Logger:     slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: r.registry,
	}
	if change != nil {
		change(&cfg)
	}
	if r.Receiver, err = httpapi.NewReceiver(cfg, keys, r.inbox); err != nil {
		tb.Fatal(err)
	}
	return r
}

func (r *rig) url(purpose notification.Purpose, a notification.Address) string {
	return base + r.keys.Path(purpose, a.Name, a.Gen)
}

// path is the URL that most tests post to.
func (r *rig) path() string { return r.url(notification.PurposeNotifications, alpha()) }

// item gives a change of S1 as alpha would get it, with some members replaced;
// a nil value removes one.
func (r *rig) item(tb testing.TB, changes map[string]any) string {
	tb.Helper()
	members := map[string]any{
		"subscriptionId": s1, "subscriptionExpirationDateTime": "2030-01-02T03:04:05.6789012Z",
		"tenantId": t1, "clientState": r.keys.ClientState("alpha", "g1"), "changeType": "created",
		"resource": "Users/u1/Messages/m1",
		"resourceData": map[string]any{
			"@odata.type": "#Microsoft.Graph.Message", "@odata.id": "Users/u1/Messages/m1",
			"@odata.etag": `W/"1"`, "id": "m1",
		},
	}
	for name, value := range changes {
		if value == nil {
			delete(members, name)
		} else {
			members[name] = value
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

// lifecycle gives a lifecycle item of S1; a nil event stands as null.
func (r *rig) lifecycle(tb testing.TB, event any) string {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{
		"subscriptionId": s1, "subscriptionExpirationDateTime": "2030-01-02T03:04:05Z", "tenantId": t1,
		"clientState": r.keys.ClientState("alpha", "g1"), "lifecycleEvent": event,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

func collection(items ...string) string { return `{"value":[` + strings.Join(items, ",") + `]}` }

// post sends a body as Graph does and gives the answer.
func (r *rig) post(tb testing.TB, url, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	return r.do(tb, http.MethodPost, url, strings.NewReader(body), headers...)
}

func (r *rig) do(tb testing.TB, method, url string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), method, url, body)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

// accept posts and demands an empty 202.
func (r *rig) accept(tb testing.TB, url, body string, headers ...string) []notification.Row {
	tb.Helper()
	w := r.post(tb, url, body, headers...)
	if w.Code != http.StatusAccepted || w.Body.Len() != 0 {
		tb.Fatalf("answer %d %q, want an empty 202", w.Code, w.Body)
	}
	return r.inbox.take()
}

// forwarded gives the rows that are no quarantine.
func forwarded(rows []notification.Row) []notification.Row {
	var good []notification.Row
	for _, row := range rows {
		if row.Reason == "" {
			good = append(good, row)
		}
	}
	return good
}

// metric gives the value of one child; labels are names and values in turn.
func (r *rig) metric(tb testing.TB, name string, labels ...string) float64 {
	tb.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, family := range families {
		for _, child := range family.GetMetric() {
			if family.GetName() == name && matches(child, labels) {
				return value(child)
			}
		}
	}
	tb.Fatalf("no metric %s %v", name, labels)
	return 0
}

func value(child *dto.Metric) float64 {
	if h := child.GetHistogram(); h != nil {
		return float64(h.GetSampleCount())
	}
	return child.GetCounter().GetValue() + child.GetGauge().GetValue()
}

func matches(child *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, pair := range child.GetLabel() {
		have[pair.GetName()] = pair.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// verdicts gives the count of one verdict.
func (r *rig) verdicts(tb testing.TB, verdict string, reason notification.Reason) float64 {
	tb.Helper()
	return r.metric(tb, "graphsubd_notifications_total", "verdict", verdict, "reason", string(reason))
}

func zip(tb testing.TB, body string) string {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, body); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// logBuffer is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// assertQuiet fails when a log line or a metric holds a secret of the rig.
func (r *rig) assertQuiet(tb testing.TB, secrets ...string) {
	tb.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	var said strings.Builder
	said.WriteString(r.log.String())
	for _, family := range families {
		said.WriteString(family.String())
	}
	path := r.path()
	for _, secret := range append(secrets, r.keys.ClientState("alpha", "g1"), path[strings.LastIndex(path, "/")+1:]) {
		if strings.Contains(said.String(), secret) {
			tb.Errorf("log or metrics hold %q", secret)
		}
	}
}
