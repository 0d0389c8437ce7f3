package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/graphsubd/graphsubd/internal/config"
)

const configuration = `instance: prod
publicURL: https://hooks.contoso.com/graph
signingKeys: [{env: SIGNING_KEY}]
store: {sqlite: {path: graphsubd.db}}
apps:
  - {name: hooks, clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11, credential: {clientSecret: {env: CLIENT_SECRET}}}
tenants:
  - {name: contoso, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f95, app: hooks}
subscriptions:
  - {name: inbox, tenant: contoso, resource: users/1/messages, changeTypes: [created], sinks: [archive]}
sinks:
  - {name: archive, file: {path: events.jsonl}}
  - {name: spare, file: {path: "-"}}
`

func getenv(name string) string {
	return map[string]string{
		"SIGNING_KEY":   "hunter2-0123456789abcdef0123456789abcdef",
		"CLIENT_SECRET": "hunter2",
	}[name]
}

// writeConfig returns the path of a new file.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graphsubd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runCommand runs one command line and asserts that it shows no secret.
func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), args, getenv, &out, &errOut)
	if text := out.String() + errOut.String(); strings.Contains(text, "hunter2") {
		t.Errorf("a secret leaks: %s", text)
	}
	return code, out.String(), errOut.String()
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, `no command given; run "graphsubd --help" for the list`},
		{[]string{"chck"}, `unknown command "chck"; did you mean check?`},
		{[]string{"xyz"}, `unknown command "xyz"; run "graphsubd --help" for the list`},
		{[]string{"--bad"}, `unknown flag: --bad; run "graphsubd --help" for the flags`},
		{[]string{"check", "--bad"}, `unknown flag: --bad; run "graphsubd check --help" for the flags`},
		{[]string{"check", "--config"}, `flag needs an argument: --config; run "graphsubd check --help" for the flags`},
		{[]string{"check", "file.yaml"}, `graphsubd check takes no arguments, found "file.yaml"`},
		{[]string{"resources", "users", "groups"}, `graphsubd resources takes one resource, found "groups" too`},
		{[]string{"version", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: not one of table, json, yaml; run "graphsubd version --help" for the flags`},
		{[]string{"completion", "bash", "x"}, `unknown command "x" for "graphsubd completion bash"`},
	} {
		code, stdout, stderr := runCommand(t, test.args...)
		if code != exitUsage || stdout != "" || stderr != "graphsubd: "+test.want+"\n" {
			t.Errorf("%q gives %d, %q, %q, want %d and %q", test.args, code, stdout, stderr, exitUsage, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runCommand(t, "--help")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "\n  check ") || !strings.Contains(stdout, "\n  version ") {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, configuration)
	code, stdout, stderr := runCommand(t, "check", "--config", path)
	want := `CONFIG         ` + path + ` is valid
INSTANCE       prod
PUBLIC URL     https://hooks.contoso.com/graph
TENANTS        1: contoso
SUBSCRIPTIONS  1
SINKS          2: archive, spare
WARNING        ` + path + `:13:12: sink "spare" gets no events: no subscription names it
`
	if code != exitOK || stderr != "" || stdout != want {
		t.Errorf("got %d, %q and\n%s\nwant\n%s", code, stderr, stdout, want)
	}
}

// TestCheckKnowsResources asserts that what Graph would refuse fails the check,
// and that what is odd is shown by it.
func TestCheckKnowsResources(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, strings.Replace(configuration, "users/1/messages", "users/1/events/2", 1))
	code, stdout, stderr := runCommand(t, "check", "-c", path)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "\nWARNING        "+path+":10:46: subscriptions[0].resource: is of no known kind, ") {
		t.Errorf("got %d, %q and\n%s", code, stderr, stdout)
	}
	path = writeConfig(t, strings.Replace(configuration, "users/1/messages", "drives/1/root", 1))
	code, stdout, stderr = runCommand(t, "check", "-c", path)
	if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "graphsubd: "+path+":10:75: subscriptions[0].changeTypes[0]: is created, and Graph has only updated for a driveItem (rule change-types of ") {
		t.Errorf("got %d, %q and\n%s", code, stderr, stdout)
	}
}

func TestCheckEncoded(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, configuration)
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, v any) error { return yaml.UnmarshalWithOptions(data, v, yaml.UseJSONUnmarshaler()) },
	} {
		code, stdout, stderr := runCommand(t, "check", "-c", path, "-o", format)
		var got checkReport
		if err := unmarshal([]byte(stdout), &got); err != nil || code != exitOK || stderr != "" {
			t.Fatalf("%s: %d, %q, %v: %s", format, code, stderr, err, stdout)
		}
		if got.Config != path || got.Instance != "prod" || got.Subscriptions != 1 || len(got.Tenants) != 1 ||
			len(got.Sinks) != 2 || len(got.Warnings) != 1 || got.PublicURL != "https://hooks.contoso.com/graph" {
			t.Errorf("%s gives %+v", format, got)
		}
	}
}

func TestCheckFaults(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("instance: prod", "instnc: prod", "tenant: contoso", "tenant: contsoo").Replace(configuration)
	path := writeConfig(t, text)
	code, stdout, stderr := runCommand(t, "check", "--config", path)
	want := "graphsubd: " + path + ":1:1: unknown key \"instnc\"; did you mean instance?\n" +
		"graphsubd: " + path + ":10:27: subscriptions[0].tenant: no tenant is named \"contsoo\"; declared are contoso; did you mean \"contoso\"?\n"
	if code != exitUsage || stdout != "" || stderr != want {
		t.Errorf("got %d, %q and\n%s\nwant\n%s", code, stdout, stderr, want)
	}
}

func TestCheckWithoutTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.yaml")
	code, stdout, stderr := runCommand(t, "check", "--config", path)
	if want := "graphsubd: " + path + ": no such file or directory; "; code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("got %d, %q, %q, want %q", code, stdout, stderr, want)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runCommand(t, "version", "-o", "json")
	var got buildVersion
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("%d, %q, %v: %s", code, stderr, err, stdout)
	}
	if got.Version == "" || got.Commit == "" || got.Go != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("got %+v", got)
	}
	_, table, _ := runCommand(t, "version")
	if want := "GO        " + runtime.Version() + "\n"; !strings.Contains(table, want) || !strings.HasPrefix(table, "VERSION   "+got.Version+"\n") {
		t.Errorf("got\n%s", table)
	}
}

// failingWriter refuses everything, like a closed pipe.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestUnwritableOutputIsAFailure(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, configuration)
	for _, format := range []string{"table", "json", "yaml"} {
		for _, args := range [][]string{{"version", "-o", format}, {"check", "-c", path, "-o", format}} {
			var stderr bytes.Buffer
			code := run(t.Context(), args, getenv, failingWriter{}, &stderr)
			if code != exitFailed || stderr.String() != "graphsubd: broken pipe\n" {
				t.Errorf("%q gives %d, %q", args, code, stderr.String())
			}
		}
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{usageError(errors.New("x")), 2},
		{&config.LoadError{Faults: []config.Fault{{}}}, 2},
		{fmt.Errorf("x: %w", errUnreachable), 3},
		{fmt.Errorf("x: %w", errDenied), 4},
		{fmt.Errorf("x: %w", errNotFound), 5},
		{errors.Join(errors.New("x"), errConflict), 6},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%v gives %d, want %d", test.err, got, test.want)
		}
	}
	if text := usageError(errors.New("x")).Error(); text != "x" {
		t.Errorf("the class shows in the text: %q", text)
	}
}

func TestStoreBackup(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, configuration)
	to := filepath.Join(t.TempDir(), "copy.db")
	store := filepath.Join(filepath.Dir(config), "graphsubd.db")
	for _, test := range []struct {
		name   string
		before func() error
		args   []string
		code   int
		says   string
	}{
		{"no command", nil, []string{"store"}, exitUsage, `run "graphsubd store --help"`},
		{"no file", nil, []string{"store", "backup", "-c", config}, exitUsage, "--to is missing"},
		{"no store", nil, []string{"store", "backup", "-c", config, "--to", to}, exitFailed, "no such file"},
		{"an empty store", func() error { return os.WriteFile(store, nil, 0o600) }, []string{"store", "backup", "-c", config, "--to", to}, exitOK, to},
		{"twice", nil, []string{"store", "backup", "-c", config, "--to", to}, exitConflict, "exists and is not overwritten"},
	} {
		if test.before != nil {
			if err := test.before(); err != nil {
				t.Fatal(err)
			}
		}
		code, stdout, stderr := runCommand(t, test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.says) {
			t.Errorf("%s: %d, %q, %q", test.name, code, stdout, stderr)
		}
	}
}
