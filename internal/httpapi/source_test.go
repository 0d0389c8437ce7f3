package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/httpapi"
)

func TestAllowedSources(t *testing.T) {
	ranges := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	proxies, graph := ranges("10.0.0.0/8", "fd00::/8"), ranges("20.20.32.0/19", "2603:1000::/24")
	for _, test := range []struct {
		name      string
		proxies   []netip.Prefix
		allowed   []netip.Prefix
		peer      string
		forwarded []string // header lines
		want      int
	}{
		{"no list", nil, nil, "203.0.113.9:1", nil, 202},
		{"peer in the list", nil, graph, "20.20.33.1:1", nil, 202},
		{"peer not in the list", nil, graph, "203.0.113.9:1", nil, 403},
		{"peer mapped into IPv6", nil, graph, "[::ffff:20.20.33.1]:1", nil, 202},
		{"peer of IPv6", nil, graph, "[2603:1000::1]:1", nil, 202},
		{"a header that nobody vouches for", nil, graph, "203.0.113.9:1", []string{"20.20.33.1"}, 403},
		{"behind a proxy", proxies, graph, "10.1.1.1:1", []string{"20.20.33.1"}, 202},
		{"behind a proxy, with a port", proxies, graph, "10.1.1.1:1", []string{"20.20.33.1:4711"}, 202},
		{"behind a proxy of IPv6", proxies, graph, "[fd00::1]:1", []string{"[2603:1000::1]:4711"}, 202},
		{"behind two proxies", proxies, graph, "10.1.1.1:1", []string{"20.20.33.1, 10.2.2.2"}, 202},
		{"behind two proxies, in two lines", proxies, graph, "10.1.1.1:1", []string{"20.20.33.1", "10.2.2.2"}, 202},
		{"the client invents a hop", proxies, graph, "10.1.1.1:1", []string{"20.20.33.1, 203.0.113.9"}, 403},
		{"not through the proxy", proxies, graph, "203.0.113.9:1", []string{"20.20.33.1"}, 403},
		{"no address", proxies, graph, "10.1.1.1:1", []string{"20.20.33.1, unknown"}, 403},
		{"the proxy itself, no list entry", proxies, graph, "10.1.1.1:1", nil, 403},
		{"the proxy itself, in the list", proxies, proxies, "10.1.1.1:1", nil, 202},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, func(c *httpapi.Config) { c.TrustedProxies, c.AllowedSources = test.proxies, test.allowed })
			for _, handshake := range []bool{false, true} {
				path, want := r.path(), test.want
				if handshake {
					path, want = path+"?validationToken=tok", http.StatusOK
				}
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(collection(r.item(t, nil))))
				request.RemoteAddr = test.peer
				for _, line := range test.forwarded {
					request.Header.Add("X-Forwarded-For", line)
				}
				answer := httptest.NewRecorder()
				r.ServeHTTP(answer, request)
				if answer.Code != want {
					t.Errorf("handshake %v: status %d, want %d", handshake, answer.Code, want)
				}
			}
			if refused := r.verdicts(t, "refused", "forbidden"); refused != float64(map[int]int{403: 1}[test.want]) {
				t.Errorf("%v counted as forbidden", refused)
			}
		})
	}
}
