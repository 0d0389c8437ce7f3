package app

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// clients builds one Graph client for each registration.
func clients(cfg *config.Config, stamp func() string, logger *slog.Logger, registry prometheus.Registerer) (map[string]*msgraph.Client, error) {
	byApp := map[string]*msgraph.Client{}
	for i := range cfg.Apps {
		client, err := newClient(&cfg.Apps[i], stamp, logger, registry)
		if err != nil {
			return nil, fmt.Errorf("app %s: %w", cfg.Apps[i].Name, err)
		}
		byApp[cfg.Apps[i].Name] = client
	}
	return byApp, nil
}

func newClient(app *config.App, stamp func() string, logger *slog.Logger, registry prometheus.Registerer) (*msgraph.Client, error) {
	settings := msgraph.Config{
		Cloud: msgraph.Cloud(app.Cloud), ClientID: app.ClientID, Stamp: stamp,
		Logger: logger.With("component", "graph", "app", app.Name), Registerer: registry,
	}
	settings.Credential = newCredential(&app.Credential)
	if e := app.Endpoints; e != nil {
		settings.GraphURL, settings.LoginURL = e.Graph, e.Login
		if e.CAFile != "" {
			roots, err := readRoots(e.CAFile)
			if err != nil {
				return nil, err
			}
			settings.Roots = roots
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
// from.
func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path) //nolint:gosec // The path is the operator's own setting.
	if err != nil {
		return nil, fmt.Errorf("read caFile: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("caFile %s holds no certificate in PEM", path)
	}
	return roots, nil
}

// tenants joins each tenant with the client of its registration.
func tenants(cfg *config.Config, byApp map[string]*msgraph.Client) []renewal.Tenant {
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
			Name: tenant.Name, App: app.Name, Client: byApp[app.Name].Tenant(tenant.TenantID),
			Scale: scale, QuotaShare: app.QuotaShare,
		})
	}
	return list
}
