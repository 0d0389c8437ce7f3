package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/graphsubd/graphsubd/internal/config"
)

// FuzzLoad asserts that no text makes Load panic, and that what it refuses has
// faults with a place and words.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile(filepath.Join("testdata", "example.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", valid, string(example), "- a", "a: &x [*x]", "<<: {a: 1}", "? [a]\n: b", "---\n---\n", "%YAML 1.2\n---\ninstance: a",
		"instance: !!binary aGk=", "sinks: [{file: {path: \"\\u0000\"}}]", "signingKeys: {file: {file: a}}", "include: [\"[\", \"\", /]",
		"apps:\n- credential: {clientSecret: {file: a, env: B}}\n  quotaShare: .nan", "log: {level: |-\n  info}", "\ufeffinstance: a", "1: 2",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "graphsubd.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, func(string) string { return "" })
		if err == nil {
			if c.PublicURL == "" || len(c.SigningKeys) == 0 {
				t.Error("an incomplete configuration was taken")
			}
			return
		}
		var loadErr *config.LoadError
		if !errors.As(err, &loadErr) || len(loadErr.Faults) == 0 {
			t.Fatalf("%v has no faults", err)
		}
		for _, fault := range loadErr.Faults {
			if fault.Problem == "" || fault.Remedy == "" || fault.File == "" {
				t.Errorf("%#v lacks words", fault)
			}
		}
	})
}
