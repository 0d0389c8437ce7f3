package config_test

import (
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// TestFaults makes one fault at a time in a valid file.
func TestFaults(t *testing.T) {
	t.Parallel()
	const (
		shopApp  = "  - name: hooks\n"
		endpoint = "      clientSecret: {file: secrets/client}\n"
	)
	for _, test := range []struct {
		name, old, new string
		want           string // The whole line.
	}{
		// Shape.
		{"unknown key", "    tenant: contoso", "    tenat: contoso", `17:5: subscriptions[0]: unknown key "tenat"; did you mean tenant?`},
		{"unknown key, nothing near", "instance: prod", "colour: red\ninstance: prod", `1:1: unknown key "colour"; remove it; known here are instance, publicURL, `},
		{"duplicate key", "instance: prod", "instance: prod\ninstance: test", `2:1: instance: stands twice, first in line 1; keep one`},
		{"number for text", "instance: prod", "instance: 7", `1:11: instance: found a number "7", not text; put it in quotes`},
		{"text for list", "sinks: [archive]", "sinks: archive", `20:12: subscriptions[0].sinks: found text, not a list; write [a, b], or one entry a line after "- "`},
		{"text for mapping", "sqlite: {path: state/graphsubd.db}", "sqlite: state.db", `7:11: store.sqlite: found text, not a mapping; write its keys, indented below it or as {key: value}`},
		{"list for mapping", "    file: {path: events.jsonl}", "    file: [events.jsonl]", `23:11: sinks[0].file: found a list, not a mapping; write its keys`},
		{"mapping for text", "    tenant: contoso", "    tenant: {name: contoso}", `17:13: subscriptions[0].tenant: found a mapping, not text; put it in quotes`},
		{"text for bool", "    tenant: contoso", "    tenant: contoso\n    paused: yes", `18:13: subscriptions[0].paused: found text "yes", not true or false; write true or false, without quotes`},
		{"fraction for whole number", "    tenant: contoso", "    tenant: contoso\n    rotation: 1.5", `18:15: subscriptions[0].rotation: found a number "1.5", not a whole number`},
		{"number too large", "    tenant: contoso", "    tenant: contoso\n    rotation: 18446744073709551615", `18:15: subscriptions[0].rotation: found a number "18446744073709551615", not a whole number`},
		{"duration without unit", "    tenant: contoso", "    tenant: contoso\n    silentAfter: 60", `18:18: subscriptions[0].silentAfter: found a number "60", not a duration; write a number with a unit: 1500ms, 90s, 15m or 24h`},
		{"size with a strange unit", "instance: prod", "receiver: {maxBody: 8MB}", `1:21: receiver.maxBody: found text "8MB", not a size; write a whole number with a unit: 64KiB, 8MiB or 20GiB`},
		{"lifetime of nothing", "    tenant: contoso", "    tenant: contoso\n    lifetime: 0s", `18:15: subscriptions[0].lifetime: found text "0s", not a lifetime; write max, or a duration above zero such as 24h`},
		{"key without value", "instance: prod", "instance:", `1:10: instance: has no value; write one, or remove the key`},
		{"part without value", "    file: {path: events.jsonl}", "    file:", `23:10: sinks[0].file: has no value; write its keys, {} for none of them, or remove it`},
		{"entry without value", "sinks: [archive]", "sinks: [archive, ]\n    changeTypes: [created, ~]", `21:5: subscriptions[0].changeTypes: stands twice, first in line 19; keep one`},
		{"anchor", "instance: prod", "instance: &x prod", `1:11: instance: anchors, aliases and tags are not read; write the value out`},
		{"tag", "instance: prod", "instance: !!str prod", `1:11: instance: anchors, aliases and tags are not read; write the value out`},
		{"second document", "instance: prod", "instance: prod\n---\na: 1\n---", `3:1: holds a second document; keep one document in a file`},
		{"broken syntax", "instance: prod", "instance: \"prod", `1:11: is not YAML: `},
		{"not text", "instance: prod", "instance: \xff", `1:1: is not UTF-8 text; save it as UTF-8`},

		// Secrets.
		{"plain secret", "clientSecret: {file: secrets/client}", "clientSecret: hunter2", `12:21: apps[0].credential.clientSecret: is a secret and does not stand in the configuration; put it in a file or an environment variable and write {file: PATH} or {env: NAME}`},
		{"plain signing key", "  - {env: PREVIOUS_KEY}", "  - hunter2", `5:5: signingKeys[1]: is a secret and does not stand in the configuration; `},
		{"secret as a key", "token: {file: secrets/ops}", "token: {hunter2}", `26:43: admin.tokens[0].token: a secret has no key but file and env; write {file: PATH} or {env: NAME}`},
		{"secret with a value", "clientSecret: {file: secrets/client}", "clientSecret: {value: hunter2}", `12:22: apps[0].credential.clientSecret: a secret has no key but file and env; `},
		{"secret in place of the credential", "credential:\n      clientSecret: {file: secrets/client}", "credential: hunter2", `11:17: apps[0].credential: found text, not a mapping; `},
		{"secret as the variable", "  - {env: PREVIOUS_KEY}", "  - {env: hunter2-plain}", `5:5: signingKeys[1]: env is not the name of an environment variable; write {env: NAME}, the name and not the value`},
		{"secret with two sources", "  - {env: PREVIOUS_KEY}", "  - {env: PREVIOUS_KEY, file: x}", `5:5: signingKeys[1]: names a file and an environment variable; keep one of file and env`},
		{"secret with no source", "  - {env: PREVIOUS_KEY}", "  - {}", `5:5: signingKeys[1]: names neither a file nor an environment variable; write {file: PATH} or {env: NAME}`},
		{"secret left out", "token: {file: secrets/ops}", "token: ", `26:41: admin.tokens[0].token: has no value; write {file: PATH} or {env: NAME}`},
		{"secret's key left out", ", token: {file: secrets/ops}", "", `26:7: admin.tokens[0].token: is missing; write {file: PATH} or {env: NAME}`},
		{"missing secret file", "secrets/client", "secrets/none", `12:21: apps[0].credential.clientSecret: file secrets/none: no such file or directory; put the secret there, readable for this process, or name another place`},
		{"secret file is a directory", "secrets/client", "secrets", `12:21: apps[0].credential.clientSecret: file secrets: is a directory; `},
		{"empty secret file", "secrets/client", "secrets/empty", `12:21: apps[0].credential.clientSecret: file secrets/empty is empty; `},
		{"missing variable", "PREVIOUS_KEY", "NO_KEY", `5:5: signingKeys[1]: environment variable NO_KEY is not set or empty; `},
		{"short signing key", "PREVIOUS_KEY", "SHORT_KEY", `5:5: signingKeys[1]: the key in environment variable SHORT_KEY has 7 bytes; use 32 or more random bytes; one line break at the end does not count`},
		{"signing key twice", "  - {env: PREVIOUS_KEY}", "  - {file: secrets/signing}", `5:5: signingKeys[1]: is the same key as signingKeys[0]; remove one`},
		{"no signing key", "signingKeys:\n  - {file: secrets/signing}\n  - {env: PREVIOUS_KEY}\n", "signingKeys: []\n", `3:14: signingKeys: names no key; name a file with 32 or more random bytes: [{file: PATH}]`},
		{"short token", "secrets/ops", "secrets/short", `26:42: admin.tokens[0].token: the token in file secrets/short is too short or has spaces in it; use 16 or more printable ASCII characters without spaces`},
		{"token twice", "{file: secrets/ops}}\n", "{file: secrets/ops}}\n    - {name: b, role: viewer, token: {file: secrets/ops}}\n", `27:38: admin.tokens[1].token: the token in file secrets/ops is that of ops too; give each name a token of its own`},

		// Names and references.
		{"bad instance", "instance: prod", "instance: Prod_1", `1:11: instance: "Prod_1" is not a name; use 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends`},
		{"name ends in a dash", "name: inbox", "name: inbox-", `16:11: subscriptions[0].name: "inbox-" is not a name; `},
		{"long name", "name: inbox", "name: " + strings.Repeat("x", 64), `16:11: subscriptions[0].name: has 64 characters; `},
		{"no name", "  - name: archive\n    file:", "  - file:", `22:5: sinks[0].name: is missing; `},
		{"name twice", "apps:\n", "apps:\n  - {name: hooks, clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f12, credential: {clientSecret: {env: PREVIOUS_KEY}}}\n", `10:11: apps[1].name: another app is named "hooks", at graphsubd.yaml:9:12; give each app a name of its own`},
		{"unknown app", "app: hooks", "app: other", `14:74: tenants[0].app: no app is named "other"; declared are hooks; declare it, or name a declared app`},
		{"unknown tenant", "    tenant: contoso", "    tenant: contsoo", `17:13: subscriptions[0].tenant: no tenant is named "contsoo"; declared are contoso; did you mean "contoso"?`},
		{"no tenant", "    tenant: contoso\n", "", `16:5: subscriptions[0].tenant: is missing; name a declared tenant`},
		{"unknown sink", "sinks: [archive]", "sinks: [archive, bus]", `20:22: subscriptions[0].sinks[1]: no sink is named "bus"; declared are archive; declare it, or name a declared sink`},
		{"sink twice", "sinks: [archive]", "sinks: [archive, archive]", `20:22: subscriptions[0].sinks[1]: names "archive" twice; name each sink once`},
		{"no sink", "    sinks: [archive]\n", "", `16:5: subscriptions[0].sinks: names no sink, and no sink's filter takes its tenant; name a sink, or give a sink a filter with this tenant`},

		// Values.
		{"publicURL missing", "publicURL: https://hooks.contoso.com/graph/\n", "", `1:1: publicURL: is missing; write an address such as https://host/path`},
		{"publicURL plain", "https://hooks", "http://hooks", `2:12: publicURL: is not https; use https; http is for loopback only`},
		{"publicURL with query", "graph/\n", "graph/?a=hunter2\n", `2:12: publicURL: has a query or a fragment; write the address without ? and #`},
		{"publicURL with password", "https://hooks", "https://x:hunter2@hooks", `2:12: publicURL: has a user or a password in it; `},
		{"publicURL nonsense", "https://hooks.contoso.com/graph/", "hooks:hunter2/x", `2:12: publicURL: is not an address; `},
		{"publicURL ftp", "https://hooks", "ftp://hooks", `2:12: publicURL: does not begin with https:// or http://; `},
		{"address without port", "instance: prod", "listen: {public: {address: localhost}}", `1:28: listen.public.address: "localhost" is not an address with a port; write host:port or :port, such as :8080`},
		{"port too high", "instance: prod", "listen: {public: {address: \":65536\"}}", `1:28: listen.public.address: ":65536" is not an address with a port; `},
		{"address twice", "instance: prod", "listen: {admin: {address: \":9090\"}}", `1:9: listen.telemetry.address: is the address of listen.admin too; give each listener a port of its own`},
		{"small body", "instance: prod", "receiver: {maxBody: 1000}", `1:21: receiver.maxBody: is below 1KiB; write a size such as 8MiB`},
		{"slow ratio of nothing", "instance: prod", "receiver: {marks: {slowRatio: 0}}", `1:31: receiver.marks.slowRatio: is not above 0 and at most 1; write a share such as 0.9`},
		{"slow after nothing", "instance: prod", "receiver: {marks: {slowAfter: 0s}}", `1:31: receiver.marks.slowAfter: is not above zero; write a value above zero`},
		{"bad range", "instance: prod", "receiver: {trustedProxies: [10.0.0.1]}", `1:29: receiver.trustedProxies[0]: "10.0.0.1" is not an address range; write one such as 10.0.0.0/8 or 192.0.2.7/32`},
		{"no store", "  sqlite: {path: state/graphsubd.db}", "  retention: {delivered: 1h}", `7:3: store: has no kind; name exactly one of sqlite, postgres`},
		{"two stores", "db}\n", "db}\n  postgres: {url: {env: URL}}\n", `8:13: store.postgres: is one kind too many beside sqlite; keep exactly one of sqlite, postgres`},
		{"retention of nothing", "db}\n", "db}\n  retention: {audit: 0s}\n", `8:22: store.retention.audit: is not above zero; write a value above zero`},
		{"empty path", "state/graphsubd.db", "\"\"", `7:18: store.sqlite.path: is missing; give it a value`},
		{"two leases", "apps:\n", "lease: {file: {}, kubernetes: {namespace: a, name: b}}\napps:\n", `8:15: lease.file: is one kind too many beside kubernetes; `},
		{"PostgreSQL with a file lock", "  sqlite: {path: state/graphsubd.db}", "  postgres: {url: {env: URL}}\nlease: {file: {path: x}}", `8:15: lease.file: a file lock does not keep other machines off a PostgreSQL database; use lease.kubernetes, or write single: true where only this machine uses the database`},
		{"PostgreSQL without a lease", "  sqlite: {path: state/graphsubd.db}", "  postgres: {url: {env: URL}}", `1:1: lease: names no lease; name kubernetes or file`},
		{"short lease", "apps:\n", "lease: {kubernetes: {namespace: a, name: b, duration: 59s}}\napps:\n", `8:55: lease.kubernetes.duration: is 59s, below the floor of 60s; write 60s or more`},
		{"long lease", "apps:\n", "lease: {kubernetes: {namespace: a, name: b, duration: 11m}}\napps:\n", `8:55: lease.kubernetes.duration: is 11m0s, above the ceiling of 10m; write 10m or less`},
		{"broken lease", "apps:\n", "lease: {kubernetes: {namespace: a, name: b, duration: 60500ms}}\napps:\n", `8:55: lease.kubernetes.duration: is 1m0.5s, and a Lease counts whole seconds; write whole seconds, such as 60s`},
		{"late deadline", "apps:\n", "lease: {kubernetes: {namespace: a, name: b, renewDeadline: 60s}}\napps:\n", `8:60: lease.kubernetes.renewDeadline: is not below duration, which is 1m0s; write two thirds of duration or less`},
		{"slow retry", "apps:\n", "lease: {kubernetes: {namespace: a, name: b, renewDeadline: 12s, retryPeriod: 10s}}\napps:\n", `8:78: lease.kubernetes.retryPeriod: is not above zero and, by a factor of 1.2, below renewDeadline, which is 12s; `},
		{"bad client id", "5C0C1D5E-", "5C0C1D5-", `10:15: apps[0].clientID: "5C0C1D5-6b0b-4c0e-9a53-3c1d3a8e2f11" is not a GUID; write a GUID such as 84bd8158-6d4d-4958-8b9f-9d6445542f95`},
		{"bad tenant id", "84bd8158-6d4d", "84bd8158-6d4g", `14:31: tenants[0].tenantID: "84bd8158-6d4g-4958-8b9f-9d6445542f95" is not a GUID; `},
		{"unknown cloud", shopApp, shopApp + "    cloud: germany\n", `10:12: apps[0].cloud: "germany" is not known; write one of global, usgov-l4, usgov-l5, china`},
		{"no credential", "credential:\n      clientSecret: {file: secrets/client}", "quotaShare: 1", `9:5: apps[0].credential: has no kind; name exactly one of workloadIdentity, managedIdentity, clientSecret, clientCertificate, default`},
		{"two credentials", endpoint, endpoint + "      default: {}\n", `13:16: apps[0].credential.default: is one kind too many beside clientSecret; keep exactly one of clientSecret, default`},
		{"quota of nothing", shopApp, shopApp + "    quotaShare: 0\n", `10:17: apps[0].quotaShare: is not above 0 and at most 1; write a share such as 0.9`},
		{"quota above all", shopApp, shopApp + "    quotaShare: 1.1\n", `10:17: apps[0].quotaShare: is not above 0 and at most 1; `},
		{"plain endpoint", endpoint, endpoint + "    endpoints: {graph: \"http://10.0.0.1\"}\n", `13:24: apps[0].endpoints.graph: is not https; `},
		{"slow time", endpoint, endpoint + "    endpoints: {timeScale: 0.5}\n", `13:28: apps[0].endpoints.timeScale: is below 1; `},
		{"fast time at the real Graph", endpoint, endpoint + "    endpoints: {timeScale: 2}\n", `13:28: apps[0].endpoints.timeScale: is above 1 for the cloud's own Graph, which lives in real time; `},
		{"missing authorities", endpoint, endpoint + "    endpoints: {caFile: ca.pem}\n", `13:25: apps[0].endpoints.caFile: file ca.pem: no such file or directory; `},
		{"strange authorities", endpoint, endpoint + "    endpoints: {caFile: secrets/client}\n", `13:25: apps[0].endpoints.caFile: file secrets/client holds no certificate in PEM; `},
		{"no resource", "    resource: users/1/messages\n", "", `16:5: subscriptions[0].resource: is missing; give it a value`},
		{"resource with host", "resource: users", "resource: https://graph.microsoft.com/v1.0/users", `18:15: subscriptions[0].resource: holds the address or the version of Graph (rule resource-prefix of VERSION); write the path alone, such as users/ID/messages`},
		{"resource with bare host", "resource: users", "resource: Graph.Microsoft.com/users", `18:15: subscriptions[0].resource: holds the address or the version of Graph (rule resource-prefix of VERSION); `},
		{"resource with version", "resource: users", "resource: /v1.0/users", `18:15: subscriptions[0].resource: holds the address or the version of Graph (rule resource-prefix of VERSION); `},
		{"resource with space", "resource: users/1/messages", "resource: \"users/1/messages \"", `18:15: subscriptions[0].resource: has a space at an end or a control character in it (rule resource-text of VERSION); remove it`},
		{"change type that Graph does not have", "resource: users/1/messages", "resource: drives/1/root", `19:19: subscriptions[0].changeTypes[0]: is created, and Graph has only updated for a driveItem (rule change-types of VERSION); leave it out`},
		{"resource for signed-in users", "resource: users/1/messages", "resource: groups/1/conversations", `18:15: subscriptions[0].resource: is a conversation, which Graph offers to signed-in users only; graphsubd is an application (rule delegated-only of VERSION); `},
		{"resource data without $select", "    resource: users/1/messages", "    resource: users/1/messages\n    resourceData: {certificate: mail}", `18:15: subscriptions[0].resource: has no $select, which a message with resource data needs (rule select of VERSION); `},
		{"resource data that Graph does not send", "    resource: users/1/messages", "    resource: users/1\n    resourceData: {certificate: mail}", `19:19: subscriptions[0].resourceData: is asked for, and Graph sends none for a user (rule resource-data of VERSION); remove it`},
		{"no change type", "changeTypes: [created, updated]", "changeTypes: []", `19:18: subscriptions[0].changeTypes: is empty; write one or more of created, updated, deleted`},
		{"unknown change type", "changeTypes: [created, updated]", "changeTypes: [create]", `19:19: subscriptions[0].changeTypes[0]: "create" is not known; write one of created, updated, deleted`},
		{"change type twice", "changeTypes: [created, updated]", "changeTypes: [created, created]", `19:28: subscriptions[0].changeTypes[1]: "created" stands twice; write each once`},
		{"negative silence", "    tenant: contoso", "    tenant: contoso\n    silentAfter: -1s", `18:18: subscriptions[0].silentAfter: is below zero; write 0s to turn it off`},
		{"negative rotation", "    tenant: contoso", "    tenant: contoso\n    rotation: -1", `18:15: subscriptions[0].rotation: is below zero; write 0 or more`},
		{"no kind of sink", "    file: {path: events.jsonl}", "    concurrency: 1", `22:5: sinks[0]: has no kind; name exactly one of webhook, kafka, nats, file`},
		{"webhook without URL", "file: {path: events.jsonl}", "webhook: {secrets: [{file: secrets/hook}]}", `23:14: sinks[0].webhook.url: is missing; write an address such as http://host/path`},
		{"webhook with password", "file: {path: events.jsonl}", "webhook: {url: \"https://x:hunter2@a\", secrets: [{file: secrets/hook}]}", `23:20: sinks[0].webhook.url: has a user or a password in it; `},
		{"webhook to a file", "file: {path: events.jsonl}", "webhook: {url: \"file:///hunter2\", secrets: [{file: secrets/hook}]}", `23:20: sinks[0].webhook.url: is not an address; `},
		{"webhook without secret", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: []}", `23:42: sinks[0].webhook.secrets: is not one secret or two; name one, or two while one replaces the other`},
		{"webhook with three secrets", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: [{file: secrets/hook}, {env: PREVIOUS_KEY}, {file: secrets/signing}]}", `23:42: sinks[0].webhook.secrets: is not one secret or two; `},
		{"webhook with a plain secret", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: [hunter2]}", `23:43: sinks[0].webhook.secrets[0]: is a secret and does not stand in the configuration; `},
		{"webhook with a short secret", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: [{file: secrets/short}]}", `23:43: sinks[0].webhook.secrets[0]: the secret in file secrets/short has a key of 7 bytes; use whsec_ and the output of openssl rand -base64 32, or any other text of 24 bytes or more`},
		{"webhook with a short encoded secret", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: [{file: secrets/shorthook}]}", `23:43: sinks[0].webhook.secrets[0]: the secret in file secrets/shorthook has a key of 7 bytes; `},
		{"webhook with a secret that is no base64", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: [{file: secrets/hook}, {file: secrets/badhook}]}", `23:65: sinks[0].webhook.secrets[1]: the secret in file secrets/badhook has no base64 after whsec_; `},
		{"webhook with a secret twice", "file: {path: events.jsonl}", "webhook: {url: \"https://a\", secrets: [{file: secrets/hook}, {file: secrets/hook}]}", `23:65: sinks[0].webhook.secrets[1]: is the same secret as secrets[0]; remove one`},
		{"no worker", "  - name: archive", "  - name: archive\n    concurrency: 0", `23:18: sinks[0].concurrency: is not between 1 and 1024; `},
		{"no retry", "  - name: archive", "  - name: archive\n    retry: {maxAge: 0s}", `23:21: sinks[0].retry.maxAge: is not above zero; `},
		{"no events", "  - name: archive", "  - name: archive\n    events: []", `23:13: sinks[0].events: is empty; write one or more of changes, gaps, operations`},
		{"unknown role", "role: operator", "role: root", `26:25: admin.tokens[0].role: "root" is not known; write one of viewer, operator, admin`},
		{"unknown level", "instance: prod", "log: {level: trace}", `1:14: log.level: "trace" is not known; write one of debug, info, warn, error`},
		{"unknown format", "instance: prod", "log: {format: tint}", `1:15: log.format: "tint" is not known; write one of auto, text, json`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(valid, test.old) != 1 {
				t.Fatalf("%q stands %d times in the valid file", test.old, strings.Count(valid, test.old))
			}
			_, faults := load(t, map[string]string{"graphsubd.yaml": strings.Replace(valid, test.old, test.new, 1)})
			want := "graphsubd.yaml:" + strings.ReplaceAll(test.want, "VERSION", rulesVersion(t))
			for _, fault := range faults {
				if strings.HasPrefix(fault, want) {
					return
				}
			}
			t.Errorf("got\n%s\nwant\n%s", strings.Join(faults, "\n"), want)
		})
	}
}

// rulesVersion is the date of the table that the rules of resources come from.
func rulesVersion(t *testing.T) string {
	t.Helper()
	rules, err := graph.LoadRules()
	if err != nil {
		t.Fatal(err)
	}
	return rules.Version
}

// TestCloudOfTheTenant takes the cloud from the tenant's app, which may stand
// in another file.
func TestCloudOfTheTenant(t *testing.T) {
	t.Parallel()
	for cloud, want := range map[string]string{
		"global": "",
		"china":  "graphsubd.yaml:19:15: subscriptions[0].resource: is a todoTask, which is in the cloud global only, and the tenant's app is in china (rule cloud of VERSION); remove the subscription",
	} {
		_, faults := load(t, map[string]string{
			"graphsubd.yaml": strings.NewReplacer(
				"apps:\n", "include: [more.yaml]\napps:\n", ", app: hooks}", ", app: other}", "users/1/messages", "users/1/todo/lists/1/tasks",
			).Replace(valid),
			"more.yaml": "apps:\n  - {name: other, cloud: " + cloud + ", clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f12, credential: {clientSecret: {file: secrets/client}}}\n",
		})
		if got := strings.Join(faults, "\n"); got != strings.ReplaceAll(want, "VERSION", rulesVersion(t)) {
			t.Errorf("%s: got %q, want %q", cloud, got, want)
		}
	}
}

// TestNotAvailable turns on what this version does not have, one at a time.
func TestNotAvailable(t *testing.T) {
	t.Parallel()
	const top = "instance: prod"
	for _, test := range []struct{ name, old, new, want string }{
		{"certificates", top, "certificates: [{name: mail, pkcs12: {file: x}}]", `1:15: certificates: `},
		{"resource data", "    tenant: contoso", "    tenant: contoso\n    resourceData: {certificate: mail}\ncertificates: [{name: mail, pkcs12: {file: x}}]\nx:", `18:19: subscriptions[0].resourceData: `},
		{"order", "  - name: archive", "  - name: archive\n    ordered: true", `23:14: sinks[0].ordered: `},
		{"filter", "  - name: archive", "  - name: archive\n    filter: {}", `23:13: sinks[0].filter: `},
		{"Kafka", "file: {path: events.jsonl}", "kafka: {brokers: [\"a:1\"], topic: t}", `23:12: sinks[0].kafka: `},
		{"NATS", "file: {path: events.jsonl}", "nats: {url: \"nats://a\", subject: s}", `23:11: sinks[0].nats: `},
		{"OIDC", "admin:\n", "admin:\n  oidc: {issuer: \"https://a\", audience: b}\n", `25:9: admin.oidc: `},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, faults := load(t, map[string]string{"graphsubd.yaml": strings.Replace(valid, test.old, test.new, 1)})
			found := false
			for _, fault := range faults {
				found = found || strings.HasPrefix(fault, "graphsubd.yaml:"+test.want+"not available in this version; ")
			}
			if !found || len(faults) != 1 && test.name != "resource data" {
				t.Errorf("got\n%s\nwant %s", strings.Join(faults, "\n"), test.want)
			}
		})
	}
}

// TestOffIsAllowed writes what turns nothing on.
func TestOffIsAllowed(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(
		"instance: prod", "instance: prod\nreceiver: {trustedProxies: [], allowedSources: []}\ncertificates:\ninclude: []",
		"    tenant: contoso", "    tenant: contoso\n    silentAfter: 0s",
		"  - name: archive", "  - name: archive\n    ordered: false",
	).Replace(valid)
	if _, faults := load(t, map[string]string{"graphsubd.yaml": text}); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}

func TestTwoSinksOfOneFile(t *testing.T) {
	t.Parallel()
	_, faults := load(t, map[string]string{"graphsubd.yaml": strings.Replace(valid, "sinks:\n  - name: archive", "sinks:\n  - {name: other, file: {path: ./events.jsonl}}\n  - name: archive", 1)})
	if len(faults) != 1 || !strings.Contains(faults[0], "another sink writes to the same file") {
		t.Errorf("faults %v", faults)
	}
}
