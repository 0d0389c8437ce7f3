package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/httpapi"
)

func TestAdminAccess(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct {
		authorization string
		status        int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer", http.StatusUnauthorized},
		{"Bearer ", http.StatusUnauthorized},
		{"Bearer wrong-wrong-wrong-wrong", http.StatusUnauthorized},
		{"Bearer " + opsToken + "x", http.StatusUnauthorized},
		{"Bearer " + opsToken[:len(opsToken)-1], http.StatusUnauthorized},
		{"Basic " + opsToken, http.StatusUnauthorized},
		{opsToken, http.StatusUnauthorized},
		{"Bearer hunter2", http.StatusUnauthorized}, // too short to be taken
		{"Bearer " + strangeToken, http.StatusForbidden},
		{"Bearer " + watcherToken, http.StatusOK},
		{"bearer " + opsToken, http.StatusOK},
	} {
		for _, path := range []string{
			"/api/v1/status", "/api/v1/subscriptions", "/api/v1/subscriptions/rooms", "/openapi.json", "/openapi.yaml",
		} {
			answer := d.ask(http.MethodGet, path, c.authorization)
			if answer.Code != c.status {
				t.Errorf("%s with %q: %d, want %d: %s", path, c.authorization, answer.Code, c.status, answer.Body)
			}
			if c.status != http.StatusOK {
				d.problem(answer, c.status)
			}
			challenge := answer.Header().Get("WWW-Authenticate")
			if strings.HasPrefix(challenge, "Bearer ") != (c.status == http.StatusUnauthorized) {
				t.Errorf("%s with %q: challenge %q", path, c.authorization, challenge)
			}
			if answer.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s may be cached", path)
			}
		}
	}
	// A stranger does not learn what there is.
	for _, path := range []string{"/", "/nothing", "/api/v1/", "/docs", "/schemas/Status.json"} {
		d.problem(d.ask(http.MethodGet, path, ""), http.StatusUnauthorized)
		d.problem(d.ask(http.MethodGet, path, "Bearer "+opsToken), http.StatusNotFound)
	}
	answer := d.ask(http.MethodPost, "/api/v1/status", "Bearer "+opsToken)
	d.problem(answer, http.StatusMethodNotAllowed)
	if answer.Header().Get("Allow") != http.MethodGet {
		t.Errorf("Allow is %q", answer.Header().Get("Allow"))
	}
}

func TestAdminWithoutTokensIsClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.SetTokens(nil)
	d.problem(d.ask(http.MethodGet, "/api/v1/status", "Bearer "+opsToken), http.StatusUnauthorized)
	if !strings.Contains(d.log.String(), "no admin token is configured") {
		t.Errorf("no hint in the log:\n%s", d.log.String())
	}
}

func TestAdminTokenIsRotated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		const next = "hunter2-next-0123456789"
		want := func(token string, status int) {
			t.Helper()
			if answer := d.ask(http.MethodGet, "/api/v1/status", "Bearer "+token); answer.Code != status {
				t.Errorf("%q: %d, want %d", token, answer.Code, status)
			}
		}
		want(opsToken, http.StatusOK)
		d.ops.put(next, nil)
		time.Sleep(2 * time.Second)
		want(opsToken, http.StatusUnauthorized)
		want(next, http.StatusOK)
		d.ops.put("", errors.New("file /etc/ops: no such file"))
		for range 3 {
			time.Sleep(2 * time.Second)
			want(next, http.StatusUnauthorized)
			want(watcherToken, http.StatusOK)
		}
		if n := strings.Count(d.log.String(), "file /etc/ops"); n != 1 {
			t.Errorf("an unreadable token is logged %d times", n)
		}
		d.ops.put(opsToken, nil)
		time.Sleep(2 * time.Second)
		want(opsToken, http.StatusOK)
		d.SetTokens([]httpapi.AdminToken{{Name: "ops", Role: "viewer", Current: d.ops.current}})
		want(opsToken, http.StatusOK)
		want(watcherToken, http.StatusUnauthorized)
	})
}

func TestAdminLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ask(http.MethodGet, "/api/v1/subscriptions/rooms?unknown=1", "Bearer "+opsToken)
	for range 20 {
		d.ask(http.MethodGet, "/api/v1/status?token=hunter2", "Bearer hunter2-guess")
	}
	d.ask(http.MethodGet, "/hunter2", "Bearer "+opsToken)
	text := d.log.String()
	for _, want := range []string{
		`"method":"GET","route":"/api/v1/subscriptions/{name}","http_status":422,"caller":"ops"`,
		`"http_status":404,"caller":"ops"`,
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want one line with %s, got\n%s", want, text)
		}
	}
	if n := strings.Count(text, "without a right token refused"); n != 1 {
		t.Errorf("%d lines about guesses, want 1", n)
	}
}

func TestAdminStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var got admin.Status
	d.get("/api/v1/status", &got)
	if !reflect.DeepEqual(got, d.reader.status) {
		t.Errorf("got %+v, want %+v", got, d.reader.status)
	}
}

func TestAdminSubscription(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var got admin.Subscription
	d.get("/api/v1/subscriptions/rooms", &got)
	if !reflect.DeepEqual(got, d.reader.list[1]) {
		t.Errorf("got %+v, want %+v", got, d.reader.list[1])
	}
	detail := d.problem(d.ask(http.MethodGet, "/api/v1/subscriptions/nobody", "Bearer "+opsToken), http.StatusNotFound)
	if want := `there is no subscription named "nobody"`; detail != want {
		t.Errorf("detail %q, want %q", detail, want)
	}
}

func TestAdminListFilters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for query, want := range map[string][]string{
		"":                             {"orders-inbox", "rooms", "tasks"},
		"?state=parked":                {"rooms"},
		"?state=pending":               {"tasks"},
		"?state=deleting":              {},
		"?tenant=contoso":              {"orders-inbox", "tasks"},
		"?tenant=nobody":               {},
		"?tenant=contoso&state=active": {"orders-inbox"},
		"?after=orders":                {"orders-inbox", "rooms", "tasks"},
		"?after=zzz":                   {},
	} {
		var got admin.SubscriptionList
		d.get("/api/v1/subscriptions"+query, &got)
		names := []string{}
		for _, s := range got.Items {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, want) || got.Items == nil || got.Next != "" {
			t.Errorf("%q gives %q, next %q, want %q", query, names, got.Next, want)
		}
	}
	for query, want := range map[string]string{
		"?state=alive": "query.state", "?limit=0": "query.limit", "?limit=1001": "query.limit", "?limit=x": "query.limit",
		"?stat=active": "query.stat",
	} {
		detail := d.problem(d.ask(http.MethodGet, "/api/v1/subscriptions"+query, "Bearer "+opsToken), http.StatusUnprocessableEntity)
		if !strings.Contains(detail, want) {
			t.Errorf("%q: %q does not name %s", query, detail, want)
		}
	}
}

func TestAdminListPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.reader.list = nil
	var want []string
	for i := range 25 {
		state := []string{"active", "parked"}[i%2]
		d.reader.list = append(d.reader.list, admin.Subscription{Name: fmt.Sprintf("s%02d", i), State: state})
		if state == "active" {
			want = append(want, d.reader.list[i].Name)
		}
	}
	for _, limit := range []int{1, 4, 13, 100} {
		var names []string
		for after, pages := "", 0; ; pages++ {
			var got admin.SubscriptionList
			d.get(fmt.Sprintf("/api/v1/subscriptions?state=active&limit=%d&after=%s", limit, after), &got)
			for _, s := range got.Items {
				names = append(names, s.Name)
			}
			if after = got.Next; after == "" {
				if wanted := (len(want)+limit-1)/limit - 1; pages != wanted {
					t.Errorf("limit %d: %d pages before the last, want %d", limit, pages, wanted)
				}
				break
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("limit %d gives %q", limit, names)
		}
	}
}

func TestAdminFailures(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct {
		err    error
		status int
	}{
		{fmt.Errorf("read: %w: disk on fire", graph.ErrStoreUnavailable), http.StatusServiceUnavailable},
		{errors.New("disk on fire"), http.StatusInternalServerError},
	} {
		d.reader.err = c.err
		for _, path := range []string{"/api/v1/status", "/api/v1/subscriptions", "/api/v1/subscriptions/rooms"} {
			answer := d.ask(http.MethodGet, path, "Bearer "+opsToken)
			d.problem(answer, c.status)
			if strings.Contains(answer.Body.String(), "fire") {
				t.Errorf("%s tells the cause: %s", path, answer.Body)
			}
		}
	}
	if !strings.Contains(d.log.String(), "disk on fire") {
		t.Error("the log does not tell the cause")
	}
	d.reader.panics = true
	d.problem(d.ask(http.MethodGet, "/api/v1/status", "Bearer "+opsToken), http.StatusInternalServerError)
	families, err := d.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "graphsubd_http_panics_total" || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("metrics %v, %v", families, err)
	}
}

func TestPlanAndApproval(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.reader.plan = admin.Plan{
		Hold: &admin.Hold{ID: "abc", Count: 2}, Counts: map[string]int64{"delete": 2},
		Items: []admin.PlanStep{{Name: "a", Action: "delete", Held: true}, {Name: "b", Action: "delete", Held: true}},
	}
	var plan admin.Plan
	d.get("/api/v1/plan?limit=1", &plan)
	if len(plan.Items) != 1 || plan.Hold == nil || plan.Hold.ID != "abc" {
		t.Errorf("plan %+v", plan)
	}
	approve := func(token, body string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/plan/approval", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		d.ServeHTTP(answer, request)
		return answer
	}
	d.problem(approve(watcherToken, `{"id":"abc"}`), http.StatusForbidden)
	d.problem(approve(opsToken, `{}`), http.StatusUnprocessableEntity)
	if len(d.reader.approved) != 0 {
		t.Fatalf("approved %q", d.reader.approved)
	}
	d.problem(approve(opsToken, `{"id":"abd"}`), http.StatusConflict)
	var approval admin.Approval
	if err := json.Unmarshal(approve(opsToken, `{"id":"abc"}`).Body.Bytes(), &approval); err != nil {
		t.Fatal(err)
	}
	if approval.State != "done" || !slices.Equal(d.reader.approved, []string{"ops abd", "ops abc"}) {
		t.Errorf("%+v, approved %q", approval, d.reader.approved)
	}
	answer := d.ask(http.MethodGet, "/api/v1/plan/approval", "Bearer "+opsToken)
	d.problem(answer, http.StatusMethodNotAllowed)
	if answer.Header().Get("Allow") != http.MethodPost {
		t.Errorf("allow %q", answer.Header().Get("Allow"))
	}
}
