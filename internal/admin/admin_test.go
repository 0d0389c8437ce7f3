package admin_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph"
)

func wish(name string) graph.Wish {
	return graph.Wish{Name: name, Source: graph.SourceFile, Gen: "new", Tenant: "contoso", Resource: "users/u/messages", Sinks: []string{"bus"}}
}

func TestNewSubscription(t *testing.T) {
	t.Parallel()
	now := time.Now()
	present := graph.Record{Name: "inbox", Gen: "new", Tenant: "contoso", ID: "id2", State: graph.StateActive, CreatedAt: now}
	older := graph.Record{Name: "inbox", Gen: "old", Tenant: "contoso", ID: "id1", State: graph.StateDeleting, CreatedAt: now.Add(-time.Hour)}
	desired := wish("inbox")
	for name, c := range map[string]struct {
		wish     *graph.Wish
		records  []graph.Record
		state    string
		id       string
		replaces []string
	}{
		"a wish alone":              {&desired, nil, "pending", "", nil},
		"the present gen":           {&desired, []graph.Record{present}, "active", "id2", nil},
		"an older gen lives on":     {&desired, []graph.Record{older}, "pending", "", []string{"id1"}},
		"both gens":                 {&desired, []graph.Record{present, older}, "active", "id2", []string{"id1"}},
		"nobody wishes for it":      {nil, []graph.Record{older}, "deleting", "id1", nil},
		"two, and nobody wishes it": {nil, []graph.Record{older, present}, "active", "id2", []string{"id1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := admin.NewSubscription("inbox", c.wish, c.records, admin.Heard{})
			id := ""
			if got.Record != nil {
				id = got.Record.ID
			}
			var replaces []string
			for _, r := range got.Replaces {
				replaces = append(replaces, r.ID)
			}
			if got.State != c.state || id != c.id || !slices.Equal(replaces, c.replaces) || got.Tenant != "contoso" ||
				(got.Wish == nil) != (c.wish == nil) || got.LastNotificationAt != nil || got.LastError != nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestListJoinsByName(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC()
	list := admin.List([]graph.Wish{wish("b"), wish("a")},
		[]graph.Record{{Name: "a", Gen: "new"}, {Name: "c", Gen: "x"}, {Name: "c", Gen: "y"}}, admin.Heard{Last: map[string]time.Time{"a": at}})
	var names []string
	for _, s := range list {
		names = append(names, fmt.Sprintf("%s record=%v last=%v older=%d", s.Name, s.Record != nil, s.LastNotificationAt != nil, len(s.Replaces)))
	}
	if want := []string{"a record=true last=true older=0", "b record=false last=false older=0", "c record=true last=false older=1"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	record := func(name string, state graph.State, id string, expires time.Duration) graph.Record {
		return graph.Record{Name: name, Gen: "new", ID: id, State: state, ExpiresAt: now.Add(expires)}
	}
	status := admin.Status{Backlog: map[string]int64{"bus": 3}, DeadLetters: map[string]int64{}}
	status.Describe(admin.List([]graph.Wish{wish("a"), wish("b"), wish("c"), wish("d")}, []graph.Record{
		record("a", graph.StateActive, "1", 2*time.Hour), record("b", graph.StateActive, "2", time.Hour),
		record("c", graph.StateRecreating, "", time.Minute), record("e", graph.StateDeleting, "3", time.Second),
	}, admin.Heard{}))
	counts := map[string]int64{"pending": 1, "active": 2, "recreating": 1, "parked": 0, "deleting": 1}
	if !reflect.DeepEqual(status.Subscriptions, counts) {
		t.Errorf("counts %v, want %v", status.Subscriptions, counts)
	}
	if status.EarliestExpiry == nil || !status.EarliestExpiry.Equal(now.Add(time.Hour)) {
		t.Errorf("earliest expiry %v", status.EarliestExpiry)
	}
	if status.Backlog["bus"] != 3 || !reflect.DeepEqual(status.DeadLetters, map[string]int64{"bus": 0}) || status.Problems == nil {
		t.Errorf("got %+v", status)
	}
}

func failing(tenant, name string, reason graph.Reason, detail string) admin.Subscription {
	w := wish(name)
	w.Tenant = tenant
	return admin.NewSubscription(name, &w, []graph.Record{{
		Name: name, Gen: "new", State: graph.StateParked, Reason: reason, Detail: detail,
	}}, admin.Heard{})
}

func TestProblemsAreGrouped(t *testing.T) {
	t.Parallel()
	paused := failing("contoso", "p", graph.ReasonForbidden, "")
	paused.Wish.Paused = true
	list := []admin.Subscription{paused, failing("fabrikam", "z", graph.ReasonQuota, "")}
	for i := range 7 {
		list = append(list, failing("contoso", fmt.Sprint("s", i), graph.ReasonForbidden, "Graph answered 403"))
	}
	list = append(list, failing("contoso", "t", graph.ReasonTransient, ""))
	want := []string{
		"tenant contoso|transient|1 subscription (t): Graph did not answer or answered with a passing fault",
		"tenant contoso|forbidden|7 subscriptions (s0, s1, s2, s3, s4, 2 more): Graph answered 403",
		"tenant fabrikam|quota|1 subscription (z): Graph has no room for another subscription",
	}
	var got []string
	for _, p := range admin.Problems(list) {
		got = append(got, p.Subject+"|"+p.Reason+"|"+p.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRemedies names what each remedy must say, for each reason of the set.
func TestRemedies(t *testing.T) {
	t.Parallel()
	words := map[graph.Reason]string{
		graph.ReasonTransient: "network", graph.ReasonThrottled: "quotaShare", graph.ReasonUnauthorized: "credential",
		graph.ReasonForbidden: "permission", graph.ReasonQuota: "delete subscriptions", graph.ReasonGone: "made anew",
		graph.ReasonConflict: "taken over", graph.ReasonInvalid: "changeTypes", graph.ReasonHandshakeFailed: "make publicURL answer",
		graph.ReasonExpiryLimited: "asks for less", graph.ReasonLeaseLost: "leads now", graph.ReasonTermLost: "leads now",
		graph.ReasonStoreUnavailable: "disk", graph.ReasonMassChangeHeld: "configuration", graph.ReasonSilent: "publicURL",
		graph.ReasonUnknown: "report it",
	}
	for _, reason := range graph.Reasons() {
		word, named := words[reason]
		got := failing("contoso", "s", reason, "").LastError
		if !named || got == nil || got.Text == "" || !strings.Contains(got.Remedy, word) {
			t.Errorf("%s: got %+v, want a remedy with %q", reason, got, word)
		}
		if with := failing("contoso", "s", reason, "Graph's words").LastError; with.Text != "Graph's words" {
			t.Errorf("%s: the words of Graph are not shown: %+v", reason, with)
		}
	}
}

// TestStatesAreTheStores holds the enumeration in the schema to the set.
func TestStatesAreTheStores(t *testing.T) {
	t.Parallel()
	states := make([]string, 0, len(graph.States()))
	for _, state := range graph.States() {
		states = append(states, string(state))
	}
	want := strings.Join(states, ",")
	for _, of := range []reflect.Type{reflect.TypeFor[admin.Subscription](), reflect.TypeFor[admin.Record]()} {
		field, found := of.FieldByName("State")
		if got := field.Tag.Get("enum"); !found || got != want {
			t.Errorf("%s enumerates %q, want %q", of, got, want)
		}
	}
}

// A failure says more than silence, which is shown beside it.
func TestSilenceIsAReason(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	w := wish("inbox")
	w.SilentAfter = time.Hour
	heard := admin.Heard{
		Now: now, Receiving: graph.Receiving{Since: now.Add(-9 * time.Hour), At: now},
		Last: map[string]time.Time{"inbox": now.Add(-2 * time.Hour)},
	}
	record := graph.Record{Name: "inbox", Gen: "new", ID: "1", State: graph.StateActive, CreatedAt: now.Add(-8 * time.Hour)}
	got := admin.NewSubscription("inbox", &w, []graph.Record{record}, heard)
	if got.SilentSince == nil || !got.SilentSince.Equal(now.Add(-2*time.Hour)) || got.LastError == nil || got.LastError.Reason != "silent" ||
		got.Record.Reason != "" || got.State != "active" {
		t.Errorf("silent: %+v", got)
	}
	if problems := admin.Problems([]admin.Subscription{got}); len(problems) != 1 || problems[0].Reason != "silent" {
		t.Errorf("problems %+v", problems)
	}
	record.Reason = graph.ReasonThrottled
	if got := admin.NewSubscription("inbox", &w, []graph.Record{record}, heard); got.SilentSince == nil || got.LastError.Reason != "throttled" {
		t.Errorf("silent and throttled: %+v", got)
	}
	heard.Last["inbox"] = now
	record.Reason = ""
	if got := admin.NewSubscription("inbox", &w, []graph.Record{record}, heard); got.SilentSince != nil || got.LastError != nil {
		t.Errorf("not silent: %+v", got)
	}
}
