package config_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/config"
)

// valid uses every part of this version and nothing else. Faults in the tests
// are made by replacing parts of it.
const valid = `instance: prod
publicURL: https://hooks.contoso.com/graph/
signingKeys:
  - {file: secrets/signing}
  - {env: PREVIOUS_KEY}
store:
  sqlite: {path: state/graphsubd.db}
apps:
  - name: hooks
    clientID: 5C0C1D5E-6b0b-4c0e-9a53-3c1d3a8e2f11
    credential:
      clientSecret: {file: secrets/client}
tenants:
  - {name: contoso, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f95, app: hooks}
subscriptions:
  - name: inbox
    tenant: contoso
    resource: users/1/messages
    changeTypes: [created, updated]
    sinks: [archive]
sinks:
  - name: archive
    file: {path: events.jsonl}
admin:
  tokens:
    - {name: ops, role: operator, token: {file: secrets/ops}}
`

// Values of secrets; no fault and no output may hold one.
const (
	signingValue  = "hunter2-signing-0123456789abcdef0123456789"
	previousValue = "hunter2-previous-0123456789abcdef012345678"
	clientValue   = "hunter2-client"
	tokenValue    = "hunter2-token-0123456789"
)

// writeFiles fills a new directory and returns it.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"secrets/signing": signingValue + "\n",
		"secrets/client":  clientValue + "\r\n",
		"secrets/ops":     tokenValue,
		"secrets/empty":   "\n",
		"secrets/short":   "hunter2",
		"secrets/hook":    "whsec_aHVudGVyMi13ZWJob29rLTAxMjM0NTY3ODlhYmNkZWY=\n",
		"secrets/badhook": "whsec_hunter2-is-no-base64-at-all-0123456789",
		// hunter2 in base64.
		"secrets/shorthook": "whsec_aHVudGVyMg==",
	}
	maps.Copy(all, files)
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func getenv(name string) string {
	return map[string]string{"PREVIOUS_KEY": previousValue, "SHORT_KEY": "hunter2"}[name]
}

// load writes the files, loads graphsubd.yaml and returns the faults with the
// directory removed from them.
func load(t *testing.T, files map[string]string) (*config.Config, []string) {
	t.Helper()
	dir := writeFiles(t, files)
	c, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), getenv)
	if err == nil {
		return c, nil
	}
	if c != nil {
		t.Error("a configuration came back beside the error")
	}
	if _, ok := errors.AsType[*config.LoadError](err); !ok {
		t.Fatalf("%T is not a *config.LoadError", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret leaks: %v", err)
	}
	return nil, strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
}

func TestLoadFillsInDefaults(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"graphsubd.yaml": valid})
	c, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		name      string
		got, want any
	}{
		{"instance", c.Instance, "prod"},
		{"publicURL without its slash", c.PublicURL, "https://hooks.contoso.com/graph"},
		{"public", c.Listen.Public.Address, ":8080"},
		{"admin", c.Listen.Admin.Address, ":8081"},
		{"telemetry", c.Listen.Telemetry.Address, ":9090"},
		{"maxBody", c.Receiver.MaxBody, config.Bytes(8 << 20)},
		{"sqlite beside the file", c.Store.SQLite.Path, filepath.Join(dir, "state/graphsubd.db")},
		{"delivered", c.Store.Retention.Delivered, 72 * time.Hour},
		{"maxBytes", c.Store.Retention.MaxBytes, config.Bytes(20 << 30)},
		{"deadLetters", c.Store.Retention.DeadLetters, 336 * time.Hour},
		{"audit", c.Store.Retention.Audit, 2160 * time.Hour},
		{"backlog rows", c.Store.MaxBacklog.Rows, int64(5_000_000)},
		{"backlog bytes", c.Store.MaxBacklog.Bytes, config.Bytes(8 << 30)},
		{"lease beside the database", c.Lease.File.Path, filepath.Join(dir, "state/graphsubd.db.lease")},
		{"cloud", c.Apps[0].Cloud, "global"},
		{"clientID in lower case", c.Apps[0].ClientID, "5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11"},
		{"quotaShare", c.Apps[0].QuotaShare, 0.9},
		{"lifetime", c.Subscriptions[0].Lifetime, config.LifetimeMax},
		{"events", c.Sinks[0].Events, []string{"changes", "gaps", "operations"}},
		{"concurrency", c.Sinks[0].Concurrency, 32},
		{"maxAge", c.Sinks[0].Retry.MaxAge, 72 * time.Hour},
		{"sink file beside the file", c.Sinks[0].File.Path, filepath.Join(dir, "events.jsonl")},
		{"log level", c.Log.Level, "info"},
		{"log format", c.Log.Format, "auto"},
		{"signing key without its newline", c.SigningKeys[0].Text(), signingValue},
		{"signing key from the environment", c.SigningKeys[1].Text(), previousValue},
		{"client secret without CRLF", c.Apps[0].Credential.ClientSecret.Text(), clientValue},
		{"token", c.Admin.Tokens[0].Token.Text(), tokenValue},
		{"warnings", len(c.Warnings()), 0},
	} {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("%s is %v, want %v", check.name, check.got, check.want)
		}
	}
}

func TestExampleDecodes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c config.Config
	if faults := config.Decode("example.yaml", data, &c); len(faults) > 0 {
		t.Fatal((&config.LoadError{Faults: faults}).Error())
	}
	for _, check := range []struct{ got, want any }{
		{c.SigningKeys[1].File, "/etc/graphsubd/signing/previous"},
		{c.Receiver.MaxBody, config.Bytes(8 << 20)},
		{*c.Lease.Kubernetes, config.KubernetesLease{
			Namespace: "graph", Name: "graphsubd",
			Duration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 1500 * time.Millisecond,
		}},
		{c.Apps[0].Credential.WorkloadIdentity != nil, true},
		{c.Certificates[0].Key.File, "/etc/graphsubd/mail/tls.key"},
		{c.Include, []string{"subscriptions.d/*.yaml"}},
		{c.Subscriptions[0].ImmutableIDs, true},
		{c.Subscriptions[1].ResourceData.Certificate, "mail"},
		{c.Sinks[0].Webhook.Secrets[0].File, "/etc/graphsubd/orders/whsec"},
		{c.Sinks[1].Kafka.SASL.AzureCredential.WorkloadIdentity != nil, true},
		{c.Sinks[1].Kafka.TLS != nil, true},
		{c.Sinks[2].Filter.Types, []string{"Microsoft.Graph.Message*"}},
		{c.Sinks[2].NATS.Credentials.File, "/etc/graphsubd/nats.creds"},
		{c.Admin.OIDC.Audience, "api://graphsubd"},
	} {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("got %v, want %v", check.got, check.want)
		}
	}
}

// TestExampleIsValid asserts that nothing but what this version does not have
// yet stands between the example and a start.
func TestExampleIsValid(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, faults := load(t, map[string]string{"graphsubd.yaml": string(data), "subscriptions.d/more.yaml": ""})
	for _, fault := range faults {
		if !strings.Contains(fault, ": not available in this version; ") {
			t.Errorf("unexpected: %s", fault)
		}
	}
	if len(faults) != 7 {
		t.Errorf("%d faults, want 7:\n%s", len(faults), strings.Join(faults, "\n"))
	}
}

func TestLoadTakesAWebhook(t *testing.T) {
	t.Parallel()
	text := strings.Replace(valid, "file: {path: events.jsonl}",
		`webhook: {url: "http://orders:8080/hooks?x=1", secrets: [{file: secrets/hook}, {env: PREVIOUS_KEY}]}`, 1)
	c, faults := load(t, map[string]string{"graphsubd.yaml": text})
	if len(faults) > 0 {
		t.Fatal(strings.Join(faults, "\n"))
	}
	hook := c.Sinks[0].Webhook
	first, err := hook.Secrets[0].Current()
	if err != nil || !strings.HasPrefix(first, "whsec_") || hook.Secrets[1].Text() != previousValue || hook.URL != "http://orders:8080/hooks?x=1" {
		t.Errorf("%+v, %v", hook, err)
	}
}

func TestLoadReportsAllFaultsByPosition(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(
		"instance: prod", "instnc: prod",
		"clientID: 5C0C1D5E-6b0b-4c0e-9a53-3c1d3a8e2f11", "clientID: 7",
		"tenant: contoso", "tenant: contsoo",
	).Replace(valid)
	_, faults := load(t, map[string]string{"graphsubd.yaml": text})
	want := []string{
		`graphsubd.yaml:1:1: unknown key "instnc"; did you mean instance?`,
		`graphsubd.yaml:10:15: apps[0].clientID: found a number "7", not text; put it in quotes`,
		`graphsubd.yaml:17:13: subscriptions[0].tenant: no tenant is named "contsoo"; declared are contoso; did you mean "contoso"?`,
	}
	if !slices.Equal(faults, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
}

func TestLoadTakesAByteOrderMark(t *testing.T) {
	t.Parallel()
	if _, faults := load(t, map[string]string{"graphsubd.yaml": "\ufeff" + valid}); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}

func TestLoadInKubernetesNeedsALease(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"graphsubd.yaml": valid})
	_, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), func(name string) string {
		if name == "KUBERNETES_SERVICE_HOST" {
			return "10.0.0.1"
		}
		return getenv(name)
	})
	if err == nil || !strings.Contains(err.Error(), "lease: names no lease, and in Kubernetes there is no default") {
		t.Errorf("got %v", err)
	}
}

func TestLoadReadsNoSecretBeforeTheShapeIsRight(t *testing.T) {
	t.Parallel()
	text := strings.Replace(valid, "name: archive\n", "name: archive\n    colour: red\n", 1)
	dir := writeFiles(t, map[string]string{"graphsubd.yaml": text})
	_, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), func(name string) string {
		if name == "PREVIOUS_KEY" {
			t.Error("a secret was read")
		}
		return ""
	})
	if err == nil {
		t.Error("the unknown key was taken")
	}
}

func TestLoadWithoutTheFile(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), getenv)
	if err == nil || !strings.HasSuffix(err.Error(), "none.yaml: no such file or directory; name a file that this process may read") {
		t.Errorf("got %v", err)
	}
}

// TestWarningsOfRules loads what Graph would take, but hardly as it is meant.
func TestWarningsOfRules(t *testing.T) {
	t.Parallel()
	text := strings.Replace(valid, "sinks: [archive]\nsinks:\n", `sinks: [archive]
  - {name: people, tenant: contoso, resource: users, changeTypes: [updated, created], sinks: [archive]}
  - name: mine
    tenant: contoso
    resource: me/messages?$top=5
    changeTypes: [created]
    lifetime: 10m
    sinks: [archive]
sinks:
`, 1)
	dir := writeFiles(t, map[string]string{
		"graphsubd.yaml": strings.Replace(text, "apps:\n", "include: [more.yaml]\napps:\n", 1),
		"more.yaml":      "subscriptions:\n  - {name: odd, tenant: contoso, resource: users/1/events/2, changeTypes: [updated], sinks: [archive]}\n",
	})
	c, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), getenv)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.Join(c.Warnings(), "\n"), dir+"/", "")
	want := strings.ReplaceAll(`graphsubd.yaml:22:77: subscriptions[1].changeTypes[1]: is created, which Graph documents for a user on one page and not on another (rule change-types of VERSION); write updated, deleted; a creation arrives as updated
graphsubd.yaml:25:15: subscriptions[2].resource: begins with me, but an application has no signed-in user for it to stand for (rule me of VERSION); write users/ID/messages
graphsubd.yaml:25:15: subscriptions[2].resource: has $top, which Outlook does not support in a subscription (rule query-options of VERSION); remove it
graphsubd.yaml:27:15: subscriptions[2].lifetime: is 10m, and Graph raises what is below 45m to 45m (rule lifetime of VERSION); write 45m or more, or max
more.yaml:2:44: subscriptions[0].resource: is of no known kind, so it is asked to live for an hour at most (rule unknown-resource of VERSION); watch all of users/1/events; Graph documents no single part of it`,
		"VERSION", rulesVersion(t))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	text := strings.Replace(valid, "sinks: [archive]\nsinks:\n", "sinks: [archive]\nsinks:\n  - {name: spare, file: {path: \"-\"}}\n", 1)
	text = strings.Replace(text, "apps:\n", "include: [more.d/*.yaml]\napps:\n"+
		"  - {name: idle, clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f12, credential: {clientSecret: {file: secrets/client}}}\n", 1)
	dir := writeFiles(t, map[string]string{"graphsubd.yaml": text, "more.d/README": ""})
	c, err := config.Load(filepath.Join(dir, "graphsubd.yaml"), getenv)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.Join(c.Warnings(), "\n"), dir+"/", "")
	want := `graphsubd.yaml:8:11: pattern "more.d/*.yaml" finds no file
graphsubd.yaml:10:12: app "idle" has no tenant
graphsubd.yaml:24:12: sink "spare" gets no events: no subscription names it`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if path := c.Sinks[0].File.Path; path != "-" {
		t.Errorf("standard output became %s", path)
	}
}
