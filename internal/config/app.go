package config

import (
	"strings"
)

// App is a registration in Entra ID.
type App struct {
	// A DNS-1123 label of at most 63 characters, unique among the apps.
	Name string `yaml:"name" jsonschema:"required,maxLength=63"`
	// Cloud the registration is in: global, usgov-l4, usgov-l5 or china. Default global.
	Cloud string `yaml:"cloud" jsonschema:"enum=global,enum=usgov-l4,enum=usgov-l5,enum=china,default=global"`
	// Application id, a GUID; kept in lower case.
	ClientID string `yaml:"clientID" jsonschema:"required"`
	// How the app proves itself; exactly one kind.
	Credential Credential `yaml:"credential" jsonschema:"required"`
	// Share of Graph's documented limits to use, above 0 and at most 1; lower it where others use the registration too.
	// Default 0.9.
	QuotaShare float64 `yaml:"quotaShare" jsonschema:"exclusiveMinimum=0,maximum=1,default=0.9"`
	// Other addresses than the cloud's own: a simulator, a proxy, a private cloud.
	Endpoints *Endpoints `yaml:"endpoints"`
}

// Credential is how an app proves itself. Exactly one kind is set.
type Credential struct {
	// The token file that a Kubernetes cluster with Entra Workload ID projects.
	WorkloadIdentity *WorkloadIdentity `yaml:"workloadIdentity"`
	// A managed identity of the Azure machine.
	ManagedIdentity *ManagedIdentity `yaml:"managedIdentity"`
	// A client secret.
	ClientSecret *Secret `yaml:"clientSecret"`
	// A client certificate.
	ClientCertificate *ClientCertificate `yaml:"clientCertificate"`
	// What the Azure SDK finds by itself.
	Default *DefaultCredential `yaml:"default"`
}

// AzureCredential is how graphsubd signs in to a service of Azure other than
// Graph. Exactly one kind is set.
type AzureCredential struct {
	// Cloud the service is in: global, usgov-l4, usgov-l5 or china.
	Cloud string `yaml:"cloud" jsonschema:"enum=global,enum=usgov-l4,enum=usgov-l5,enum=china,default=global"`
	// The token file that a Kubernetes cluster with Entra Workload ID projects.
	WorkloadIdentity *WorkloadIdentity `yaml:"workloadIdentity"`
	// A managed identity of the Azure machine.
	ManagedIdentity *ManagedIdentity `yaml:"managedIdentity"`
	// What the Azure SDK finds by itself.
	Default *DefaultCredential `yaml:"default"`
}

// WorkloadIdentity has no settings of its own; write {}.
type WorkloadIdentity struct{}

// DefaultCredential has no settings of its own; write {}.
type DefaultCredential struct{}

// ManagedIdentity is an identity of the Azure machine.
type ManagedIdentity struct {
	// Client id of a user-assigned identity. Default the machine's own identity.
	ClientID string `yaml:"clientID"`
}

// ClientCertificate is a certificate with its private key.
type ClientCertificate struct {
	// PEM or PKCS#12 with certificate and private key.
	Certificate Secret `yaml:"certificate" jsonschema:"required"`
	// Password of the private key. Default none.
	Password *Secret `yaml:"password"`
}

// Endpoints replaces addresses of the cloud.
type Endpoints struct {
	// Graph: https, except on loopback. Default the cloud's own.
	Graph string `yaml:"graph" jsonschema:"format=uri"`
	// Token service: https, except on loopback. Default the cloud's own.
	Login string `yaml:"login" jsonschema:"format=uri"`
	// Authorities that may have signed these servers' certificates, in PEM. Default the system's.
	CAFile string `yaml:"caFile" config:"ca"`
	// How many times faster than real time a simulator lives; 1 or more; above 1 only with graph set. Default 1.
	TimeScale float64 `yaml:"timeScale" jsonschema:"minimum=1,default=1"`
}

// Tenant is a tenant whose resources are watched.
type Tenant struct {
	// A DNS-1123 label of at most 63 characters, unique among the tenants.
	Name string `yaml:"name" jsonschema:"required,maxLength=63"`
	// Tenant id, a GUID; kept in lower case.
	TenantID string `yaml:"tenantID" jsonschema:"required"`
	// Name of the app that has the permissions there.
	App string `yaml:"app" jsonschema:"required"`
}

func (c *AzureCredential) setDefaults() {
	c.Cloud = "global"
}

func (p *App) setDefaults() {
	p.Cloud, p.QuotaShare = "global", 0.9
}

func (e *Endpoints) setDefaults() {
	e.TimeScale = 1
}

func checkCloud(a place, cloud string) {
	checkOneOf(a, cloud, "global", "usgov-l4", "usgov-l5", "china")
}

func (p *App) check(a place) {
	checkCloud(a.key("cloud"), p.Cloud)
	p.ClientID = checkGUID(a.key("clientID"), p.ClientID)
	p.Credential.check(a.key("credential"))
	checkShare(a.key("quotaShare"), p.QuotaShare)
	if p.Endpoints != nil {
		p.Endpoints.check(a.key("endpoints"))
	}
}

func (c *Credential) check(a place) {
	checkOneKind(a,
		kind{"workloadIdentity", c.WorkloadIdentity != nil},
		kind{"managedIdentity", c.ManagedIdentity != nil},
		kind{"clientSecret", c.ClientSecret != nil},
		kind{"clientCertificate", c.ClientCertificate != nil},
		kind{"default", c.Default != nil})
	c.ManagedIdentity.check(a.key("managedIdentity"))
	if cc := c.ClientCertificate; cc != nil {
		cc.Certificate.checkSet(a.key("clientCertificate").key("certificate"))
	}
}

func (c *AzureCredential) check(a place) {
	checkCloud(a.key("cloud"), c.Cloud)
	checkOneKind(a,
		kind{"workloadIdentity", c.WorkloadIdentity != nil},
		kind{"managedIdentity", c.ManagedIdentity != nil},
		kind{"default", c.Default != nil})
	c.ManagedIdentity.check(a.key("managedIdentity"))
}

func (m *ManagedIdentity) check(a place) {
	if m != nil && m.ClientID != "" {
		m.ClientID = checkGUID(a.key("clientID"), m.ClientID)
	}
}

func (e *Endpoints) check(a place) {
	if e.Graph != "" {
		e.Graph = checkBaseURL(a.key("graph"), e.Graph)
	}
	if e.Login != "" {
		e.Login = checkBaseURL(a.key("login"), e.Login)
	}
	switch {
	case !(e.TimeScale >= 1): // NaN is refused too.
		a.key("timeScale").fault("is below 1", "write 1, or how many times faster the simulator lives")
	case e.TimeScale > 1 && strings.TrimSpace(e.Graph) == "":
		a.key("timeScale").fault("is above 1 for the cloud's own Graph, which lives in real time",
			"write 1, or name a simulator in graph")
	}
}

func (t *Tenant) check(a place, n *names) {
	t.TenantID = checkGUID(a.key("tenantID"), t.TenantID)
	n.apps.refer(a.key("app"), t.App)
}
