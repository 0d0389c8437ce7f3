package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func withInclude(patterns string) string {
	return strings.Replace(valid, "apps:\n", "include: ["+patterns+"]\napps:\n", 1)
}

func TestIncludeAddsEntries(t *testing.T) {
	t.Parallel()
	c, faults := load(t, map[string]string{
		"graphsubd.yaml": withInclude(`"more.d/*.yaml", more.d/a.yaml, "*.yaml"`),
		"more.d/b.yaml":  "subscriptions:\n  - {name: calendar, tenant: fabrikam, resource: users/1/events, changeTypes: [deleted], lifetime: 24h, sinks: [second]}\n",
		"more.d/a.yaml": `apps:
  - {name: other, clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f12, credential: {clientSecret: {file: ../secrets/client}}}
tenants:
  - {name: fabrikam, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f96, app: other}
sinks:
  - {name: second, file: {path: events.jsonl}}
`,
		"more.d/.hidden.yaml": "not: {read",
		"more.d/notes.txt":    "not: {read",
		"more.d/c.yaml":       "",
	})
	if len(faults) > 0 {
		t.Fatal(strings.Join(faults, "\n"))
	}
	if len(c.Apps) != 2 || len(c.Tenants) != 2 || len(c.Subscriptions) != 2 || len(c.Sinks) != 2 {
		t.Fatalf("%d apps, %d tenants, %d subscriptions, %d sinks, want 2 each",
			len(c.Apps), len(c.Tenants), len(c.Subscriptions), len(c.Sinks))
	}
	if got := c.Apps[1].Credential.ClientSecret.Text(); got != clientValue {
		t.Errorf("the included app's secret was not read from beside its file")
	}
	if got := c.Apps[1].Cloud; got != "global" {
		t.Errorf("the included app's cloud is %q", got)
	}
	if got := c.Sinks[1].File.Path; !strings.HasSuffix(got, "/more.d/events.jsonl") {
		t.Errorf("the included sink's path is %s, not beside its file", got)
	}
	if got := c.Subscriptions[1].Lifetime.String(); got != "24h0m0s" {
		t.Errorf("the included subscription's lifetime is %s", got)
	}
}

func TestIncludeFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, patterns string
		files          map[string]string
		want           []string
	}{
		{"main key in it", "a.yaml", map[string]string{"a.yaml": "publicURL: https://x\n"}, []string{
			`a.yaml:1:1: key "publicURL" is not for an included file; move it to the main file; here go apps, tenants, subscriptions, sinks`,
		}},
		{"faults of several files", "b.yaml, a.yaml", map[string]string{
			"a.yaml": "subscriptions:\n  - {name: inbox, tenant: contoso, resource: a, changeTypes: [created], sinks: [archive]}\n",
			"b.yaml": "tenants:\n  - {name: t, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f95, app: hook}\nsinks:\n  - {name: s, file: {paht: x}}\n",
		}, []string{
			`a.yaml:2:12: subscriptions[0].name: another subscription is named "inbox", at graphsubd.yaml:17:11; give each subscription a name of its own`,
			`b.yaml:2:68: tenants[0].app: no app is named "hook"; declared are hooks; did you mean "hooks"?`,
			`b.yaml:4:22: sinks[0].file: unknown key "paht"; did you mean path?`,
		}},
		{"missing file", "none.yaml", nil, []string{
			`none.yaml: no such file or directory; name a file that this process may read`,
		}},
		{"missing directory", `"none.d/*.yaml"`, nil, []string{
			`graphsubd.yaml:8:11: include[0]: directory none.d: no such file or directory; create it, readable for this process, or remove the pattern`,
		}},
		{"wildcard in the directory", `"*/a.yaml"`, nil, []string{
			`graphsubd.yaml:8:11: include[0]: "*/a.yaml" is not a pattern for files of one directory; write one such as subscriptions.d/*.yaml`,
		}},
		{"bad pattern", `"[.yaml"`, nil, []string{
			`graphsubd.yaml:8:11: include[0]: "[.yaml" is not a pattern for files of one directory; write one such as subscriptions.d/*.yaml`,
		}},
		{"broken file", "a.yaml", map[string]string{"a.yaml": "sinks: [hunter2\n"}, []string{
			`a.yaml:1:8: is not YAML: sequence end token ']' not found; correct the syntax at or before this place`,
		}},
		{"not a mapping", "a.yaml", map[string]string{"a.yaml": "- hunter2\n"}, []string{
			`a.yaml:1:1: found a list, not a mapping; write its keys, indented below it or as {key: value}`,
		}},
		{"missing secret", "a.yaml", map[string]string{
			"a.yaml": "apps:\n  - {name: a, clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f12, credential: {clientSecret: {file: none}}}\n",
		}, []string{
			`a.yaml:2:90: apps[0].credential.clientSecret: file none: no such file or directory; put the secret there, readable for this process, or name another place`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"graphsubd.yaml": withInclude(test.patterns)}
			maps.Copy(files, test.files)
			if _, faults := load(t, files); !slices.Equal(faults, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(faults, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestMissingFileHidesNoOtherFault asserts that a reference to a name the
// missing file may declare is not reported beside it, and other faults are.
func TestMissingFileHidesNoOtherFault(t *testing.T) {
	t.Parallel()
	text := strings.Replace(withInclude("none.yaml"), "sinks: [archive]", "sinks: [elsewhere]\n    rotation: -1", 1)
	_, faults := load(t, map[string]string{"graphsubd.yaml": text})
	want := []string{
		`graphsubd.yaml:22:15: subscriptions[0].rotation: is below zero; write 0 or more`,
		`none.yaml: no such file or directory; name a file that this process may read`,
	}
	if !slices.Equal(faults, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
}
