package app

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// registration is one app and what was read for it.
type registration struct {
	app    config.App
	roots  string // PEM, "" for the system's
	client *msgraph.Client
}

// registrations builds one Graph client for each app. One that stayed the same
// keeps its client, and with it its tokens and connections.
func registrations(cfg *config.Config, former map[string]registration, stamp func() string, logger *slog.Logger, registry prometheus.Registerer) (map[string]registration, error) {
	byApp := map[string]registration{}
	for i := range cfg.Apps {
		app := cfg.Apps[i]
		roots, err := readRoots(app.Endpoints)
		if err != nil {
			return nil, fmt.Errorf("app %s: %w", app.Name, err)
		}
		next := registration{app: app, roots: roots, client: former[app.Name].client}
		if next.client == nil || next.roots != former[app.Name].roots || !reflect.DeepEqual(app, former[app.Name].app) {
			if next.client, err = newClient(&app, roots, stamp, logger, registry); err != nil {
				return nil, fmt.Errorf("app %s: %w", app.Name, err)
			}
		}
		byApp[app.Name] = next
	}
	return byApp, nil
}

func newClient(app *config.App, roots string, stamp func() string, logger *slog.Logger, registry prometheus.Registerer) (*msgraph.Client, error) {
	settings := msgraph.Config{
		Cloud: msgraph.Cloud(app.Cloud), ClientID: app.ClientID, Stamp: stamp, QuotaShare: app.QuotaShare,
		Logger: logger.With("component", "graph", "app", app.Name), Registerer: registry,
	}
	settings.Credential = newCredential(&app.Credential)
	if e := app.Endpoints; e != nil {
		settings.GraphURL, settings.LoginURL, settings.Scale = e.Graph, e.Login, e.TimeScale
	}
	if roots != "" {
		settings.Roots = x509.NewCertPool()
		if !settings.Roots.AppendCertsFromPEM([]byte(roots)) {
			return nil, fmt.Errorf("caFile %s holds no certificate in PEM", app.Endpoints.CAFile)
		}
	}
	return msgraph.New(settings)
}

// newCredential joins the kinds; a checked configuration has exactly one.
func newCredential(c *config.Credential) msgraph.Credential {
	credential := msgraph.Credential{WorkloadIdentity: c.WorkloadIdentity != nil, Default: c.Default != nil}
	if c.ClientSecret != nil {
		credential.ClientSecret = c.ClientSecret.Current
	}
	if c.ManagedIdentity != nil {
		credential.ManagedIdentity = &msgraph.ManagedIdentity{ClientID: c.ManagedIdentity.ClientID}
	}
	if cert := c.ClientCertificate; cert != nil {
		credential.ClientCertificate = func() (data []byte, password string, err error) {
			if data, err = cert.Certificate.CurrentBytes(); err != nil || cert.Password == nil {
				return data, "", err
			}
			password, err = cert.Password.Current()
			return data, password, err
		}
	}
	return credential
}

// readRoots reads the authorities that a private endpoint's certificate comes
// from, "" when none are named.
func readRoots(e *config.Endpoints) (string, error) {
	if e == nil || e.CAFile == "" {
		return "", nil
	}
	pem, err := os.ReadFile(e.CAFile)
	if err != nil {
		return "", fmt.Errorf("read caFile: %w", err)
	}
	return string(pem), nil
}

// tenants joins each tenant with the client of its registration.
func tenants(cfg *config.Config, byApp map[string]registration) []renewal.Tenant {
	apps := map[string]*config.App{}
	for i := range cfg.Apps {
		apps[cfg.Apps[i].Name] = &cfg.Apps[i]
	}
	list := make([]renewal.Tenant, 0, len(cfg.Tenants))
	for _, tenant := range cfg.Tenants {
		app := apps[tenant.App]
		scale := 1.0
		if app.Endpoints != nil {
			scale = app.Endpoints.TimeScale
		}
		list = append(list, renewal.Tenant{
			Name: tenant.Name, App: app.Name, Client: byApp[app.Name].client.Tenant(tenant.TenantID), Skew: byApp[app.Name].client.Skew,
			Scale: scale, QuotaShare: app.QuotaShare,
		})
	}
	return list
}
