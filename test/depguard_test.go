package test_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// guard is one rule of depguard.
type guard struct {
	Files []string `yaml:"files"`
	Allow []string `yaml:"allow"`
	Deny  []struct {
		Pkg string `yaml:"pkg"`
	} `yaml:"deny"`
}

// TestDepguardAgrees holds the linter's table to that of arrows, so that an editor and this test say the same.
func TestDepguardAgrees(t *testing.T) {
	text, err := os.ReadFile("../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var lint struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]guard `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal(text, &lint); err != nil {
		t.Fatal(err)
	}
	allowed := make(map[string][]string)
	var reserved []reservation
	for name, g := range lint.Linters.Settings.Depguard.Rules {
		if strings.HasPrefix(name, "arrow-") {
			allowed[folder(g.Files[0])] = g.Allow
		}
		if strings.HasPrefix(name, "only-") {
			for _, d := range g.Deny {
				reserved = append(reserved, reservation{d.Pkg, folder(g.Files[len(g.Files)-1])})
			}
		}
	}
	for _, r := range arrows() {
		if slices.Contains(r.may, "*") {
			continue
		}
		got, want := slices.Sorted(slices.Values(allowed[r.path])), guardFor(r)
		if !slices.Equal(got, want) {
			t.Errorf("%s: depguard allows %q, the table %q", r.path, got, want)
		}
	}
	byPrefix := func(a, b reservation) int { return strings.Compare(a.prefix, b.prefix) }
	slices.SortFunc(reserved, byPrefix)
	if want := slices.SortedFunc(slices.Values(reservations()), byPrefix); !slices.Equal(reserved, want) {
		t.Errorf("depguard reserves %v, the table %v", reserved, want)
	}
}

// folder turns a glob of depguard into the path of a row.
func folder(glob string) string {
	path := strings.TrimPrefix(strings.TrimPrefix(glob, "!"), "${config-path}/")
	return strings.TrimSuffix(strings.TrimRight(path, "*"), "/")
}

// guardFor is what depguard allows the packages of a row, sorted. A "$" ends a path that has other rows below it.
func guardFor(r row) []string {
	var allow []string
	if r.only != nil {
		allow = append(slices.Clone(r.only), "$gostd")
	}
	ours := slices.Clone(r.may)
	if r.path != "internal/graph" && strings.HasPrefix(r.path, "internal/") {
		ours = append(ours, r.path)
	}
	for _, path := range ours {
		full := module + "/" + path
		if path == "internal/graph" {
			full += "$"
		}
		allow = append(allow, full)
	}
	slices.Sort(allow)
	return allow
}
