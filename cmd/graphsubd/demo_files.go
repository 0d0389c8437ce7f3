package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// The names of the demo's world. They are made up, and so is the secret.
const (
	demoTenantID = "84bd8158-6d4d-4958-8b9f-9d6445542f95"
	demoClientID = "5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11"
	demoSecret   = "nothing-secret-about-a-demo"
	demoRemoved  = "users/room-7@contoso.com/events"
)

func demoClients() map[string]graphsim.Client {
	return map[string]graphsim.Client{demoClientID: {Secrets: []string{demoSecret}}}
}

// demoFiles are the files that the demo's graphsubd runs on: an ordinary
// configuration, read like any other.
type demoFiles struct{ dir string }

func (f demoFiles) path(name string) string { return filepath.Join(f.dir, name) }

const demoConfig = `instance: demo
publicURL: http://{{.Public}}
listen:
  public: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
  telemetry: {address: "127.0.0.1:0"}
signingKeys: [{file: signing.key}]
store: {sqlite: {path: graphsubd.db}}
apps:
  - name: hooks
    clientID: {{.ClientID}}
    credential: {clientSecret: {file: client.secret}}
    endpoints: {graph: "{{.Sim.Graph}}", login: "{{.Sim.Login}}", caFile: {{.Sim.CAFile}}, timeScale: {{.Sim.TimeScale}}}
tenants:
  - {name: contoso, tenantID: {{.TenantID}}, app: hooks}
subscriptions:
  - name: orders-inbox
    tenant: contoso
    resource: users/orders@contoso.com/mailFolders('inbox')/messages
    changeTypes: [created, updated]
    lifetime: {{.Lifetime}}
    sinks: [console, notices]
  - name: room-calendar
    tenant: contoso
    resource: {{.Removed}}
    changeTypes: [created, updated, deleted]
    lifetime: {{.Lifetime}}
    sinks: [console, notices]
  - name: project-chat
    tenant: contoso
    resource: chats/19:project@thread.v2/messages
    changeTypes: [created]
    lifetime: {{.Lifetime}}
    sinks: [console, notices]
sinks:
  - {name: console, events: [changes], file: {path: "-"}}
  - {name: notices, events: [gaps, operations], file: {path: notices.jsonl}}
`

// write makes the configuration and the secrets that it names.
func (f demoFiles) write(sim graphsim.StartLine, public string) error {
	var text strings.Builder
	err := template.Must(template.New("config").Parse(demoConfig)).Execute(&text, map[string]any{
		"Sim": sim, "Public": public, "ClientID": demoClientID, "TenantID": demoTenantID,
		"Lifetime": demoLifetime, "Removed": demoRemoved,
	})
	if err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	for name, content := range map[string]string{
		"graphsubd.yaml": text.String(), "client.secret": demoSecret,
		"signing.key": base64.StdEncoding.EncodeToString(key),
	} {
		if err := os.WriteFile(f.path(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// listenLoopback binds a free port, so that the public URL is known before
// the configuration is written.
func listenLoopback(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", "127.0.0.1:0")
}
