package msgraph

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// ServiceToken gives tokens for one service of Azure beside Graph, such as a
// database. It is here because azidentity has this one door.
type ServiceToken struct {
	credential azcore.TokenCredential
	scope      string
}

// NewServiceToken takes a workload identity, a managed identity or the default
// chain; the tenant and the application are those that the environment names.
// Login is the origin of the token authority of the cloud that the service is
// in, and scope what the service has a token asked for.
func NewServiceToken(c Credential, login, scope string) (*ServiceToken, error) {
	if c.ClientSecret != nil || c.ClientCertificate != nil {
		return nil, errors.New("a service of Azure takes a workloadIdentity, a managedIdentity or default")
	}
	options := azcore.ClientOptions{Cloud: cloud.Configuration{ActiveDirectoryAuthorityHost: login}}
	made, err := func() (azcore.TokenCredential, error) {
		switch {
		case c.WorkloadIdentity:
			return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options})
		case c.ManagedIdentity != nil:
			return proofMaker{credential: c}.byManagedIdentity()
		case c.Default:
			return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options})
		}
		return nil, errors.New("none is named")
	}()
	if err != nil {
		return nil, fmt.Errorf("azureCredential: %s", clean(err.Error(), ""))
	}
	return &ServiceToken{made, scope}, nil
}

// Token gives a token with some life left; the credential keeps it until then.
// It may be called at any time, by anyone.
func (s *ServiceToken) Token(ctx context.Context) (string, error) {
	token, err := s.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{s.scope}})
	if err != nil {
		return "", tokenFault(err, "")
	}
	return token.Token, nil
}
