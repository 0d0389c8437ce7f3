package msgraph

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// Credential is how the application proves who it is; exactly one field is
// set. The functions are called for every new credential, that is once for
// each tenant and again after a token was refused, so that a rotated secret is
// picked up without a restart.
type Credential struct {
	ClientSecret func() (string, error)
	// ClientCertificate gives a certificate with its private key, as PEM
	// (unencrypted) or as PKCS#12 with its password.
	ClientCertificate func() (data []byte, password string, err error)
	// WorkloadIdentity uses the pod's federated token, whose file the Azure
	// webhook names in the environment.
	WorkloadIdentity bool
	// ManagedIdentity serves its own tenant only.
	ManagedIdentity *ManagedIdentity
	// Default tries what azidentity's default chain tries. It is for
	// development: it may find a person's login, whose tokens are refused.
	Default bool
}

// ManagedIdentity names a user-assigned identity; a ClientID of "" is the
// system-assigned one.
type ManagedIdentity struct {
	ClientID string
}

func (c Credential) validate(clientID string) error {
	set := 0
	for _, given := range []bool{
		c.ClientSecret != nil, c.ClientCertificate != nil, c.WorkloadIdentity,
		c.ManagedIdentity != nil, c.Default,
	} {
		if given {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("Credential has %d of its fields set: it needs exactly one", set)
	case clientID == "" && c.ManagedIdentity == nil && !c.Default:
		return errors.New("ClientID is needed for this credential")
	}
	return nil
}

// proof is a credential bound to one tenant. A credential that spans tenants
// would hold one lock over the token requests of all of them.
type proof struct {
	azcore.TokenCredential
	// secret is what must not appear in an error text; "" when nothing of
	// the credential passes through this package.
	secret string
}

// proofMaker makes the credential of a tenant.
type proofMaker struct {
	credential Credential
	clientID   string
	options    azcore.ClientOptions
	// private says that the login host is not one of Microsoft's, so that
	// there is no instance metadata to ask for.
	private bool
}

func newProofMaker(cfg Config, endpoints Endpoints, client *http.Client) proofMaker {
	return proofMaker{
		credential: cfg.Credential,
		clientID:   cfg.ClientID,
		private:    cfg.LoginURL != "",
		options: azcore.ClientOptions{
			Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: endpoints.Login},
			Retry:     policy.RetryOptions{MaxRetries: -1},
			Telemetry: policy.TelemetryOptions{Disabled: true},
			Transport: client,
		},
	}
}

func (m proofMaker) make(tenantID string) (proof, error) {
	switch {
	case m.credential.ClientSecret != nil:
		return m.bySecret(tenantID)
	case m.credential.ClientCertificate != nil:
		return m.byCertificate(tenantID)
	case m.credential.WorkloadIdentity:
		made, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: m.options, ClientID: m.clientID, TenantID: tenantID, DisableInstanceDiscovery: m.private,
		})
		return proof{TokenCredential: made}, err
	case m.credential.ManagedIdentity != nil:
		return m.byManagedIdentity()
	}
	// The chain may find a credential in the environment that names another
	// tenant, hence the wildcard; the token's own tenant is checked later.
	made, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: m.options, TenantID: tenantID, DisableInstanceDiscovery: m.private,
		AdditionallyAllowedTenants: []string{"*"},
	})
	return proof{TokenCredential: made}, err
}

func (m proofMaker) bySecret(tenantID string) (proof, error) {
	secret, err := m.credential.ClientSecret()
	if err != nil {
		return proof{}, fmt.Errorf("read the client secret: %w", err)
	}
	made, err := azidentity.NewClientSecretCredential(tenantID, m.clientID, secret, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: m.options, DisableInstanceDiscovery: m.private,
	})
	return proof{TokenCredential: made, secret: secret}, err
}

func (m proofMaker) byCertificate(tenantID string) (proof, error) {
	data, password, err := m.credential.ClientCertificate()
	if err != nil {
		return proof{}, fmt.Errorf("read the client certificate: %w", err)
	}
	chain, key, err := azidentity.ParseCertificates(data, []byte(password))
	if err != nil {
		return proof{}, fmt.Errorf("parse the client certificate: %w", err)
	}
	made, err := azidentity.NewClientCertificateCredential(tenantID, m.clientID, chain, key, &azidentity.ClientCertificateCredentialOptions{
		ClientOptions: m.options, DisableInstanceDiscovery: m.private,
	})
	return proof{TokenCredential: made, secret: password}, err
}

func (m proofMaker) byManagedIdentity() (proof, error) {
	options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: m.options}
	if id := m.credential.ManagedIdentity.ClientID; id != "" {
		options.ID = azidentity.ClientID(id)
	}
	made, err := azidentity.NewManagedIdentityCredential(options)
	return proof{TokenCredential: made}, err
}
