package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/graphsubd/graphsubd/test/harness"
)

// ControlPlane is a running Kubernetes API.
type ControlPlane struct {
	// Admin may do everything.
	Admin *kubernetes.Clientset
	// Address is where the API server listens, as host:port.
	Address string

	dir       string
	ca        authority
	apiServer *process
}

// Start gives a control plane that ends with the test.
func Start(t harness.T) *ControlPlane {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run the tests with make test, or see tools/controlplane/build")
	}
	c := &ControlPlane{dir: t.TempDir()}
	var err error
	if c.ca, err = newAuthority(c.dir); err != nil {
		t.Fatal(err)
	}
	etcd := c.startEtcd(t, filepath.Join(assets, "etcd"))
	c.startAPIServer(t, filepath.Join(assets, "kube-apiserver"), etcd)
	if c.Admin, err = kubernetes.NewForConfig(c.config(t, "admin", "system:masters")); err != nil {
		t.Fatal(err)
	}
	c.apiServer.ready(t, func(ctx context.Context) error {
		return c.Admin.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return c
}

// startEtcd gives the address of its clients.
func (c *ControlPlane) startEtcd(t harness.T, program string) string {
	t.Helper()
	clients, peers := "http://"+harness.FreeAddress(t), "http://"+harness.FreeAddress(t)
	start(t, program,
		"--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	return clients
}

func (c *ControlPlane) startAPIServer(t harness.T, program, etcd string) {
	t.Helper()
	c.Address = harness.FreeAddress(t)
	_, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		t.Fatal(err)
	}
	c.apiServer = start(t, program,
		"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", port,
		"--endpoint-reconciler-type", "none", // it takes no loopback address
		"--cert-dir", c.dir, "--tls-cert-file", c.file("server.crt"), "--tls-private-key-file", c.file("server.key"),
		"--client-ca-file", c.file("ca.crt"), "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", c.file("server.key"), "--service-account-signing-key-file", c.file("server.key"),
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/16")
}

func (c *ControlPlane) file(name string) string { return filepath.Join(c.dir, name) }

// config is how a user of some groups reaches the API server.
func (c *ControlPlane) config(t harness.T, user string, groups ...string) *rest.Config {
	t.Helper()
	certificate, key, err := c.ca.issue(user, groups, false)
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{
		Host: "https://" + c.Address, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.text, CertData: certificate, KeyData: key},
	}
}

// kubeconfig writes a file with which somebody reaches the API server, by way
// of another address when one is given.
func (c *ControlPlane) kubeconfig(t harness.T, as *rest.Config, address string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"test": {Server: "https://" + cmp.Or(address, c.Address), CertificateAuthorityData: as.CAData}},
		AuthInfos: map[string]*api.AuthInfo{"test": {
			Token: as.BearerToken, ClientCertificateData: as.CertData, ClientKeyData: as.KeyData,
		}},
		Contexts:       map[string]*api.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Pause has the API server take connections and answer nothing until Resume.
func (c *ControlPlane) Pause(t harness.T) {
	t.Helper()
	c.apiServer.signal(t, syscall.SIGSTOP)
}

// Resume ends a Pause.
func (c *ControlPlane) Resume(t harness.T) {
	t.Helper()
	c.apiServer.signal(t, syscall.SIGCONT)
}

// startTime bounds the start of a program, on a machine that is busy.
const startTime = 2 * time.Minute

// stopTime is how long a program may take to end before it is killed.
const stopTime = 5 * time.Second

func exited(p *process) error {
	return fmt.Errorf("%s ended: %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
}
