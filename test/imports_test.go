package test_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/graphsubd/graphsubd"

// row says what one package may import. It also holds for the packages below it that have no row of their own.
type row struct {
	path string   // Below the module.
	may  []string // Rows whose packages it may import, besides its own; "*" is all.
	only []string // Prefixes of the modules of others that it may import; nil leaves that to the reservations.
}

// reservation keeps imports with a prefix for one package, so that a heavy or dangerous library has one door.
type reservation struct {
	prefix string
	path   string // The row that may import it.
}

// arrows is the table of docs/architecture.md.
func arrows() []row {
	return []row{
		{path: "cmd/graphsubd", may: []string{"internal/admin", "internal/app", "internal/config", "internal/graph", "internal/graph/graphsim"}},
		{path: "internal/admin", may: []string{"internal/graph"}},
		{path: "internal/app", may: []string{"*"}},
		{path: "internal/config", may: []string{"internal/graph"}},
		{path: "internal/graph", only: []string{}},
		{path: "internal/graph/msgraph", may: []string{"internal/graph"}},
		{path: "internal/graph/graphsim"},
		{path: "internal/notification", only: []string{"github.com/coreos/go-oidc/v3", "github.com/tidwall/gjson"}},
		{path: "internal/store", may: []string{"internal/graph", "internal/notification"}},
		{path: "internal/renewal", may: []string{"internal/graph"}},
		{path: "internal/lease"},
		{path: "internal/delivery", may: []string{"internal/notification"}},
		{path: "internal/httpapi", may: []string{"internal/admin", "internal/graph", "internal/notification"}},
	}
}

func reservations() []reservation {
	return []reservation{
		{"k8s.io/", "internal/lease"},
		{"sigs.k8s.io/", "internal/lease"},
		{"github.com/microsoftgraph/", "internal/graph/msgraph"},
		{"github.com/microsoft/kiota", "internal/graph/msgraph"},
		{"github.com/Azure/azure-sdk-for-go/", "internal/graph/msgraph"},
		{"github.com/go-chi/", "internal/httpapi"},
		{"github.com/danielgtaylor/huma/", "internal/httpapi"},
		{"database/sql", "internal/store"},
		{"modernc.org/", "internal/store"},
		{"github.com/jackc/pgx/", "internal/store"},
		{"github.com/pressly/goose/", "internal/store"},
	}
}

// listed is the part of go list's answer that the checks need.
type listed struct {
	ImportPath string   `json:"ImportPath"`
	Imports    []string `json:"Imports"` // Without those of test files: tests may wire real parts together.
}

// rowOf finds the nearest row at or above a package of this module.
func rowOf(rows []row, importPath string) (row, bool) {
	var best row
	for _, r := range rows {
		full := module + "/" + r.path
		if (importPath == full || strings.HasPrefix(importPath, full+"/")) && len(r.path) > len(best.path) {
			best = r
		}
	}
	return best, best.path != ""
}

func isOurs(importPath string) bool {
	return strings.HasPrefix(importPath, module+"/")
}

// ships says whether a package is one of the program's, not of its tests.
func ships(importPath string) bool {
	return strings.HasPrefix(importPath, module+"/cmd/") || strings.HasPrefix(importPath, module+"/internal/")
}

// wrongArrows lists every import that the table forbids, and every package that it does not know.
func wrongArrows(packages []listed, rows []row, reserved []reservation) []string {
	var wrong []string
	for _, p := range packages {
		if !ships(p.ImportPath) {
			continue
		}
		from, known := rowOf(rows, p.ImportPath)
		if !known {
			wrong = append(wrong, p.ImportPath+" has no row")
			continue
		}
		for _, imported := range p.Imports {
			if why := whyNot(from, imported, rows, reserved); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, why))
			}
		}
	}
	return wrong
}

// whyNot gives the reason why the packages of a row may not import something, or nothing.
func whyNot(from row, imported string, rows []row, reserved []reservation) string {
	if isOurs(imported) {
		to, _ := rowOf(rows, imported)
		if to.path == from.path || to.path != "" && (slices.Contains(from.may, to.path) || slices.Contains(from.may, "*")) {
			return ""
		}
		return "no arrow leads there"
	}
	for _, r := range reserved {
		if strings.HasPrefix(imported, r.prefix) && from.path != r.path {
			return "only " + r.path + " may"
		}
	}
	host, _, _ := strings.Cut(imported, "/")
	ofOthers := strings.Contains(host, ".")
	if from.only != nil && ofOthers && !slices.ContainsFunc(from.only, func(allowed string) bool {
		return imported == allowed || strings.HasPrefix(imported, allowed+"/")
	}) {
		return "it may import the standard library and no more than " + fmt.Sprint(from.only)
	}
	return ""
}

// importersOfTesting lists who imports testing, or a package below it, among all that the program is linked from.
func importersOfTesting(packages []listed) []string {
	imports := make(map[string][]string)
	var todo []string
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
		if strings.HasPrefix(p.ImportPath, module+"/cmd/") {
			todo = append(todo, p.ImportPath)
		}
	}
	var wrong []string
	seen := make(map[string]bool)
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if seen[p] {
			continue
		}
		seen[p] = true
		for _, imported := range imports[p] {
			if imported == "testing" || strings.HasPrefix(imported, "testing/") {
				wrong = append(wrong, p)
			}
		}
		todo = append(todo, imports[p]...)
	}
	return wrong
}

// list asks the go command for this module's packages and all that they import.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var packages []listed
	for decoder := json.NewDecoder(out); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list: %v", err)
	}
	return packages
}

func TestImports(t *testing.T) {
	packages := list(t)
	if !slices.ContainsFunc(packages, func(p listed) bool { return isOurs(p.ImportPath) }) {
		t.Fatal("go list shows no package of this module")
	}
	for _, wrong := range wrongArrows(packages, arrows(), reservations()) {
		t.Error(wrong)
	}
	for _, wrong := range importersOfTesting(packages) {
		t.Errorf("%s imports testing and is part of the program", wrong)
	}
}

// TestWrongArrow plants one import into an otherwise right program and expects it to be found, or not.
func TestWrongArrow(t *testing.T) {
	for _, c := range []struct {
		from, to string
		wrong    bool
	}{
		{"internal/renewal", module + "/internal/graph", false},
		{"internal/renewal", module + "/internal/store", true},
		{"internal/renewal", module + "/internal/graph/msgraph", true},
		{"internal/renewal/heap", module + "/internal/renewal", false},
		{"internal/renewal/heap", module + "/internal/httpapi", true},
		{"internal/renewalx", "fmt", true},
		{"internal/graph", module + "/internal/graph/msgraph", true},
		{"internal/graph", "net/http", false},
		{"internal/graph", "golang.org/x/time/rate", true},
		{"internal/graph/msgraph", "golang.org/x/time/rate", false},
		{"internal/graph/msgraph", "github.com/microsoft/kiota-http-go", false},
		{"internal/graph/graphsim", module + "/internal/graph", true},
		{"internal/notification", "github.com/coreos/go-oidc/v3/oidc", false},
		{"internal/notification", "github.com/coreos/go-oidc/v33", true},
		{"internal/store", module + "/internal/notification", false},
		{"internal/store", "database/sql/driver", false},
		{"internal/delivery/webhook", "database/sql", true},
		{"internal/config", "k8s.io/client-go/rest", true},
		{"internal/app", module + "/internal/lease", false},
		{"internal/app", "github.com/go-chi/chi/v5", true},
		{"internal/admin", module + "/internal/store", true},
		{"internal/admin", "github.com/danielgtaylor/huma/v2", true},
		{"cmd/graphsubd", module + "/internal/admin", false},
		{"cmd/graphsubd", module + "/internal/httpapi", true},
		{"cmd/graphsubd", module + "/internal/lease", true},
		{"cmd/graphsubd", module + "/internal/app", false},
		{"internal/app", module + "/test", true},
		{"test", module + "/internal/lease", false},
	} {
		packages := []listed{
			{ImportPath: module + "/cmd/graphsubd", Imports: []string{"os", module + "/internal/app"}},
			{ImportPath: module + "/" + c.from, Imports: []string{c.to}},
		}
		if got := wrongArrows(packages, arrows(), reservations()); (len(got) > 0) != c.wrong {
			t.Errorf("%s to %s: found %q, wrong is %v", c.from, c.to, got, c.wrong)
		}
	}
}

func TestImportersOfTesting(t *testing.T) {
	packages := []listed{
		{ImportPath: module + "/cmd/graphsubd", Imports: []string{module + "/internal/app"}},
		{ImportPath: module + "/internal/app", Imports: []string{"example.org/a"}},
		{ImportPath: "example.org/a", Imports: []string{"testing/fstest"}},
		{ImportPath: module + "/internal/store/storetest", Imports: []string{"testing"}},
	}
	if got, want := importersOfTesting(packages), []string{"example.org/a"}; !slices.Equal(got, want) {
		t.Errorf("importers of testing are %q, not %q", got, want)
	}
}
