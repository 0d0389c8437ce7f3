package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// TestCase holds the receiver against faults that others reported in public.
func TestCase(t *testing.T) {
	t.Run("A01", caseA01)
	t.Run("A02", caseA02)
	t.Run("A03", caseA03)
	t.Run("A04", caseA04)
	t.Run("A05", caseA05)
	t.Run("A06", caseA06)
	t.Run("A07", caseA07)
	t.Run("A08", caseA08)
	t.Run("A09", caseA09)
	t.Run("A10", caseA10)
	t.Run("A11", caseA11)
	t.Run("A12", caseA12)
	t.Run("A13", caseA13)
	t.Run("A17", caseA17)
	t.Run("A18", caseA18)
	t.Run("A19", caseA19)
	t.Run("A25", caseA25)
	t.Run("A26", caseA26)
	t.Run("A29", caseA29)
	t.Run("A30", caseA30)
	t.Run("A32", caseA32)
	t.Run("A33", caseA33)
	t.Run("A36", caseA36)
}

// assertEcho demands the exact echo that Graph wants.
func assertEcho(t *testing.T, r *rig, url string, body io.Reader, want string, headers ...string) {
	t.Helper()
	w := r.do(t, http.MethodPost, url, body, headers...)
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("answer %d %q, want 200 %q", w.Code, w.Body, want)
	}
	if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Error("no nosniff")
	}
	if n := r.inbox.touched(); n != 0 {
		t.Errorf("the store was touched %d times", n)
	}
}

// untouched fails the test when a body is read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func caseA01(t *testing.T) {
	r := newRig(t, nil)
	assertEcho(t, r, r.path()+"?validationToken=Validation%3A+Testing+client+application+reachability+for+subscription+Request-Id%3A+"+s9,
		http.NoBody, "Validation: Testing client application reachability for subscription Request-Id: "+s9,
		"Content-Type", "text/plain; charset=utf-8")
	if got := r.metric(t, "graphsubd_handshakes_total", "outcome", "answered"); got != 1 {
		t.Errorf("%v handshakes counted", got)
	}
}

func caseA02(t *testing.T) {
	r := newRig(t, nil)
	long := strings.Repeat("x1-_.~Az", 512)
	for query, want := range map[string]string{
		"a%2Bb%2Fc%3D%3D": "a+b/c==", "a+b": "a b", "%C3%A9%E2%82%AC": "é€", long: long, "100%25%2B": "100%+",
		"%2525": "%25", "a;b": "a;b", "x&y=z": "x", "a=b": "a=b",
	} {
		assertEcho(t, r, r.path()+"?validationToken="+query, http.NoBody, want)
	}
}

func caseA03(t *testing.T) {
	r := newRig(t, nil)
	down := errors.New("store down")
	r.inbox.append = func(context.Context, []notification.Row) error { return down }
	r.inbox.owner = func(context.Context, string) (notification.Address, bool, error) {
		return notification.Address{}, false, down
	}
	url := r.path() + "?validationToken=a+token"
	assertEcho(t, r, url, http.NoBody, "a token")
	assertEcho(t, r, url, strings.NewReader("{"), "a token")
	assertEcho(t, r, url, http.NoBody, "a token", "Content-Type", "application/json")
	assertEcho(t, r, url, http.NoBody, "a token", "Content-Type", "")
	assertEcho(t, r, url, untouched{t}, "a token")
}

func caseA05(t *testing.T) {
	r := newRig(t, nil)
	for _, contentType := range []string{"text/plain", "text/plain; charset=utf-8", "TEXT/PLAIN;charset=UTF-8", "application/json", ""} {
		assertEcho(t, r, r.path()+"?validationToken=tok", http.NoBody, "tok", "Content-Type", contentType)
	}
	for _, contentType := range []string{"application/json; charset=utf-8", "application/json", "text/plain", ""} {
		if rows := r.accept(t, r.path(), collection(r.item(t, nil)), "Content-Type", contentType); len(forwarded(rows)) != 1 {
			t.Errorf("%q: %+v", contentType, rows)
		}
	}
}

func caseA07(t *testing.T) {
	r := newRig(t, nil)
	const date = "2030-05-15T09:06:46.5737745-07:00"
	rows := r.accept(t, r.path(), collection(r.item(t, map[string]any{"subscriptionExpirationDateTime": date})))
	if len(forwarded(rows)) != 1 || !strings.Contains(string(rows[0].Item), date) {
		t.Errorf("rows %+v", rows)
	}
}

func caseA08(t *testing.T) {
	r := newRig(t, nil)
	var items []string
	for _, date := range []string{
		"2030-06-11T12:23:21.88+00:00", "2030-06-11T12:23:21.8Z", "2030-06-11T12:23:21Z",
		"2030-06-11T12:23:21.9367027+00:00", "soon",
	} {
		items = append(items, r.item(t, map[string]any{"subscriptionExpirationDateTime": date}))
	}
	if rows := r.accept(t, r.path(), collection(items...)); len(forwarded(rows)) != len(items) {
		t.Errorf("%d of %d forwarded", len(forwarded(rows)), len(items))
	}
}

func caseA09(t *testing.T) {
	r := newRig(t, nil)
	state := r.keys.ClientState("alpha", "g1")
	for _, data := range []string{`"resourceData":null,`, ``, `"resourceData":{},`} {
		body := `{"value":[{"subscriptionId":"` + s1 + `","clientState":"` + state + `","resource":"drives/d1/root/","tenantId":"` + t1 +
			`",` + data + `"subscriptionExpirationDateTime":"2030-02-10T08:00:00-08:00","changeType":"updated"}]}`
		rows := forwarded(r.accept(t, r.path(), body))
		if len(rows) != 1 || len(rows[0].Evidence) != 0 {
			t.Errorf("%s gives %+v, want one row that is never taken for another", data, rows)
		}
	}
}

func caseA10(t *testing.T) {
	r := newRig(t, nil)
	rows := r.accept(t, r.path(), "\xef\xbb\xbf"+collection(r.item(t, nil)))
	if len(forwarded(rows)) != 1 || rows[0].Item[0] != '{' {
		t.Errorf("rows %+v", rows)
	}
}

func caseA12(t *testing.T) {
	r := newRig(t, nil)
	for _, body := range []io.Reader{http.NoBody, io.MultiReader(), strings.NewReader(" ")} {
		if w := r.do(t, http.MethodPost, r.path(), body); w.Code != http.StatusBadRequest {
			t.Errorf("answer %d, want 400", w.Code)
		}
	}
	if n := r.inbox.touched(); n != 0 {
		t.Errorf("the store was touched %d times", n)
	}
	if got := r.verdicts(t, "refused", notification.ReasonMalformed); got != 3 {
		t.Errorf("%v refusals counted, want 3", got)
	}
	if got := r.metric(t, "graphsubd_handshakes_total", "outcome", "answered"); got != 0 {
		t.Error("taken for a handshake")
	}
}

func caseA13(t *testing.T) {
	r := newRig(t, nil)
	malformed, good := 0, 0
	for _, test := range []struct {
		body            string
		good, malformed int
	}{
		{`{}`, 0, 1},
		{`{"value":null}`, 0, 0},
		{`{"value":[]}`, 0, 0},
		{`{"value":{}}`, 0, 1},
		{`[]`, 0, 1},
		{`null`, 0, 1},
		{`{"value":[null]}`, 0, 1},
		{`{"value":["x"]}`, 0, 1},
		{collection(r.item(t, nil), "5"), 1, 1},
	} {
		rows := r.accept(t, r.path(), test.body)
		if len(forwarded(rows)) != test.good || len(rows) != test.good+test.malformed {
			t.Errorf("%s gives %+v", test.body, rows)
		}
		good, malformed = good+test.good, malformed+test.malformed
	}
	if got := r.verdicts(t, "quarantined", notification.ReasonMalformed); got != float64(malformed) {
		t.Errorf("%v malformed counted, want %d", got, malformed)
	}
	if got := r.verdicts(t, "accepted", ""); got != float64(good) {
		t.Errorf("%v accepted counted, want %d", got, good)
	}
}

func TestManyMalformedElementsAreKeptAsTheirNumber(t *testing.T) {
	r := newRig(t, nil)
	rows := r.accept(t, r.path(), `{"value":[`+strings.Repeat("1,", 9_999)+r.item(t, nil)+`]}`)
	if len(forwarded(rows)) != 1 || len(rows) > 50 {
		t.Fatalf("%d rows, %d of them forwarded", len(rows), len(forwarded(rows)))
	}
	if last := string(rows[len(rows)-1].Item); last != `{"malformed":"more","count":9967}` {
		t.Errorf("the rest is kept as %s", last)
	}
}

func caseA17(t *testing.T) {
	r := newRig(t, nil)
	body := collection(
		r.item(t, nil),
		r.item(t, map[string]any{"clientState": "wrong"}),
		r.item(t, map[string]any{"subscriptionId": s9, "clientState": "state-nine"}),
	)
	first := r.accept(t, r.path(), body)
	if len(first) != 3 || len(forwarded(first)) != 1 {
		t.Fatalf("rows %+v", first)
	}
	for _, row := range first[1:] {
		if row.Reason != notification.ReasonBadClientState || len(row.Evidence) != 0 {
			t.Errorf("bad item is stored as %+v", row)
		}
	}
	if got := r.verdicts(t, "quarantined", notification.ReasonBadClientState); got != 2 {
		t.Errorf("%v quarantined, want 2", got)
	}
	again := forwarded(r.accept(t, r.path(), body))
	if len(again) != 1 || len(again[0].Evidence) == 0 || again[0].Evidence[0] != forwarded(first)[0].Evidence[0] {
		t.Errorf("a redelivery cannot be told from a new item: %+v", again)
	}
	for _, row := range append(first, again...) {
		if strings.Contains(string(row.Item), "clientState") {
			t.Errorf("clientState is stored: %s", row.Item)
		}
	}
	r.assertQuiet(t, "state-nine")
}

func caseA25(t *testing.T) {
	r := newRig(t, nil)
	body := collection(r.lifecycle(t, "subscriptionRemoved"), r.item(t, nil))
	for _, purpose := range []notification.Purpose{notification.PurposeNotifications, notification.PurposeLifecycle} {
		rows := r.accept(t, r.url(purpose, alpha()), body)
		if len(forwarded(rows)) != 2 {
			t.Fatalf("%s: %+v", purpose, rows)
		}
		if rows[0].Kind != notification.KindLifecycle || rows[0].Type != "subscriptionRemoved" ||
			rows[1].Kind != notification.KindChange || rows[1].Type != "" {
			t.Errorf("%s: kinds %s/%s and %s/%s", purpose, rows[0].Kind, rows[0].Type, rows[1].Kind, rows[1].Type)
		}
	}
	if got := r.metric(t, "graphsubd_notifications_received_total", "kind", "lifecycle"); got != 2 {
		t.Errorf("%v lifecycle items counted, want 2", got)
	}
}

func caseA26(t *testing.T) {
	r := newRig(t, nil)
	names := []any{"somethingNew", "", nil, "RESUBSCRIBE", strings.Repeat("long", 2560)}
	for range 2 {
		for _, name := range names {
			rows := r.accept(t, r.url(notification.PurposeLifecycle, alpha()), collection(r.lifecycle(t, name)))
			if len(rows) != 1 || rows[0].Kind != notification.KindLifecycle || rows[0].Type != "other" || rows[0].Reason != "" {
				t.Errorf("%.20v is stored as %+v", name, rows)
			}
		}
	}
	if got := r.metric(t, "graphsubd_lifecycle_events_total", "event", "other"); got != float64(2*len(names)) {
		t.Errorf("%v other events counted, want %d", got, 2*len(names))
	}
	// The empty name and null are one kind.
	if got := strings.Count(r.log.String(), "lifecycle event is unknown"); got != len(names)-1 {
		t.Errorf("%d log lines for %d kinds of event", got, len(names)-1)
	}
	if strings.Contains(r.log.String(), strings.Repeat("long", 20)) {
		t.Error("a name is logged in full length")
	}
}

func caseA29(t *testing.T) {
	r := newRig(t, nil)
	for sent, want := range map[string]string{
		"subscriptionRemoved": "subscriptionRemoved", "removed": "subscriptionRemoved", "SubscriptionRemoved": "subscriptionRemoved",
		"REMOVED": "subscriptionRemoved", "Missed": "missed", "reauthorizationrequired": "reauthorizationRequired",
	} {
		rows := r.accept(t, r.url(notification.PurposeLifecycle, alpha()), collection(r.lifecycle(t, sent)))
		if len(rows) != 1 || rows[0].Kind != notification.KindLifecycle || rows[0].Type != want {
			t.Errorf("%s is stored as %+v", sent, rows)
		}
	}
}

// caseA30 is the second half, a stalled store; the stalled sink is delivery's.
func caseA30(t *testing.T) {
	stall := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, set := range map[string]func(*fakeInbox){
		"append": func(f *fakeInbox) {
			f.append = func(ctx context.Context, _ []notification.Row) error { return stall(ctx) }
		},
		"owner": func(f *fakeInbox) {
			f.owner = func(ctx context.Context, _ string) (notification.Address, bool, error) {
				return notification.Address{}, false, stall(ctx)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				set(r.inbox)
				start := time.Now()
				w := r.post(t, r.path(), collection(r.item(t, nil), r.item(t, map[string]any{"clientState": "wrong"})))
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
					t.Errorf("answer %d %v, want 503 with Retry-After", w.Code, w.Header())
				}
				if took := time.Since(start); took != httpapi.DefaultAppendTimeout {
					t.Errorf("answered after %s", took)
				}
				if got := r.verdicts(t, "refused", "store_unavailable"); got != 2 {
					t.Errorf("%v refused items counted, want 2", got)
				}
				if got := r.verdicts(t, "accepted", ""); got != 0 {
					t.Errorf("%v accepted counted", got)
				}
			})
		})
	}
	const graphWaits = 3 * time.Second
	if httpapi.DefaultAppendTimeout+500*time.Millisecond >= graphWaits {
		t.Errorf("append time-out %s is not well under the %s that Graph waits", httpapi.DefaultAppendTimeout, graphWaits)
	}
}

func caseA33(t *testing.T) {
	r := newRig(t, nil)
	of := func(id, tenant string, a notification.Address, resource string) string {
		return r.item(t, map[string]any{
			"subscriptionId": id, "tenantId": tenant, "resource": resource, "clientState": r.keys.ClientState(a.Name, a.Gen),
		})
	}
	rows := r.accept(t, r.path(), collection(
		of(s1, t1, alpha(), "m1"), of(s2, t1, beta(), "m2"), of(s3, t2, gamma(), "m3"), of(s1, t1, alpha(), "m4"),
	))
	want := []struct {
		address          notification.Address
		id, tenant, item string
	}{{alpha(), s1, t1, "m1"}, {beta(), s2, t1, "m2"}, {gamma(), s3, t2, "m3"}, {alpha(), s1, t1, "m4"}}
	if len(forwarded(rows)) != len(want) {
		t.Fatalf("rows %+v", rows)
	}
	for i, w := range want {
		if rows[i].Address != w.address || rows[i].SubscriptionID != w.id || rows[i].TenantID != w.tenant ||
			!strings.Contains(string(rows[i].Item), `"`+w.item+`"`) {
			t.Errorf("row %d is %+v, want %+v", i, rows[i], w)
		}
	}
	if r.inbox.appends != 1 || r.inbox.lookups != 2 {
		t.Errorf("%d appends, %d look-ups", r.inbox.appends, r.inbox.lookups)
	}
}

func caseA36(t *testing.T) {
	r := newRig(t, nil)
	plain := collection(r.item(t, nil))
	if rows := r.accept(t, r.path(), zip(t, plain), "Content-Encoding", "gzip"); len(forwarded(rows)) != 1 {
		t.Errorf("rows %+v", rows)
	}
	refused := []struct {
		name, body, encoding string
		want                 int
	}{
		{"deflate", plain, "deflate", http.StatusUnsupportedMediaType},
		{"br", plain, "br", http.StatusUnsupportedMediaType},
		{"gzip twice", zip(t, zip(t, plain)), "gzip, gzip", http.StatusUnsupportedMediaType},
		{"gzip on a plain body", plain, "gzip", http.StatusBadRequest},
		{"gzip on an empty body", "", "gzip", http.StatusBadRequest},
		{"gzip cut short", zip(t, plain)[:40], "gzip", http.StatusBadRequest},
		{"gzip without the header", zip(t, plain), "", http.StatusBadRequest},
		{"gzip bomb", zip(t, strings.Repeat(" ", httpapi.DefaultMaxBody+1)), "gzip", http.StatusRequestEntityTooLarge},
	}
	for _, test := range refused {
		if w := r.post(t, r.path(), test.body, "Content-Encoding", test.encoding); w.Code != test.want {
			t.Errorf("%s: answer %d, want %d", test.name, w.Code, test.want)
		}
	}
	if rows := r.inbox.take(); len(rows) != 0 {
		t.Errorf("refused bodies left %+v", rows)
	}
	if got := r.verdicts(t, "refused", notification.ReasonMalformed); got != float64(len(refused)) {
		t.Errorf("%v refusals counted, want %d", got, len(refused))
	}
}
