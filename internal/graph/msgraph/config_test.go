package msgraph_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
)

func TestValidateReportsEveryFault(t *testing.T) {
	cfg := msgraph.Config{
		Cloud: "germany", Roots: x509.NewCertPool(), Transport: newFake(), CallTimeout: -time.Second,
	}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("it is valid")
	}
	for _, want := range []string{"unknown cloud", "Credential has 0", "Roots or Transport", "CallTimeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestExactlyOneCredential(t *testing.T) {
	fromSecret := func() (string, error) { return secret, nil }
	tests := map[string]struct {
		credential msgraph.Credential
		clientID   string
		valid      bool
	}{
		"secret":                     {msgraph.Credential{ClientSecret: fromSecret}, clientID, true},
		"secret without an app":      {msgraph.Credential{ClientSecret: fromSecret}, "", false},
		"two":                        {msgraph.Credential{ClientSecret: fromSecret, WorkloadIdentity: true}, clientID, false},
		"none":                       {msgraph.Credential{}, clientID, false},
		"managed identity":           {msgraph.Credential{ManagedIdentity: &msgraph.ManagedIdentity{}}, "", true},
		"default chain":              {msgraph.Credential{Default: true}, "", true},
		"workload without an app":    {msgraph.Credential{WorkloadIdentity: true}, "", false},
		"certificate without an app": {msgraph.Credential{ClientCertificate: func() ([]byte, string, error) { return nil, "", nil }}, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := newFake().config()
			cfg.Credential, cfg.ClientID = test.credential, test.clientID
			if err := cfg.Validate(); (err == nil) != test.valid {
				t.Errorf("valid = %v, want %v: %v", err == nil, test.valid, err)
			}
		})
	}
}

func TestMetricsAreSharedAndExistAtZero(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	f := newFake(gone(), reply{status: 204})
	cfg := f.config()
	cfg.Registerer = registry
	first, second := newClient(t, cfg), newClient(t, cfg)
	counts := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				key := family.GetName()
				for _, label := range metric.GetLabel() {
					key += " " + label.GetValue()
				}
				got[key] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
		return got
	}
	before := counts()
	for _, key := range []string{
		"graphsubd_graph_requests_total create none", "graphsubd_graph_requests_total list throttled",
		"graphsubd_graph_request_duration_seconds reauthorize",
	} {
		if value, exists := before[key]; !exists || value != 0 {
			t.Errorf("%s = %v, exists %v", key, value, exists)
		}
	}
	if err := first.Tenant(tenantOne).Delete(t.Context(), idOne); err == nil {
		t.Error("no error")
	}
	if err := second.Tenant(tenantOne).Delete(t.Context(), idOne); err != nil {
		t.Error(err)
	}
	after := counts()
	for key, want := range map[string]float64{
		"graphsubd_graph_requests_total delete gone":      1,
		"graphsubd_graph_requests_total delete none":      1,
		"graphsubd_graph_request_duration_seconds delete": 2,
	} {
		if after[key] != want {
			t.Errorf("%s = %v, want %v", key, after[key], want)
		}
	}
}
