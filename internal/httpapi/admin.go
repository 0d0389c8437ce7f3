package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/graphsubd/graphsubd/internal/admin"
)

const (
	// adminTimeout bounds what one request may ask of the store.
	adminTimeout = 10 * time.Second
	// denialLogInterval keeps somebody who guesses from filling the log.
	denialLogInterval = 10 * time.Second
)

// reader is where the answers come from. Its methods obey their context, are
// called concurrently and keep no writer waiting.
type reader interface {
	// Status describes this process and the store.
	Status(ctx context.Context) (admin.Status, error)
	// Subscriptions gives all names, wished for or known, in order.
	Subscriptions(ctx context.Context) ([]admin.Subscription, error)
	// Subscription gives one name; found is false when it is neither wished
	// for nor known.
	Subscription(ctx context.Context, name string) (s admin.Subscription, found bool, err error)
	// Plan gives the first steps of what the leader is about to do.
	Plan(ctx context.Context, limit int) (admin.Plan, error)
	// Approve has the leader release what is held, if that is still the set of
	// this id; ok is false when it is not.
	Approve(ctx context.Context, caller, id string) (a admin.Approval, ok bool, err error)
}

// AdminConfig is the configuration of the admin interface.
type AdminConfig struct {
	// Tokens say who may call. Without any, nobody may.
	Tokens []AdminToken
	// Logger gets a line for each request; nil means none.
	Logger *slog.Logger
	// Registerer takes the metrics; nil means that none are exposed.
	Registerer prometheus.Registerer
}

// Admin is the handler of the admin listener. It serves /api/v1/… and
// the schema at /openapi.json and /openapi.yaml, all of it behind a token.
type Admin struct {
	reader  reader
	log     *slog.Logger
	tokens  *tokens
	denials rate.Sometimes
	routes  chi.Router
}

// NewAdmin builds the routes. It logs when no token is configured, since all
// requests are refused then.
func NewAdmin(cfg AdminConfig, reader reader) (*Admin, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	panics, err := newPanics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("admin: register metrics: %w", err)
	}
	a := &Admin{
		reader: reader, log: cfg.Logger, tokens: &tokens{log: cfg.Logger},
		denials: rate.Sometimes{Interval: denialLogInterval}, routes: chi.NewRouter(),
	}
	a.SetTokens(cfg.Tokens)
	// Before anything else, so that an unknown path tells a stranger nothing.
	a.routes.Use(a.record, guard(panics, a.log, func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusInternalServerError, "this is a fault of graphsubd; its log says more")
	}), a.authenticate)
	a.routes.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusNotFound, "there is no such path; /openapi.json lists those there are")
	})
	a.routes.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		takes := http.MethodGet
		if req.URL.Path == approvalPath {
			takes = http.MethodPost
		}
		w.Header().Set("Allow", takes)
		writeProblem(w, http.StatusMethodNotAllowed, "this path takes "+takes+" only")
	})
	api := humachi.New(a.routes, apiConfig())
	api.UseMiddleware(gate{api}.authorize)
	a.register(api)
	return a, a.serveSchema(api)
}

// SetTokens replaces who may call. It may be called while requests are served.
func (a *Admin) SetTokens(list []AdminToken) {
	a.tokens.set(list)
	if len(list) == 0 {
		a.log.Info("no admin token is configured, all admin requests are refused")
	}
}

// ServeHTTP answers one request.
func (a *Admin) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	bounded, cancel := context.WithTimeout(req.Context(), adminTimeout)
	defer cancel()
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	a.routes.ServeHTTP(w, req.WithContext(bounded))
}

// apiConfig describes the interface as a whole. It has neither the library's
// documentation page, which loads from elsewhere, nor its schema links.
func apiConfig() huma.Config {
	cfg := huma.DefaultConfig("graphsubd", "1")
	cfg.Info.Description = "The admin interface of graphsubd. Instants are in UTC, durations in seconds. " +
		"What is not known is left out. Names may be added, so a reader has to ignore those that it does not know."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.RejectUnknownQueryParameters = true
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{bearer: {
		Type: "http", Scheme: bearer, Description: "A token of admin.tokens. What stands beside it is the least role that is needed.",
	}}
	return cfg
}

// serveSchema answers with the description of the routes, made once.
func (a *Admin) serveSchema(api huma.API) error {
	asJSON, err := api.OpenAPI().MarshalJSON()
	asYAML, yamlErr := api.OpenAPI().YAML()
	if err := errors.Join(err, yamlErr); err != nil {
		return fmt.Errorf("admin: describe the routes: %w", err)
	}
	for path, schema := range map[string][]byte{"json": asJSON, "yaml": asYAML} {
		a.routes.With(a.needsViewer).Get("/openapi."+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/openapi+"+path)
			// When the client is gone there is nobody left to tell.
			_, _ = w.Write(schema)
		})
	}
	return nil
}
