package msgraph

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// fakeSource is a credential that asks nobody.
type fakeSource struct {
	err    error
	scopes []string
}

// GetToken gives the fake token.
func (f *fakeSource) GetToken(_ context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	f.scopes = options.Scopes
	return azcore.AccessToken{Token: "a-token", ExpiresOn: time.Now().Add(time.Hour)}, f.err
}

func TestServiceToken(t *testing.T) {
	source := &fakeSource{}
	s := &ServiceToken{source, "https://service/.default"}
	token, err := s.Token(t.Context())
	if err != nil || token != "a-token" || !slices.Equal(source.scopes, []string{"https://service/.default"}) {
		t.Errorf("token %q for %v, %v", token, source.scopes, err)
	}
	source.err = errors.New("nobody answers")
	if token, err := s.Token(t.Context()); err == nil || token != "" || !strings.Contains(err.Error(), "nobody answers") {
		t.Errorf("token %q, error %v", token, err)
	}
}

func TestServiceTokenCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		credential Credential
		env        string // of the workload identity's webhook
		login      string // the one of a national cloud unless set
		fails      string
	}{
		"workload identity":            {credential: Credential{WorkloadIdentity: true}, env: "set"},
		"a login that is not safe":     {credential: Credential{WorkloadIdentity: true}, env: "set", login: "http://login.invalid", fails: "https"},
		"workload identity without it": {credential: Credential{WorkloadIdentity: true}, fails: "azureCredential"},
		"managed identity":             {credential: Credential{ManagedIdentity: &ManagedIdentity{}}},
		"user-assigned identity":       {credential: Credential{ManagedIdentity: &ManagedIdentity{ClientID: "5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11"}}},
		"default":                      {credential: Credential{Default: true}},
		"none":                         {fails: "none is named"},
		"a secret": {
			credential: Credential{ClientSecret: func() (string, error) { return "s", nil }}, fails: "takes a workloadIdentity",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"} {
				t.Setenv(variable, c.env)
			}
			s, err := NewServiceToken(c.credential, cmp.Or(c.login, "https://login.microsoftonline.us"), "scope")
			switch {
			case c.fails == "" && (err != nil || s == nil):
				t.Errorf("error %v", err)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("error %v, want %s", err, c.fails)
			}
		})
	}
}
