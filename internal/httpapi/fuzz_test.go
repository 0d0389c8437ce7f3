package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/httpapi"
)

// FuzzHandshake sends queries to a URL of ours: what is echoed is the decoded
// token, and nothing that a browser could take for markup.
func FuzzHandshake(f *testing.F) {
	for _, seed := range []string{
		"validationToken=a%2Bb%2Fc%3D%3D", "validationToken=a+b", "VALIDATIONTOKEN=%C3%A9", "validationToken=",
		"x=1;y=2&validationToken=t", "validationToken=%", "validationToken=%3Cscript%3E", "validationToken=%00", "a&&=b",
	} {
		f.Add(seed)
	}
	r := newRig(f, nil)
	f.Fuzz(func(t *testing.T, query string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.path(), http.NoBody)
		request.URL.RawQuery = query
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			return
		}
		token := answer.Body.String()
		if token == "" || strings.ContainsAny(token, "<>\x00\n") || !strings.Contains(query, url.QueryEscape(token)) && !strings.ContainsAny(query, "%+&;=") {
			t.Errorf("query %q is answered with %q", query, token)
		}
	})
}

// FuzzForwarded sends a forwarding header through a proxy that is trusted: what
// is no address never counts as an allowed one.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"20.20.33.1", "20.20.33.1, 10.0.0.1", "[::ffff:20.20.33.1]:1", "unknown", ",,", "20.20.33.1%eth0", "fe80::1%eth0"} {
		f.Add(seed)
	}
	r := newRig(f, func(c *httpapi.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		c.AllowedSources = []netip.Prefix{netip.MustParsePrefix("20.20.32.0/19")}
	})
	f.Fuzz(func(t *testing.T, header string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.path(), strings.NewReader(`{"value":[]}`))
		request.RemoteAddr = "10.1.1.1:1"
		request.Header["X-Forwarded-For"] = []string{header}
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, request)
		if answer.Code == http.StatusAccepted && !strings.Contains(header, "20.20.") && !strings.Contains(header, ":") {
			t.Errorf("%q is let in", header)
		}
	})
}
