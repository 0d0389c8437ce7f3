package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// callerKey is where the context of a request keeps its caller.
type callerKey struct{}

func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(*caller)
	if who == nil {
		return caller{}
	}
	return *who
}

// record writes one line for each request that came with a right token. What
// came without one is written by authenticate, more rarely.
func (a *Admin) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		answer := middleware.NewWrapResponseWriter(w, req.ProtoMajor)
		// authenticate fills it in; the context that it makes is not seen here.
		who := &caller{}
		ctx := context.WithValue(req.Context(), callerKey{}, who)
		next.ServeHTTP(answer, req.WithContext(ctx))
		if who.name == "" {
			return
		}
		a.log.InfoContext(ctx, "admin request answered", "method", req.Method, "route", routeOf(ctx),
			"http_status", answer.Status(), "caller", who.name, "duration_seconds", time.Since(began).Seconds())
	})
}

// routeOf is the pattern that matched, since a path can hold anything.
func routeOf(ctx context.Context) string {
	if pattern := chi.RouteContext(ctx).RoutePattern(); pattern != "" {
		return pattern
	}
	return "none"
}

// authenticate lets only those through who send a right token.
func (a *Admin) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		token, present := bearerToken(req.Header.Get("Authorization"))
		who, found := a.tokens.find(token, time.Now())
		if !present || !found {
			a.denials.Do(func() {
				a.log.WarnContext(ctx, "admin request without a right token refused", "token_present", present, "remote_address", req.RemoteAddr)
			})
			writeUnauthorized(w, present)
			return
		}
		if kept, ok := ctx.Value(callerKey{}).(*caller); ok {
			*kept = who
		}
		next.ServeHTTP(w, req)
	})
}

func writeUnauthorized(w http.ResponseWriter, present bool) {
	challenge, detail := `Bearer realm="graphsubd"`, "send a token of admin.tokens as Authorization: Bearer TOKEN"
	if present {
		challenge += `, error="invalid_token"`
		detail = "the token is not one of admin.tokens"
	}
	w.Header().Set("WWW-Authenticate", challenge)
	writeProblem(w, http.StatusUnauthorized, detail)
}

// needsViewer guards what is served beside the described routes.
func (a *Admin) needsViewer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if who := callerOf(req.Context()); !who.may(roleViewer) {
			writeProblem(w, http.StatusForbidden, forbidden(roleViewer))
			return
		}
		next.ServeHTTP(w, req)
	})
}

// gate stands before the described routes.
type gate struct{ api huma.API }

// authorize holds callers to the role that stands in the description of the
// route; one that names none is closed.
func (g gate) authorize(request huma.Context, next func(huma.Context)) {
	needed := neededRole(request.Operation())
	if who := callerOf(request.Context()); !who.may(needed) {
		// What cannot be written reaches nobody.
		_ = huma.WriteErr(g.api, request, http.StatusForbidden, forbidden(needed))
		return
	}
	next(request)
}

func neededRole(op *huma.Operation) string {
	for _, requirement := range op.Security {
		for _, role := range requirement[bearer] {
			return role
		}
	}
	return ""
}

func forbidden(needed string) string {
	return "the role of this token does not allow it: it takes " + needed
}
