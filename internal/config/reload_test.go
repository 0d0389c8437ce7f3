package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/config"
)

func TestNeedRestart(t *testing.T) {
	t.Parallel()
	before, faults := load(t, map[string]string{"graphsubd.yaml": valid})
	if len(faults) > 0 {
		t.Fatal(strings.Join(faults, "\n"))
	}
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"instance", "instance: prod", "instance: test", []string{"instance"}},
		{"a resource", "resource: ", "resource: groups/g/members #", nil},
		{"log and instance", "instance: prod", "instance: test\nlog: {level: debug}", []string{"instance", "log"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			after, faults := load(t, map[string]string{"graphsubd.yaml": strings.Replace(valid, test.old, test.new, 1)})
			if len(faults) > 0 {
				t.Fatal(strings.Join(faults, "\n"))
			}
			after.Store, after.Lease, after.SigningKeys = before.Store, before.Lease, before.SigningKeys // other temporary paths
			if got := before.NeedRestart(after); !slices.Equal(got, test.want) {
				t.Errorf("NeedRestart gives %v, want %v", got, test.want)
			}
		})
	}
}

// A password that was rotated is read by the next connection; another server is
// another store.
func TestDatabasePasswordNeedsNoRestart(t *testing.T) {
	t.Parallel()
	at := func(url string) *config.Config {
		return &config.Config{Store: config.Store{Postgres: &config.Postgres{URL: config.NewSecret(url)}}}
	}
	before := at("postgres://u:one@db/x?sslmode=verify-full")
	if got := before.NeedRestart(at("postgres://v:two@db/x?sslmode=verify-full")); got != nil {
		t.Errorf("another password: %v", got)
	}
	for _, other := range []string{"postgres://u:one@other/x?sslmode=verify-full", "postgres://u:one@db/x", "u:one"} {
		if got := before.NeedRestart(at(other)); !slices.Equal(got, []string{"store"}) {
			t.Errorf("%s: %v", other, got)
		}
	}
}
