package test_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/config"
)

// TestExamples holds every configuration below examples/ to what the program
// takes. The secrets that it names are made as its walk-through says.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../examples/*/graphsubd.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	authority, err := os.ReadFile("testdata/authority.pem")
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range examples {
		dir := t.TempDir()
		files := map[string]string{
			"graphsubd.yaml": read(t, example), "ca.pem": string(authority), "client.secret": "any-secret-will-do",
			"signing.key": strings.Repeat("k", 44), "admin.token": strings.Repeat("t", 44),
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), func(string) string { return "" })
		if err != nil {
			t.Errorf("%s: %v", example, err)
			continue
		}
		if warnings := cfg.Warnings(); len(warnings) > 0 {
			t.Errorf("%s: %v", example, warnings)
		}
	}
}
