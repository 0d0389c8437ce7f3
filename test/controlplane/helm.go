package controlplane

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	coordination "k8s.io/api/coordination/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/graphsubd/graphsubd/test/harness"
)

// Chart is the folder of the chart, seen from a test of test/.
const Chart = "../deploy/helm/graphsubd"

// Helm runs helm against this API and gives what it said.
func (c *ControlPlane) Helm(t harness.T, args ...string) string {
	t.Helper()
	said, err := Helm(t, c.kubeconfig(t, c.config(t, "admin", "system:masters"), ""), args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return said
}

// Helm runs helm, and gives what it said also when it fails.
func Helm(t harness.T, kubeconfig string, args ...string) (said string, err error) {
	t.Helper()
	program := os.Getenv("GRAPHSUBD_HELM")
	if program == "" {
		t.Fatal("GRAPHSUBD_HELM is not set: run with make, or see tools/controlplane/build")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home,
		"KUBECONFIG=" + kubeconfig,
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// Install installs the chart as the release graphsubd into a namespace that it
// makes. Nothing runs as a pod here, so it is what the processes of a test
// stand in for.
func (c *ControlPlane) Install(t harness.T, chart, namespace, values string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Helm(t, "install", "graphsubd", chart, "--namespace", namespace, "--create-namespace", "--values", path)
}

// Values are those of a small installation with PostgreSQL, ValuesSQLite of one
// with SQLite.
const (
	Values       = valuesHead + "  store: {postgres: {url: {file: /etc/graphsubd/database/url}}}\n"
	ValuesSQLite = valuesHead
)

const valuesHead = `
secrets: {signing: graphsubd-signing, database: graphsubd-database}
config:
  publicURL: https://hooks.contoso.com/graph
  signingKeys: [{file: /etc/graphsubd/signing/current}]
  apps: [{name: hooks, clientID: 5c0c1d5e-6b0b-4c0e-9a53-3c1d3a8e2f11, credential: {workloadIdentity: {}}}]
  tenants: [{name: contoso, tenantID: 84bd8158-6d4d-4958-8b9f-9d6445542f95, app: hooks}]
`

// ServiceAccount writes a file with which a pod of the release graphsubd would
// reach the API server, by way of another address when one is given.
func (c *ControlPlane) ServiceAccount(t harness.T, namespace, address string) string {
	t.Helper()
	var seconds int64 = 3600
	token, err := c.Admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "graphsubd", &authentication.TokenRequest{
		Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.kubeconfig(t, &rest.Config{
		Host: "https://" + c.Address, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.text}, BearerToken: token.Status.Token,
	}, address)
}

// Revoke takes away what the chart allows, and gives the way back.
func (c *ControlPlane) Revoke(t harness.T, namespace string) (grant func()) {
	t.Helper()
	bindings := c.Admin.RbacV1().RoleBindings(namespace)
	binding, err := bindings.Get(t.Context(), "graphsubd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(t.Context(), "graphsubd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		again := &rbac.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name}, RoleRef: binding.RoleRef, Subjects: binding.Subjects}
		if _, err := bindings.Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// DeleteLease deletes the Lease that the chart made.
func (c *ControlPlane) DeleteLease(t harness.T, namespace string) {
	t.Helper()
	if err := c.Admin.CoordinationV1().Leases(namespace).Delete(t.Context(), "graphsubd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// PutLease puts it back.
func (c *ControlPlane) PutLease(t harness.T, namespace string) {
	t.Helper()
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: "graphsubd"}}
	if _, err := c.Admin.CoordinationV1().Leases(namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Lease reads it.
func (c *ControlPlane) Lease(t harness.T, namespace string) coordination.LeaseSpec {
	t.Helper()
	lease, err := c.Admin.CoordinationV1().Leases(namespace).Get(t.Context(), "graphsubd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease.Spec
}
