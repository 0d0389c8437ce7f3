package graphsim

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const graphJSON = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8"

// caller is whom a valid token speaks for.
type caller struct{ app, tenant string }

// Graph serves the subscription calls below /v1.0/.
func (s *Sim) Graph() http.Handler {
	return s.serve(service{name: "graph", route: s.routeGraph, refuse: refuseGraph})
}

// routeGraph names the operation of a request: in Graph's spelling, but for the
// case of the first two segments.
func (s *Sim) routeGraph(r *http.Request) (string, operation) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 2 || !strings.EqualFold(parts[0], "v1.0") || !strings.EqualFold(parts[1], "subscriptions") {
		return s.noRoute(unknownSegment(parts[len(parts)-1]))
	}
	switch {
	case len(parts) == 2:
		return s.routeAll(r.Method)
	case len(parts) == 3:
		return s.routeOne(r.Method, parts[2])
	case len(parts) == 4 && parts[3] == "reauthorize" && r.Method == http.MethodPost:
		return "reauthorize", s.authorized(s.managed(parts[2], s.reauthorize))
	default:
		return s.noRoute(unknownSegment(parts[len(parts)-1]))
	}
}

func (s *Sim) routeAll(method string) (string, operation) {
	switch method {
	case http.MethodPost:
		return "create", s.authorized(s.create)
	case http.MethodGet:
		return "list", s.authorized(s.list)
	default:
		return s.noRoute(wrongMethod())
	}
}

func (s *Sim) routeOne(method, id string) (string, operation) {
	switch method {
	case http.MethodGet:
		return "get", s.authorized(s.managed(id, s.get))
	case http.MethodPatch:
		return "renew", s.authorized(s.managed(id, s.update))
	case http.MethodDelete:
		return "delete", s.authorized(s.managed(id, s.remove))
	default:
		return s.noRoute(wrongMethod())
	}
}

func (s *Sim) noRoute(p *problem) (string, operation) {
	return "other", s.authorized(func(*exchange, caller) (answer, error) { return answer{}, p })
}

// authorized checks the token, the budget and the query before the operation.
func (s *Sim) authorized(op func(*exchange, caller) (answer, error)) operation {
	return func(x *exchange) (answer, error) {
		who, err := s.authenticate(x)
		if err != nil {
			return answer{}, err
		}
		if err := s.spend(x.entry.Operation, who); err != nil {
			return answer{}, err
		}
		for option := range x.request.URL.Query() {
			if strings.HasPrefix(option, "$") && (option != "$skiptoken" || x.entry.Operation != "list") {
				return answer{}, oddQuery()
			}
		}
		return op(x, who)
	}
}

// managed finds the caller's subscription before the operation. Others' do not
// exist for it.
func (s *Sim) managed(id string, op func(*exchange, *subscription) (answer, error)) func(*exchange, caller) (answer, error) {
	return func(x *exchange, who caller) (answer, error) {
		sub, err := s.owned(id, who)
		if err != nil {
			return answer{}, err
		}
		return op(x, sub)
	}
}

func (s *Sim) owned(id string, who caller) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.find(id)
	if err != nil || sub.app != who.app || sub.tenant != who.tenant {
		return nil, gone()
	}
	return sub, nil
}

// refuseGraph writes Graph's envelope. Both spellings of innerError occur.
func refuseGraph(x *exchange, p *problem) (answer, error) {
	inner := map[string]string{
		"date":              x.now.UTC().Format("2006-01-02T15:04:05"),
		"request-id":        x.requestID,
		"client-request-id": x.clientRequestID,
	}
	if p.status == http.StatusTooManyRequests {
		inner["code"] = "429"
	}
	a, err := jsonAnswer(p.status, graphJSON, map[string]any{"error": map[string]any{
		"code": p.code, "message": p.message,
		pick(x.random, "innerError", "innerError", "innererror"): inner,
	}})
	if err == nil && p.retryAfter > 0 {
		a.header.Set("Retry-After", retryAfter(p.retryAfter))
	}
	if err == nil && p.status == http.StatusUnauthorized {
		a.header.Set("WWW-Authenticate", `Bearer realm="", authorization_uri="https://login.microsoftonline.com/common/oauth2/authorize"`)
	}
	return a, err
}

// retryAfter is in whole seconds as a rule; short waits of compressed time need
// the fractions that Graph is known to send too.
func retryAfter(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.Itoa(int(d / time.Second))
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
}
