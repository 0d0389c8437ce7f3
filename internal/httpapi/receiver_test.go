package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
)

func TestURLTokenComesFirst(t *testing.T) {
	r := newRig(t, nil)
	good := r.path()
	for name, url := range map[string]string{
		"wrong mac":       good[:len(good)-4] + "aaaa",
		"other purpose":   strings.Replace(good, "/notifications/", "/lifecycle/", 1),
		"other name":      strings.Replace(good, "/alpha/", "/beta/", 1),
		"other gen":       strings.Replace(good, "/g1/", "/g2/", 1),
		"no base":         strings.TrimPrefix(good, base),
		"base alone":      base,
		"base as prefix":  strings.Replace(good, base, base+"s", 1),
		"more below":      good + "/x",
		"root":            "/",
		"escaped slashes": strings.Replace(good, "/alpha/", "%2Falpha%2F", 1) + "x",
	} {
		for _, query := range []string{"", "?validationToken=tok"} {
			w := r.post(t, url+query, collection(r.item(t, nil)))
			if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "tok") {
				t.Errorf("%s%s: answer %d %q, want 404", name, query, w.Code, w.Body)
			}
		}
	}
	if n := r.inbox.touched(); n != 0 {
		t.Errorf("the store was touched %d times", n)
	}
	r.assertQuiet(t)
}

func TestFoldedPathIsServed(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config) { c.PublicURL = "https://hooks.contoso.invalid/Graph/" })
	if rows := r.accept(t, strings.ToUpper(r.path()), collection(r.item(t, nil))); len(forwarded(rows)) != 1 || rows[0].Address != alpha() {
		t.Errorf("rows %+v", rows)
	}
}

func TestOnlyPost(t *testing.T) {
	r := newRig(t, nil)
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "BREW",
	} {
		w := r.do(t, method, r.path()+"?validationToken=tok", http.NoBody)
		if w.Code != http.StatusMethodNotAllowed || strings.Contains(w.Body.String(), "tok") {
			t.Errorf("%s: answer %d %q", method, w.Code, w.Body)
		}
	}
}

func TestHandshakeName(t *testing.T) {
	r := newRig(t, nil)
	for _, query := range []string{
		"validationtoken=tok", "VALIDATIONTOKEN=tok", "a=b&ValidationToken=tok", "%zz&validationToken=tok",
		"validation%54oken=tok", "validationToken=tok&validationToken=other",
	} {
		assertEcho(t, r, r.path()+"?"+query, http.NoBody, "tok")
	}
	assertEcho(t, r, r.url(notification.PurposeLifecycle, alpha())+"?validationToken=tok", http.NoBody, "tok")
	assertEcho(t, r, r.path()+"?validationToken="+strings.Repeat("x", 8<<10), http.NoBody, strings.Repeat("x", 8<<10))
}

func TestHandshakeRefusesWhatMayNotBeEchoed(t *testing.T) {
	r := newRig(t, nil)
	refused := []string{
		"", "%3Cmarkup%3E", "a%3Eb", "a%00b", "a%0Ab", "a%0D", "a%7F", "%C2%85", "%ff", "%zz", strings.Repeat("x", 8<<10+1),
	}
	for _, token := range refused {
		w := r.post(t, r.path()+"?validationToken="+token, "")
		if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "markup") {
			t.Errorf("%.20q: answer %d %q, want 400", token, w.Code, w.Body)
		}
	}
	if got := r.metric(t, "graphsubd_handshakes_total", "outcome", "refused"); got != float64(len(refused)) {
		t.Errorf("%v refusals counted, want %d", got, len(refused))
	}
	r.assertQuiet(t, "markup")
}

func TestRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		rows := r.accept(t, r.path(), collection(r.item(t, map[string]any{"id": "i1"})))
		if len(rows) != 1 {
			t.Fatalf("rows %+v", rows)
		}
		row := rows[0]
		if row.Address != alpha() || row.SubscriptionID != s1 || row.TenantID != t1 || row.Kind != notification.KindChange ||
			row.Origin != notification.OriginGraph || row.Reason != "" || len(row.Evidence) != 2 {
			t.Errorf("row %+v", row)
		}
		if !row.ReceivedAt.Equal(time.Now()) || row.ReceivedAt.Location() != time.UTC {
			t.Errorf("received at %s", row.ReceivedAt)
		}
		if got := r.metric(t, "graphsubd_last_notification_timestamp_seconds"); got != float64(time.Now().Unix()) {
			t.Errorf("last notification at %v", got)
		}
		if got := r.metric(t, "graphsubd_notification_ack_duration_seconds"); got != 1 {
			t.Errorf("%v answers timed", got)
		}
	})
}

func TestProbeIsDropped(t *testing.T) {
	r := newRig(t, nil)
	probe := r.item(t, map[string]any{
		"subscriptionId": "NA", "clientState": nil,
		"changeType": "Validation: Testing client application reachability for subscription Request-Id: " + s9,
	})
	if rows := r.accept(t, r.path(), collection(probe)); len(rows) != 0 || r.inbox.touched() != 0 {
		t.Errorf("probe is stored: %+v", rows)
	}
	if got := r.verdicts(t, "dropped", notification.ReasonProbe); got != 1 {
		t.Errorf("%v dropped, want 1", got)
	}
	if rows := r.accept(t, r.path(), collection(probe, r.item(t, nil))); len(forwarded(rows)) != 1 {
		t.Errorf("the item beside a probe: %+v", rows)
	}
}

func TestStoreRefuses(t *testing.T) {
	r := newRig(t, nil)
	full := errors.New("backlog is full")
	r.inbox.append = func(context.Context, []notification.Row) error { return full }
	for range 3 {
		w := r.post(t, r.path(), collection(r.item(t, nil)))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "10" {
			t.Errorf("answer %d %v", w.Code, w.Header())
		}
	}
	// What needs no store is still answered.
	r.accept(t, r.path(), `{"value":[]}`)
	r.inbox.append = nil
	for range 2 {
		r.accept(t, r.path(), collection(r.item(t, nil)))
	}
	for line, want := range map[string]int{"store refuses notifications": 1, "store takes notifications again": 1, "notification refused": 0} {
		if got := strings.Count(r.log.String(), line); got != want {
			t.Errorf("%q is logged %d times, want %d", line, got, want)
		}
	}
	if got := r.verdicts(t, "accepted", ""); got != 2 {
		t.Errorf("%v accepted, want 2", got)
	}
	r.assertQuiet(t)
}

func TestOwnerIsAskedOncePerID(t *testing.T) {
	r := newRig(t, nil)
	wrong := r.item(t, map[string]any{"clientState": "wrong"})
	r.accept(t, r.path(), collection(wrong, wrong, wrong, r.item(t, map[string]any{"clientState": "wrong", "subscriptionId": s9})))
	if r.inbox.lookups != 2 {
		t.Errorf("%d look-ups, want 2", r.inbox.lookups)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *httpapi.Config) { c.MaxInFlight = 2 })
		release := make(chan struct{})
		r.inbox.append = func(context.Context, []notification.Row) error {
			<-release
			return nil
		}
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() { r.accept(t, r.path(), collection(r.item(t, nil))) })
		}
		synctest.Wait()
		start := time.Now()
		w := r.post(t, r.path(), collection(r.item(t, nil)))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || time.Since(start) != 0 {
			t.Errorf("answer %d after %s, want 503 at once", w.Code, time.Since(start))
		}
		if w := r.post(t, r.path()+"?validationToken=tok", ""); w.Code != http.StatusOK {
			t.Errorf("a handshake beyond the bound: %d", w.Code)
		}
		close(release)
		wait.Wait()
		r.accept(t, r.path(), collection(r.item(t, nil)))
		if got := r.verdicts(t, "refused", "throttled"); got != 1 {
			t.Errorf("%v throttled, want 1", got)
		}
	})
}

func TestClientThatLeavesIsNoTroubleOfTheStore(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r.inbox.append = func(ctx context.Context, _ []notification.Row) error {
		cancel()
		return ctx.Err()
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, r.path(), strings.NewReader(collection(r.item(t, nil))))
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if w.Code != http.StatusServiceUnavailable || strings.Contains(r.log.String(), "store refuses") {
		t.Errorf("answer %d, log %s", w.Code, r.log)
	}
	if got := r.verdicts(t, "refused", "transient"); got != 1 {
		t.Errorf("%v transient, want 1", got)
	}
}

func TestPanicIsContained(t *testing.T) {
	r := newRig(t, nil)
	state := r.keys.ClientState("alpha", "g1")
	for name, bad := range map[string]func(){
		"of a library": func() { panic("said by a body: " + state) },
		"of the runtime": func() {
			rows := r.inbox.take()
			past := len(rows) + 1
			_ = rows[past]
		},
	} {
		r.inbox.append = func(context.Context, []notification.Row) error {
			bad()
			return nil
		}
		w := r.post(t, r.path(), collection(r.item(t, nil)))
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), state) {
			t.Errorf("%s: answer %d %q", name, w.Code, w.Body)
		}
	}
	if got := r.metric(t, "graphsubd_http_panics_total"); got != 2 {
		t.Errorf("%v panics counted, want 2", got)
	}
	if !strings.Contains(r.log.String(), "index out of range") {
		t.Error("the runtime's words are not logged")
	}
	r.assertQuiet(t)
	r.inbox.append = func(context.Context, []notification.Row) error { panic(http.ErrAbortHandler) }
	func() {
		defer func() {
			err, ok := recover().(error)
			if !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("an abort became %v", err)
			}
		}()
		r.post(t, r.path(), collection(r.item(t, nil)))
	}()
	r.inbox.append = nil
	r.accept(t, r.path(), collection(r.item(t, nil)))
}

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	r := newRig(t, nil)
	for range 100 {
		r.post(t, r.path(), "secret words")
	}
	if got := strings.Count(r.log.String(), "notification refused"); got != 1 {
		t.Errorf("%d log lines for 100 refusals at once", got)
	}
	r.assertQuiet(t, "secret words")
}

func TestMetricsExistFromTheStart(t *testing.T) {
	r := newRig(t, nil)
	for _, verdict := range []struct {
		verdict string
		reason  notification.Reason
	}{
		{httpapi.VerdictAccepted, ""},
		{httpapi.VerdictDuplicate, notification.ReasonDuplicate},
		{httpapi.VerdictDropped, notification.ReasonProbe},
		{httpapi.VerdictQuarantined, notification.ReasonNotDesired},
		{httpapi.VerdictRefused, "store_unavailable"},
	} {
		if got := r.verdicts(t, verdict.verdict, verdict.reason); got != 0 {
			t.Errorf("%v is %v", verdict, got)
		}
	}
	r.CountVerdict(httpapi.VerdictDuplicate, notification.ReasonDuplicate, 3)
	if got := r.verdicts(t, "duplicate", notification.ReasonDuplicate); got != 3 {
		t.Errorf("%v duplicates, want 3", got)
	}
	for _, event := range []string{"reauthorizationRequired", "subscriptionRemoved", "missed", "other"} {
		r.metric(t, "graphsubd_lifecycle_events_total", "event", event)
	}
}

func TestConfigIsChecked(t *testing.T) {
	keys, err := notification.NewKeys("i", [][]byte{bytes.Repeat([]byte{1}, notification.MinKeyLength)})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]httpapi.Config{
		"no URL":       {},
		"relative URL": {PublicURL: "/graph"},
		"negative":     {PublicURL: "https://x.invalid", MaxBody: -1, MaxInFlight: -1, AppendTimeout: -1},
		"small buffer": {PublicURL: "https://x.invalid", MaxBody: 10, MaxBuffered: 10},
	} {
		if _, err := httpapi.NewReceiver(cfg, keys, &fakeInbox{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	cfg := httpapi.Config{PublicURL: "https://x.invalid"}
	r, err := httpapi.NewReceiver(cfg, keys, &fakeInbox{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		keys.Path(notification.PurposeNotifications, "a", "g")+"?validationToken=t", nil))
	if w.Code != http.StatusOK {
		t.Errorf("without a base path: %d", w.Code)
	}
}

// FuzzBody holds that no body of a true URL makes a 5xx, a panic, an echo, or
// a row that a consumer cannot read.
func FuzzBody(f *testing.F) {
	r := newRig(f, func(c *httpapi.Config) { c.MaxBody = 64 << 10 })
	state := r.keys.ClientState("alpha", "g1")
	good := collection(r.item(f, nil))
	for _, seed := range []string{
		"", " ", "{", "{}", "[]", "null", `{"value":null}`, `{"value":[null,5,"x"]}`, good, "\xef\xbb\xbf" + good,
		collection(r.lifecycle(f, "missed")), collection(r.lifecycle(f, nil)), zip(f, good), zip(f, "{"), zip(f, good)[:30],
		collection(r.item(f, map[string]any{"clientState": "wrong"}), r.item(f, map[string]any{"resourceData": "x"})),
	} {
		f.Add([]byte(seed), "")
		f.Add([]byte(seed), "gzip")
	}
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		w := r.post(t, r.path(), string(body), "Content-Encoding", encoding)
		switch w.Code {
		case http.StatusAccepted, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		default:
			t.Errorf("answer %d", w.Code)
		}
		if w.Code == http.StatusAccepted && w.Body.Len() > 0 {
			t.Errorf("a 202 says %q", w.Body)
		}
		for _, row := range r.inbox.take() {
			if !json.Valid(row.Item) || row.Kind == "" || row.Address == (notification.Address{}) {
				t.Errorf("row %+v", row)
			}
			if row.Reason == "" && bytes.Contains(row.Item, []byte(state)) {
				t.Errorf("clientState is stored: %s", row.Item)
			}
		}
	})
}

// BenchmarkReceive is the whole way of one basic item, without the network
// and the store.
func BenchmarkReceive(b *testing.B) {
	r := newRig(b, nil)
	body, url := collection(r.item(b, nil)), r.path()
	r.inbox.append = nil
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != http.StatusAccepted {
			b.Fatalf("answer %d", w.Code)
		}
		r.inbox.rows = r.inbox.rows[:0]
	}
}

func TestLostKeysAreNoReasonToGiveUp(t *testing.T) {
	r := newRig(t, nil)
	strange := base + "/notifications/alpha/g1/" + strings.Repeat("a", 32)
	post := func() int {
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, strange, strings.NewReader("{}")))
		return answer.Code
	}
	if code := post(); code != http.StatusNotFound {
		t.Errorf("a strange token gets %d", code)
	}
	r.SetKeysLost(true)
	if code := post(); code != http.StatusServiceUnavailable {
		t.Errorf("with the keys lost a strange token gets %d", code)
	}
}
