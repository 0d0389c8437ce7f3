package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphsubd/graphsubd/internal/admin"
)

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCommandPage compares docs/cli.md with the command line, both ways: each
// command has a section, and its table has exactly its flags.
func TestCommandPage(t *testing.T) {
	t.Parallel()
	page := readPage(t, "../../docs/cli.md")
	documented := map[string]string{}
	for _, section := range strings.Split(page, "\n### ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		documented[strings.Trim(heading, "`")] = text
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() {
			return
		}
		use := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		text, found := documented[use]
		delete(documented, use)
		if !found {
			t.Errorf("docs/cli.md has no section `%s`", use)
			return
		}
		rows := map[string]bool{}
		for _, row := range regexp.MustCompile("(?m)^\\| `(?:-[a-z], )?--([a-z-]+)").FindAllStringSubmatch(text, -1) {
			rows[row[1]] = true
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "help" && !rows[flag.Name] {
				t.Errorf("`%s` does not show --%s", use, flag.Name)
			}
			delete(rows, flag.Name)
		})
		for name := range rows {
			t.Errorf("`%s` shows --%s, which there is not", use, name)
		}
	}
	walk(newRoot(getenv))
	for use := range documented {
		t.Errorf("docs/cli.md has a section `%s`, which is no command", use)
	}
	for code, want := range map[int]string{
		exitOK: "ok", exitFailed: "failed", exitUsage: "usage", exitUnreachable: "unreachable",
		exitDenied: "denied", exitNotFound: "not found", exitConflict: "conflict",
	} {
		if row := fmt.Sprintf("\n| %d | %s", code, want); !strings.Contains(page, row) {
			t.Errorf("docs/cli.md has no row %q", row)
		}
	}
}

// TestRESTPage reads the example answers of docs/rest.md, which were made by
// running it, into the schema of today.
func TestRESTPage(t *testing.T) {
	t.Parallel()
	page := readPage(t, "../../docs/rest.md")
	for heading, into := range map[string]any{
		"GET /api/v1/status":               &admin.Status{},
		"GET /api/v1/subscriptions":        &admin.SubscriptionList{},
		"GET /api/v1/subscriptions/{name}": &admin.Subscription{},
		"GET /api/v1/plan":                 &admin.Plan{},
		"POST /api/v1/plan/approval":       &admin.Approval{},
	} {
		_, section, found := strings.Cut(page, "\n## "+heading+"\n")
		_, example, _ := strings.Cut(section, "```json\n")
		example, _, _ = strings.Cut(example, "```")
		decoder := json.NewDecoder(strings.NewReader(example))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); !found || err != nil {
			t.Errorf("the example under %q: %v", heading, err)
		}
	}
}
