package msgraph_test

import (
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
)

// documented is what Microsoft documents of its clouds.
func documented() map[msgraph.Cloud]msgraph.Endpoints {
	return map[msgraph.Cloud]msgraph.Endpoints{
		msgraph.CloudGlobal: {
			Graph: "https://graph.microsoft.com", Login: "https://login.microsoftonline.com", Scope: "https://graph.microsoft.com/.default",
			Database: "https://ossrdbms-aad.database.windows.net/.default",
		},
		msgraph.CloudUSGovL4: {
			Graph: "https://graph.microsoft.us", Login: "https://login.microsoftonline.us", Scope: "https://graph.microsoft.us/.default",
			Database: "https://ossrdbms-aad.database.usgovcloudapi.net/.default",
		},
		msgraph.CloudUSGovL5: {
			Graph: "https://dod-graph.microsoft.us", Login: "https://login.microsoftonline.us", Scope: "https://dod-graph.microsoft.us/.default",
			Database: "https://ossrdbms-aad.database.usgovcloudapi.net/.default",
		},
		msgraph.CloudChina: {
			Graph: "https://microsoftgraph.chinacloudapi.cn", Login: "https://login.chinacloudapi.cn", Scope: "https://microsoftgraph.chinacloudapi.cn/.default",
			Database: "https://ossrdbms-aad.database.chinacloudapi.cn/.default",
		},
	}
}

func TestEndpointsOf(t *testing.T) {
	if len(msgraph.Clouds()) != len(documented()) {
		t.Fatalf("clouds %v", msgraph.Clouds())
	}
	for _, cloud := range msgraph.Clouds() {
		if got, err := msgraph.EndpointsOf(cloud); err != nil || got != documented()[cloud] {
			t.Errorf("%s: %+v, %v", cloud, got, err)
		}
	}
	if _, err := msgraph.EndpointsOf("germany"); err == nil {
		t.Error("an unknown cloud has endpoints")
	}
}

func TestOverriddenEndpoints(t *testing.T) {
	tests := []struct {
		graph, login string
		want         string // of the error, "" when there is none
	}{
		{"https://127.0.0.1:9443", "https://127.0.0.1:9443/", ""},
		{"https://proxy.invalid", "", ""},
		{"https://graph.microsoft.com", "https://login.microsoftonline.com", ""},
		{"https://graph.microsoft.us", "", "GraphURL https://graph.microsoft.us belongs to another cloud"},
		{"https://DOD-graph.microsoft.us:443/", "", "belongs to another cloud"},
		{"", "https://login.chinacloudapi.cn", "LoginURL https://login.chinacloudapi.cn belongs to another cloud"},
		{"http://127.0.0.1:9443", "", "GraphURL has to be https"},
		{"https://127.0.0.1:9443/v1.0", "", "GraphURL has to be https"},
		{"https://user:pass@127.0.0.1", "", "GraphURL has to be https"},
		{"", "https://login.invalid?x=1", "LoginURL has to be https"},
		{"", "::", "LoginURL has to be https"},
	}
	for _, test := range tests {
		cfg := newFake().config()
		cfg.GraphURL, cfg.LoginURL = test.graph, test.login
		client, err := msgraph.New(cfg)
		if test.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", test, err)
			} else if client.Endpoints().Scope != "https://graph.microsoft.com/.default" {
				t.Errorf("%+v: scope %s", test, client.Endpoints().Scope)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "pass") {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
