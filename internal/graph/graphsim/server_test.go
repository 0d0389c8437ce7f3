package graphsim_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// serve runs a server until the test ends and gives its start line and a client
// that trusts its authority alone.
func serve(t *testing.T, cfg graphsim.Config, sc graphsim.ServerConfig) (*graphsim.Sim, graphsim.StartLine, *http.Client) {
	t.Helper()
	sim, err := graphsim.New(cfg)
	check(t, err)
	sc.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	server, err := graphsim.Listen(t.Context(), sim, sc)
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server did not end")
		}
	})
	ca, err := os.ReadFile(sc.CAFile)
	check(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate in the CA file")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return sim, server.StartLine(), &http.Client{Transport: transport}
}

func TestStartLine(t *testing.T) {
	line, err := json.Marshal(graphsim.StartLine{
		Graph: "https://127.0.0.1:1", Login: "https://127.0.0.1:2", Control: "http://127.0.0.1:3", CAFile: "ca.pem", TimeScale: 1, Seed: 5,
	})
	check(t, err)
	want := `{"graph":"https://127.0.0.1:1","login":"https://127.0.0.1:2","control":"http://127.0.0.1:3","caFile":"ca.pem","timeScale":1,"seed":5}`
	if string(line) != want {
		t.Errorf("got %s", line)
	}
}

// A real client signs in with azidentity, subscribes over TLS and is notified
// over TCP.
func TestServerWithARealClient(t *testing.T) {
	hook := &hook{}
	endpoint := httptest.NewServer(hook)
	defer endpoint.Close()
	for name, sc := range map[string]graphsim.ServerConfig{"one listener": {}, "two listeners": {Login: "localhost:0"}} {
		t.Run(name, func(t *testing.T) {
			sim, line, client := serve(t, graphsim.Config{Seed: 3, Clients: map[string]graphsim.Client{app: {Secrets: []string{secret}}}}, sc)
			if (line.Graph == line.Login) != (sc.Login == "") || line.Seed != 3 || line.TimeScale != 1 || !strings.HasPrefix(line.Graph, "https://") {
				t.Errorf("start line %+v", line)
			}
			token := azureToken(t, line, client, secret)
			body := encode(t, map[string]any{
				"resource": inbox, "changeType": "created", "notificationUrl": endpoint.URL + "/n", "expirationDateTime": in(time.Hour),
			})
			code, answer := call(t, client, http.MethodPost, line.Graph+"/v1.0/subscriptions", token, body)
			if code != http.StatusCreated {
				t.Fatalf("create: %d %s", code, answer)
			}
			if code, answer := call(t, client, http.MethodPost, line.Control+"/sim/v1/notify", "", `{"count":4}`); code != 200 {
				t.Fatalf("notify: %d %s", code, answer)
			}
			for deadline := time.Now().Add(20 * time.Second); sim.Counts().Acknowledged < 4; {
				if time.Now().After(deadline) {
					t.Fatalf("counts %+v", sim.Counts())
				}
				call(t, client, http.MethodGet, line.Control+"/sim/v1/counts", "", "")
			}
			_, answer = call(t, client, http.MethodGet, line.Graph+"/v1.0/subscriptions", token, "")
			if !strings.Contains(answer, line.Graph+"/v1.0/$metadata#subscriptions") {
				t.Errorf("listing %s", answer)
			}
			_, doc := call(t, client, http.MethodGet, line.Login+"/common/v2.0/.well-known/openid-configuration", "", "")
			if !strings.Contains(doc, line.Login+"/{tenantid}/v2.0") {
				t.Errorf("discovery %s", doc)
			}
			check(t, sim.AddFault(graphsim.Fault{Match: "PATCH /v1.0/subscriptions/x", Drop: true}))
			if code, _ := call(t, client, http.MethodPatch, line.Graph+"/v1.0/subscriptions/x", token, "{}"); code != 0 {
				t.Errorf("a dropped connection answered %d", code)
			}
		})
	}
}

func azureCredential(t *testing.T, line graphsim.StartLine, client *http.Client, secret string) *azidentity.ClientSecretCredential {
	t.Helper()
	cred, err := azidentity.NewClientSecretCredential(tenant, app, secret, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: azcore.ClientOptions{
			Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: line.Login + "/"},
			Transport: client, Retry: policy.RetryOptions{MaxRetries: -1},
		},
		DisableInstanceDiscovery: true,
	})
	check(t, err)
	return cred
}

func azureToken(t *testing.T, line graphsim.StartLine, client *http.Client, secret string) string {
	t.Helper()
	token, err := azureCredential(t, line, client, secret).GetToken(t.Context(), policy.TokenRequestOptions{
		Scopes: []string{line.Graph + "/.default"},
	})
	check(t, err)
	return token.Token
}

func TestAzidentitySeesEntrasErrors(t *testing.T) {
	_, line, client := serve(t, graphsim.Config{
		Tenants: []string{tenant}, Clients: map[string]graphsim.Client{app: {Secrets: []string{secret}}},
	}, graphsim.ServerConfig{})
	_, err := azureCredential(t, line, client, "wrong").GetToken(t.Context(), policy.TokenRequestOptions{
		Scopes: []string{"https://graph.microsoft.com/.default"},
	})
	if err == nil || !strings.Contains(err.Error(), "AADSTS7000215") {
		t.Errorf("got %v", err)
	}
}

func TestAzidentityWithACertificate(t *testing.T) {
	key := newRSA(t, 2048)
	cert := selfSigned(t, key)
	_, line, client := serve(t, graphsim.Config{Clients: map[string]graphsim.Client{app: {Certificates: []*x509.Certificate{cert}}}}, graphsim.ServerConfig{})
	cred, err := azidentity.NewClientCertificateCredential(tenant, app, []*x509.Certificate{cert}, key, &azidentity.ClientCertificateCredentialOptions{
		ClientOptions:            azcore.ClientOptions{Cloud: cloud.Configuration{ActiveDirectoryAuthorityHost: line.Login + "/"}, Transport: client},
		DisableInstanceDiscovery: true,
	})
	check(t, err)
	token, err := cred.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://graph.microsoft.com/.default"}})
	check(t, err)
	if code, answer := call(t, client, http.MethodGet, line.Graph+"/v1.0/subscriptions", token.Token, ""); code != 200 {
		t.Errorf("list: %d %s", code, answer)
	}
}

// call gives status and body, 0 where the connection was closed.
func call(t *testing.T, client *http.Client, method, target, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	check(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(raw)
}

func TestListenRefuses(t *testing.T) {
	sim, err := graphsim.New(graphsim.Config{})
	check(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	for name, cfg := range map[string]graphsim.ServerConfig{
		"no CA file":        {},
		"public control":    {CAFile: file, Control: "0.0.0.0:0"},
		"no port":           {CAFile: file, Control: "localhost"},
		"unwritable file":   {CAFile: filepath.Join(file, "x")},
		"impossible listen": {CAFile: file, Graph: "192.0.2.1:1"},
	} {
		if _, err := graphsim.Listen(t.Context(), sim, cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestServerEndsWhenAListenerIsBusy(t *testing.T) {
	sim, err := graphsim.New(graphsim.Config{})
	check(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	first, err := graphsim.Listen(t.Context(), sim, graphsim.ServerConfig{CAFile: file})
	check(t, err)
	address := strings.TrimPrefix(first.StartLine().Control, "http://")
	_, err = graphsim.Listen(t.Context(), sim, graphsim.ServerConfig{CAFile: file, Control: address})
	if err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Run(ctx); err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := graphsim.Listen(t.Context(), sim, graphsim.ServerConfig{CAFile: file, Control: address}); err != nil {
		t.Errorf("the address is still taken: %v", err)
	}
}
