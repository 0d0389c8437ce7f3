package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/httpapi"
)

const adminToken = "hunter2-0123456789"

// instance is the real admin interface over a world in memory.
type instance struct {
	t      *testing.T
	url    string
	status admin.Status
	list   []admin.Subscription
	plan   admin.Plan
	err    error
}

func (i *instance) Plan(context.Context, int) (admin.Plan, error) { return i.plan, i.err }

func (i *instance) Approve(_ context.Context, _, id string) (admin.Approval, bool, error) {
	seen := i.plan.Hold != nil && i.plan.Hold.ID == id
	i.plan = admin.Plan{}
	return admin.Approval{State: "done", Result: "2 changes released"}, seen, i.err
}

func (i *instance) Status(context.Context) (admin.Status, error) { return i.status, i.err }

func (i *instance) Subscriptions(context.Context) ([]admin.Subscription, error) {
	return i.list, i.err
}

func (i *instance) Subscription(_ context.Context, name string) (admin.Subscription, bool, error) {
	for _, s := range i.list {
		if s.Name == name {
			return s, true, i.err
		}
	}
	return admin.Subscription{}, false, i.err
}

func newInstance(t *testing.T, role string) *instance {
	t.Helper()
	i := &instance{t: t}
	handler, err := httpapi.NewAdmin(httpapi.AdminConfig{Tokens: []httpapi.AdminToken{
		{Name: "ops", Role: role, Current: func() (string, error) { return adminToken, nil }},
	}}, i)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	i.url = server.URL
	now := time.Now()
	wish := func(name, tenant string) graph.Wish {
		return graph.Wish{
			Name: name, Tenant: tenant, Gen: "new", Source: graph.SourceFile, Resource: "users/u/messages",
			ChangeTypes: []graph.ChangeType{graph.Created, graph.Updated}, Sinks: []string{"archive", "bus"}, Lifetime: 90 * time.Minute,
		}
	}
	paused := wish("tasks", "contoso")
	paused.Paused, paused.Sinks, paused.Lifetime = true, nil, 0
	i.list = admin.List(
		[]graph.Wish{wish("orders-inbox", "contoso"), wish("rooms", "fabrikam"), paused},
		[]graph.Record{
			{
				Name: "orders-inbox", Gen: "new", Tenant: "contoso", ID: "id-1", State: graph.StateActive, CreatedAt: now.Add(-time.Hour),
				GrantedAt: now.Add(-time.Minute), ExpiresAt: now.Add(4*time.Hour + 12*time.Minute + 30*time.Second), RenewAt: now.Add(2 * time.Hour),
			},
			{Name: "orders-inbox", Gen: "old", Tenant: "contoso", ID: "id-0", State: graph.StateDeleting, ExpiresAt: now.Add(time.Hour)},
			{
				Name: "rooms", Gen: "new", Tenant: "fabrikam", State: graph.StateParked, Reason: graph.ReasonForbidden,
				Detail: "Graph answered 403\tx\x1b[31m\nline", Attempt: 3, NextAt: now.Add(90 * time.Second), LostAt: now.Add(-49 * time.Hour),
			},
			{Name: "zz", Gen: "x", Tenant: "contoso", ID: "id-2", State: graph.StateDeleting, ExpiresAt: now.Add(time.Hour)},
		},
		admin.Heard{Last: map[string]time.Time{"orders-inbox": now.Add(-3 * time.Minute)}},
	)
	since := now.Add(-2 * time.Hour)
	i.status = admin.Status{
		Instance: "prod", Version: "1.2.3", Holder: "host-1", Leading: true, Term: 7, Leader: admin.Leader{Holder: "host-1", Term: 7, Since: &since},
		Backlog: map[string]int64{"archive": 12}, DeadLetters: map[string]int64{}, Quarantine: map[string]int64{"malformed": 2, "probe": 0},
		Unrouted: 3, OpenGaps: 1, Store: admin.StoreStatus{Bytes: 3 << 19}, StartedAt: since,
	}
	i.status.Describe(i.list)
	return i
}

// run runs a command against the instance.
func (i *instance) run(args ...string) (code int, stdout, stderr string) {
	i.t.Helper()
	return ask(i.t, map[string]string{serverEnv: i.url, tokenEnv: adminToken}, args...)
}

// ask runs a command in an environment and asserts that it shows no token.
func ask(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), args, func(name string) string { return env[name] }, &out, &errOut)
	if strings.Contains(out.String()+errOut.String(), "hunter2") {
		t.Errorf("%q shows a token: %s%s", args, out.String(), errOut.String())
	}
	return code, out.String(), errOut.String()
}

// lines checks that lines stand in a text, whatever the spaces and the instants.
func lines(t *testing.T, text string, want ...string) {
	t.Helper()
	var plain []string
	for line := range strings.Lines(text) {
		plain = append(plain, strings.Join(strings.Fields(line), " "))
	}
	all := "\n" + strings.Join(plain, "\n") + "\n"
	for _, line := range want {
		if !strings.Contains(all, "\n"+line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "viewer")
	code, stdout, stderr := i.run("status")
	if code != exitOK || stderr != "" {
		t.Fatalf("%d, %q", code, stderr)
	}
	stamp := i.status.Leader.Since.UTC().Format(time.RFC3339)
	lines(t, stdout,
		"INSTANCE prod, version 1.2.3\n", "PROCESS host-1, started "+stamp+" (2h ago)\n",
		"LEADER this process, term 7, since "+stamp+" (2h ago)\n",
		"SUBSCRIPTIONS 4: 1 pending, 1 active, 1 parked, 1 deleting\n",
		"FIRST EXPIRY "+i.status.EarliestExpiry.UTC().Format(time.RFC3339)+" (in 4h12m)\n",
		"BACKLOG archive 12, and 3 not handed to the sinks yet\n", "DEAD LETTERS empty\n", "QUARANTINE malformed 2\n",
		"OPEN GAPS 1\n", "STORE 1.5 MiB\n", "PROBLEM tenant fabrikam: forbidden\n",
		"1 subscription (rooms): Graph answered 403 x [31m line\n", "To do: grant the app the application permission",
	)
	if strings.ContainsAny(stdout, "\t\x1b") {
		t.Errorf("control characters reach the terminal: %q", stdout)
	}
}

func TestStatusOfNothing(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "viewer")
	i.status = admin.Status{Instance: "prod", Holder: "host-2", StartedAt: time.Now(), Backlog: map[string]int64{}, DeadLetters: map[string]int64{}}
	i.status.Describe(nil)
	_, stdout, _ := i.run("status")
	lines(t, stdout, "LEADER none so far\n", "SUBSCRIPTIONS none\n", "FIRST EXPIRY none: no subscription lives\n", "BACKLOG empty\n", "PROBLEMS none\n")
	i.status.Leader = admin.Leader{Holder: "host-1", Term: 4}
	_, stdout, _ = i.run("status")
	lines(t, stdout, "LEADER not this process; the last was host-1, term 4, since unknown\n")
}

func TestSubscriptionsList(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "operator")
	code, stdout, stderr := i.run("subscriptions", "list")
	if code != exitOK || stderr != "" {
		t.Fatalf("%d, %q", code, stderr)
	}
	expires := i.list[0].Record.ExpiresAt.UTC().Format(time.RFC3339)
	last := i.list[0].LastNotificationAt.UTC().Format(time.RFC3339)
	lines(t, stdout,
		"NAME TENANT STATE EXPIRES LAST CHANGE CAME\n",
		"orders-inbox contoso active "+expires+" (in 4h12m) "+last+" (3m ago)\n",
		"rooms fabrikam parked (forbidden) - never\n", "tasks contoso pending (paused) - never\n", "zz contoso deleting (not desired) ",
	)
	if at := strings.Index(stdout, "TENANT"); at != strings.Index(stdout[strings.Index(stdout, "\n")+1:], "contoso") {
		t.Errorf("columns do not align:\n%s", stdout)
	}
	_, stdout, _ = i.run("subscriptions", "list", "--state", "parked", "--tenant", "fabrikam")
	if strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, "rooms") {
		t.Errorf("got\n%s", stdout)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--state", "recreating"}, "no subscriptions in state recreating\n"},
		{[]string{"--tenant", "nobody"}, "no subscriptions of tenant nobody\n"},
	} {
		if code, stdout, _ := i.run(append([]string{"subscriptions", "list"}, c.args...)...); code != exitOK || stdout != c.want {
			t.Errorf("%q gives %d, %q", c.args, code, stdout)
		}
	}
	i.list = nil
	if _, stdout, _ := i.run("subscriptions", "list"); stdout != "no subscriptions\n" {
		t.Errorf("an empty list prints %q", stdout)
	}
}

func TestSubscriptionsGet(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "admin")
	_, stdout, _ := i.run("subscriptions", "get", "orders-inbox")
	lines(t, stdout,
		"NAME orders-inbox\n", "TENANT contoso\n", "STATE active\n", "RESOURCE users/u/messages\n", "CHANGE TYPES created, updated\n",
		"LIFETIME 1h30m\n", "SINKS archive, bus\n", "SOURCE file\n", "GEN new\n", "ID id-1\n", "CREATED ", "GRANTED ", "EXPIRES ", "RENEWS ",
		"LAST CHANGE CAME ", "REPLACES gen old, deleting, id id-0, expires ",
	)
	_, stdout, _ = i.run("subscriptions", "get", "rooms")
	lines(t, stdout,
		"STATE parked (forbidden)\n", "Graph answered 403 x [31m line\n", "To do: grant", "FAILED TRIES 3\n",
		"NEXT TRY "+i.list[1].Record.NextTryAt.UTC().Format(time.RFC3339)+" (in 1m", "CHANGES LOST SINCE "+i.list[1].Record.LostAt.UTC().Format(time.RFC3339)+" (2d1h ago)\n",
		"LAST CHANGE CAME never\n",
	)
	_, stdout, _ = i.run("subscriptions", "get", "tasks")
	lines(t, stdout, "STATE pending (paused)\n", "LIFETIME as long as Graph allows\n", "SINKS none\n")
}

// TestEncodedAnswersAreTheSchema compares what is printed with what was sent.
func TestEncodedAnswersAreTheSchema(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "viewer")
	for i.list[len(i.list)-1].Name < "zz2500" { // more than two pages
		next := i.list[0]
		next.Name = fmt.Sprintf("zz%04d", len(i.list))
		i.list = append(i.list, next)
	}
	for _, c := range []struct {
		args []string
		want any
	}{
		{[]string{"status"}, &i.status},
		{[]string{"subscriptions", "get", "rooms"}, &i.list[1]},
		{[]string{"subscriptions", "list"}, &admin.SubscriptionList{Items: i.list}},
		{[]string{"subscriptions", "list", "--state", "recreating"}, &admin.SubscriptionList{Items: []admin.Subscription{}}},
	} {
		sent, err := json.Marshal(c.want)
		if err != nil {
			t.Fatal(err)
		}
		for format, unmarshal := range map[string]func([]byte, any) error{
			"json": json.Unmarshal,
			"yaml": func(data []byte, v any) error { return yaml.UnmarshalWithOptions(data, v, yaml.UseJSONUnmarshaler()) },
		} {
			code, stdout, stderr := i.run(append(c.args, "-o", format)...)
			got := reflect.New(reflect.TypeOf(c.want).Elem()).Interface()
			if err := unmarshal([]byte(stdout), got); err != nil || code != exitOK || stderr != "" {
				t.Fatalf("%q as %s: %d, %q, %v", c.args, format, code, stderr, err)
			}
			again, err := json.Marshal(got)
			if err != nil || !bytes.Equal(again, sent) {
				t.Errorf("%q as %s is not what was sent, %v", c.args, format, err)
			}
		}
	}
}

func TestClientExitCodes(t *testing.T) {
	t.Parallel()
	good := newInstance(t, "viewer")
	strange := newInstance(t, "owner")
	broken := newInstance(t, "viewer")
	broken.err = graph.ErrStoreUnavailable
	other := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", good.url)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		server, token string
		args          []string
		code          int
		want          string
	}{
		{gone.URL, adminToken, nil, exitUnreachable, "no answer from " + gone.URL},
		{other(502, "<html>"), adminToken, nil, exitUnreachable, "502 Bad Gateway"},
		{other(503, "<html>"), adminToken, nil, exitUnreachable, "503"},
		{good.url, "hunter2-wrong-wrong-wrong", nil, exitDenied, "the token is not one of admin.tokens"},
		{strange.url, adminToken, nil, exitDenied, "it takes viewer"},
		{good.url, adminToken, []string{"subscriptions", "get", "nobody"}, exitNotFound, `there is no subscription named "nobody"`},
		{good.url, adminToken, []string{"subscriptions", "get", "../status"}, exitNotFound, `there is no`},
		{good.url, "", nil, exitUsage, "no admin token given; name a file by --token-file or set GRAPHSUBD_TOKEN"},
		{good.url, "", []string{"status", "--token-file", empty}, exitUsage, "is empty"},
		{good.url, "", []string{"status", "--token-file", empty + "x"}, exitUsage, "no such file"},
		{"localhost:8081", adminToken, nil, exitUsage, "the server is not a URL such as http://127.0.0.1:8081"},
		{"http://me:hunter2@localhost", adminToken, nil, exitUsage, "the server is not a URL"},
		{good.url, adminToken, []string{"subscriptions", "get"}, exitUsage, "takes one name, found none"},
		{good.url, adminToken, []string{"subscriptions", "get", "a", "b"}, exitUsage, `takes one name, found ["a" "b"]`},
		{good.url, adminToken, []string{"subscriptions"}, exitUsage, "no command given"},
		{good.url, adminToken, []string{"subscriptions", "lst"}, exitUsage, "did you mean list or get?"},
		{good.url, adminToken, []string{"subscriptions", "list", "--state", "alive"}, exitUsage, "not one of pending, active"},
		{broken.url, adminToken, nil, exitFailed, "the store gives no answer"},
		{other(200, "<html>"), adminToken, nil, exitFailed, "something else than the admin interface"},
		{other(302, ""), adminToken, nil, exitFailed, "302"},
		{other(404, "no"), adminToken, nil, exitFailed, "404 Not Found; this is not how graphsubd's admin interface answers"},
	} {
		args := c.args
		if args == nil {
			args = []string{"status"}
		}
		code, stdout, stderr := ask(t, map[string]string{serverEnv: c.server, tokenEnv: c.token}, args...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q at %s gives %d, %q, %q, want %d, %q", args, c.server, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestTokenFileAndServerFlagComeFirst(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "viewer")
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(adminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{serverEnv: "http://127.0.0.1:1", tokenEnv: "hunter2-wrong-wrong-wrong"}
	code, _, stderr := ask(t, env, "status", "--server", i.url+"/", "--token-file", path)
	if code != exitOK {
		t.Errorf("%d, %q", code, stderr)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 400 * time.Millisecond: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", -90 * time.Second: "1m30s",
		59*time.Minute + 59*time.Second + 600*time.Millisecond: "1h", 25 * time.Hour: "1d1h", 70*24*time.Hour + time.Minute: "70d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
