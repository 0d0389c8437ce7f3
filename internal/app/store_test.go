package app

import (
	"testing"

	"github.com/graphsubd/graphsubd/internal/config"
)

func TestStoreConfigByKind(t *testing.T) {
	for name, c := range map[string]struct {
		credential      *config.AzureCredential
		password, fails bool
	}{
		"a URL alone":        {},
		"managed identity":   {credential: &config.AzureCredential{Cloud: "china", ManagedIdentity: &config.ManagedIdentity{}}, password: true},
		"default":            {credential: &config.AzureCredential{Cloud: "china", Default: &config.DefaultCredential{}}, password: true},
		"no such cloud":      {credential: &config.AzureCredential{Cloud: "mars", Default: &config.DefaultCredential{}}, fails: true},
		"no token projected": {credential: &config.AzureCredential{Cloud: "china", WorkloadIdentity: &config.WorkloadIdentity{}}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "")
			cfg := &config.Config{Store: config.Store{Postgres: &config.Postgres{
				URL: config.NewSecret("postgres://u@h/d"), CAFile: "ca.pem", AzureCredential: c.credential,
			}}}
			settings, err := storeConfig(cfg, "holder")
			if (err != nil) != c.fails {
				t.Fatalf("error %v", err)
			}
			if c.fails {
				return
			}
			if settings.Path != "" || settings.Postgres.CAFile != "ca.pem" || (settings.Postgres.Password != nil) != c.password {
				t.Errorf("settings %+v", settings.Postgres)
			}
			if url, err := settings.Postgres.URL(); err != nil || url != "postgres://u@h/d" {
				t.Errorf("URL %q, %v", url, err)
			}
		})
	}
}
