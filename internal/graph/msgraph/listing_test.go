package msgraph_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

func page(next string, ids ...string) reply {
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = granted(id, "2030-03-05T04:05:06Z")
	}
	link := ""
	if next != "" {
		link = fmt.Sprintf(`,"@odata.nextLink":%q`, next)
	}
	return reply{status: http.StatusOK, body: `{"value":[` + strings.Join(items, ",") + `]` + link + `}`}
}

func TestListReadsEveryPage(t *testing.T) {
	const next = fakeGraph + "/v1.0/subscriptions?$skiptoken="
	f := newFake(page(next+"AA%2Fb"), page(next+"BB", idOne), page(next+"CC"), page("", idTwo))
	all, err := f.tenant(t).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].ID != idOne || all[1].ID != idTwo {
		t.Errorf("listed %+v", all)
	}
	var got []string
	for _, sent := range f.requests() {
		got = append(got, sent.uri)
	}
	const path = "/v1.0/subscriptions"
	if want := fmt.Sprint([]string{path, path + "?$skiptoken=AA%2Fb", path + "?$skiptoken=BB", path + "?$skiptoken=CC"}); fmt.Sprint(got) != want {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestAnEmptyListingIsNoError(t *testing.T) {
	all, err := newFake(page("")).tenant(t).List(t.Context())
	if err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestAListingThatIsNotWholeIsAnError(t *testing.T) {
	const next = fakeGraph + "/v1.0/subscriptions?$skiptoken="
	tests := map[string][]reply{
		"500 on the second page":   {page(next+"AA", idOne), {status: 500, body: envelope("UnknownError", "")}},
		"no value":                 {{status: 200, body: `{}`}},
		"value is null":            {{status: 200, body: `{"value":null}`}},
		"value is no list":         {{status: 200, body: `{"value":{}}`}},
		"an item is null":          {{status: 200, body: `{"value":[null]}`}},
		"an item has no id":        {{status: 200, body: `{"value":[{}]}`}},
		"empty":                    {{status: 200}},
		"HTML":                     {{status: 200, body: "<html/>"}},
		"foreign host":             {page("https://evil.invalid/v1.0/subscriptions?$skiptoken=AA", idOne)},
		"foreign host as user":     {page("https://graph.invalid@evil.invalid/v1.0/subscriptions", idOne)},
		"foreign host as suffix":   {page("https://graph.invalid.evil.invalid/v1.0/subscriptions", idOne)},
		"plain http":               {page("http://graph.invalid/v1.0/subscriptions", idOne)},
		"another port":             {page("https://graph.invalid:8443/v1.0/subscriptions", idOne)},
		"relative":                 {page("/v1.0/subscriptions?$skiptoken=AA", idOne)},
		"no link":                  {page("::", idOne)},
		"a loop":                   {page(next+"AA", idOne), page(next + "BB"), page(next + "AA")},
		"a page longer than 4 MiB": {{status: 200, body: `{"value":[],"x":"` + strings.Repeat("x", 4<<20) + `"}`}},
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(script...)
			all, err := f.tenant(t).List(t.Context())
			if all != nil {
				t.Errorf("a short list came: %v", all)
			}
			if fault := faultOf(t, err); fault.Operation != graph.OperationList {
				t.Errorf("got %+v", fault)
			}
			if len(f.requests()) != len(script) {
				t.Errorf("%d requests, want %d", len(f.requests()), len(script))
			}
		})
	}
}

func TestAnEndlessListingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for n := range 3000 {
			f.script = append(f.script, page(fmt.Sprintf("%s/v1.0/subscriptions?$skiptoken=%d", fakeGraph, n)))
		}
		_, err := f.tenant(t).List(t.Context())
		if err == nil || len(f.requests()) != 2000 {
			t.Errorf("%d pages, %v", len(f.requests()), err)
		}
	})
}

func TestALinkInAnotherSpellingOfTheOrigin(t *testing.T) {
	f := newFake(page("HTTPS://GRAPH.invalid:443/v1.0/subscriptions?$skiptoken=AA", idOne), page("", idTwo))
	all, err := f.tenant(t).List(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("got %v, %v", all, err)
	}
}

// A long listing keeps to the documented 25 pages in 20 s, and a page that is
// throttled all the same is asked for again.
func TestAListingIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		note := func(*http.Request) { times = append(times, time.Now()) }
		f := newFake()
		for n := range 100 {
			one := page(fmt.Sprintf("%s/v1.0/subscriptions?$skiptoken=%d", fakeGraph, n))
			if n == 99 {
				one = page("", idOne)
			}
			one.before = note
			f.script = append(f.script, one)
			if n == 60 {
				f.script = append(f.script, reply{
					status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "7"},
					body: envelope("TooManyRequests", "Please retry again later."),
				})
			}
		}
		cfg := f.config()
		cfg.Scale = 1
		all, err := newClient(t, cfg).Tenant(tenantOne).List(t.Context())
		if err != nil || len(all) != 1 || len(times) != 100 {
			t.Fatalf("%d pages, %v, %v", len(times), all, err)
		}
		for i := range times {
			within := 0
			for _, at := range times[i:] {
				if at.Sub(times[i]) < 20*time.Second {
					within++
				}
			}
			if within > 25 {
				t.Fatalf("%d pages within 20 s", within)
			}
		}
	})
}
