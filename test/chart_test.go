package test_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/graphsubd/graphsubd/test/controlplane"
	"github.com/graphsubd/graphsubd/test/harness"
)

// testChart installs, upgrades, rolls back and uninstalls the chart while
// somebody leads by its Lease.
func (c *cluster) testChart(t *testing.T) {
	t.Parallel()
	c.Helm(t, "lint", "--strict", controlplane.Chart, "--values", valuesFile(t, controlplane.Values))
	_, err := c.Admin.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: c.namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Install(t, controlplane.Chart, c.namespace, controlplane.Values)
	deployment := c.deployment(t)
	if *deployment.Spec.Replicas != 2 {
		t.Errorf("%d replicas with PostgreSQL", *deployment.Spec.Replicas)
	}
	c.admits(t, deployment.Spec.Template)
	c.allowsLittle(t)

	leader := c.contend(t)
	next(t, 10*time.Second, "one leads", leader.began)
	before := c.Lease(t, c.namespace)
	// Only what a running process cannot take over restarts the pods.
	c.upgrade(t, controlplane.Values, "--set-json", `config.subscriptions=[{"name": "inbox", "tenant": "contoso", "resource": "users/u/messages", "changeTypes": ["created"]}]`)
	if after := c.deployment(t); !reflect.DeepEqual(after.Spec.Template, deployment.Spec.Template) {
		t.Error("another subscription restarts the pods")
	}
	c.upgrade(t, controlplane.Values, "--set", "config.receiver.maxBody=4MiB,replicas=3,image.tag=next")
	if after := c.deployment(t); *after.Spec.Replicas != 3 || reflect.DeepEqual(after.Spec.Template, deployment.Spec.Template) {
		t.Error("the upgrade changed nothing")
	}
	c.Helm(t, "rollback", "graphsubd", "1", "--namespace", c.namespace)
	if after := c.deployment(t); *after.Spec.Replicas != 2 || !reflect.DeepEqual(after.Spec.Template, deployment.Spec.Template) {
		t.Error("the rollback did not put back what was")
	}
	after := c.Lease(t, c.namespace)
	if *after.HolderIdentity != *before.HolderIdentity || *after.LeaseTransitions != *before.LeaseTransitions || !after.AcquireTime.Equal(before.AcquireTime) {
		t.Errorf("the lease went from %+v to %+v", before, after)
	}
	select {
	case lost := <-leader.ended:
		t.Errorf("leadership was lost: %v", lost.cause)
	default:
	}

	c.Helm(t, "uninstall", "graphsubd", "--namespace", c.namespace)
	next(t, atOnce+busy, "the leader ends when the chart is uninstalled", leader.ended)
	if _, err := c.Admin.CoordinationV1().Leases(c.namespace).Get(t.Context(), "graphsubd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lease is still there: %v", err)
	}
	c.Install(t, controlplane.Chart, c.namespace, controlplane.ValuesSQLite)
	c.checkStatefulSet(t)
}

func (c *cluster) checkStatefulSet(t *testing.T) {
	t.Helper()
	set, err := c.Admin.AppsV1().StatefulSets(c.namespace).Get(t.Context(), "graphsubd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *set.Spec.Replicas != 1 || len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("%d replicas and %d volumes with SQLite", *set.Spec.Replicas, len(set.Spec.VolumeClaimTemplates))
	}
	// The volume is the StatefulSet's to add.
	template := set.Spec.Template.DeepCopy()
	template.Spec.Volumes = append(template.Spec.Volumes, core.Volume{Name: "data", VolumeSource: core.VolumeSource{
		PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: "data-graphsubd-0"},
	}})
	c.admits(t, *template)
}

func (c *cluster) deployment(t *testing.T) *apps.Deployment {
	t.Helper()
	deployment, err := c.Admin.AppsV1().Deployments(c.namespace).Get(t.Context(), "graphsubd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return deployment
}

func (c *cluster) upgrade(t *testing.T, values string, args ...string) {
	t.Helper()
	c.Helm(t, append([]string{"upgrade", "graphsubd", controlplane.Chart, "--namespace", c.namespace, "--values", valuesFile(t, values)}, args...)...)
}

// admits has the API server judge the pod by the restricted standard, which
// the namespace enforces.
func (c *cluster) admits(t *testing.T, template core.PodTemplateSpec) {
	t.Helper()
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: template.Labels}, Spec: template.Spec}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := c.Admin.CoreV1().Pods(c.namespace).Create(t.Context(), pod, dry); err != nil {
		t.Errorf("the pod is refused: %v", err)
	}
	loose := pod.DeepCopy()
	loose.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	if _, err := c.Admin.CoreV1().Pods(c.namespace).Create(t.Context(), loose, dry); !apierrors.IsForbidden(err) {
		t.Errorf("the namespace enforces nothing: %v", err)
	}
}

// allowsLittle checks that the chart grants two verbs on one name, and makes
// no Secret.
func (c *cluster) allowsLittle(t *testing.T) {
	t.Helper()
	roles, err := c.Admin.RbacV1().Roles(c.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []rbac.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"graphsubd"},
		Verbs: []string{"get", "update"},
	}}
	if len(roles.Items) != 1 || !reflect.DeepEqual(roles.Items[0].Rules, want) {
		t.Errorf("roles %+v", roles.Items)
	}
	secrets, err := c.Admin.CoreV1().Secrets(c.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		if secret.Type != "helm.sh/release.v1" { // Helm's own record
			t.Errorf("the chart made the secret %s", secret.Name)
		}
	}
}

// TestChartRenders renders the chart with values of all kinds. It needs helm
// and no API.
func TestChartRenders(t *testing.T) {
	t.Parallel()
	if testing.Short() && os.Getenv("GRAPHSUBD_HELM") == "" {
		t.Skip("SHORT: helm is left out")
	}
	for _, row := range []struct {
		name, values, set, refused string
	}{
		{"PostgreSQL", controlplane.Values, "replicas=5", ""},
		{"SQLite", controlplane.ValuesSQLite, "replicas=1", ""},
		{"SQLite with bounds", controlplane.ValuesSQLite, "config.store.maxBacklog.rows=5000000", ""},
		{"a digest", controlplane.Values, "image.digest=sha256:" + strings.Repeat("a", 64), ""},
		{"two replicas of SQLite", controlplane.ValuesSQLite, "replicas=2", "a SQLite store serves one replica"},
		{"no public URL", controlplane.Values, "config.publicURL=null", "publicURL"},
		{"no signing key", controlplane.Values, "config.signingKeys=null", "signingKeys"},
		{"a Lease of its own", controlplane.Values, "config.lease.kubernetes.name=mine", "name"},
		{"a file lock", controlplane.Values, "config.lease.file.path=x", "file"},
		{"another port", controlplane.Values, "config.listen.public.address=:80", "address"},
		{"two stores", controlplane.Values, "config.store.sqlite.path=x", "store"},
		{"a word misspelled", controlplane.Values, "replica=2", "replica"},
		{"no digest", controlplane.Values, "image.digest=latest", "digest"},
		{"a folder that is the chart's", controlplane.Values, "secrets.config=mine", "config"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			said, err := controlplane.Helm(t, "", "template", "graphsubd", controlplane.Chart, "--namespace", "graph",
				"--values", valuesFile(t, row.values), "--set", row.set)
			switch {
			case row.refused == "" && err != nil:
				t.Fatalf("%v\n%s", err, said)
			case row.refused != "" && (err == nil || !strings.Contains(said, row.refused)):
				t.Fatalf("%v, want a refusal that names %q:\n%s", err, row.refused, said)
			}
		})
	}
}

// TestChartConfiguration has graphsubd check the file that the chart renders.
func TestChartConfiguration(t *testing.T) {
	t.Parallel()
	if testing.Short() && os.Getenv("GRAPHSUBD_HELM") == "" {
		t.Skip("SHORT: helm is left out")
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(harness.SigningKey), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]string{
		"sqlite":   controlplane.ValuesSQLite + "  store: {retention: {delivered: 24h}, maxBacklog: {rows: 5000000}}\n",
		"postgres": strings.ReplaceAll(controlplane.Values, "/etc/graphsubd/database/url", secret),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := strings.ReplaceAll(values, "/etc/graphsubd/signing/current", secret)
			said, err := controlplane.Helm(t, "", "template", "graphsubd", controlplane.Chart, "--namespace", "graph",
				"--values", valuesFile(t, values), "--show-only", "templates/configmap.yaml")
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			_, text, found := strings.Cut(said, "graphsubd.yaml: |\n")
			if !found {
				t.Fatal(said)
			}
			path := filepath.Join(t.TempDir(), "graphsubd.yaml")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "\n    ", "\n")[4:]), 0o600); err != nil {
				t.Fatal(err)
			}
			checked, err := exec.CommandContext(t.Context(), harness.Binary(t), "check", "--config", path, "-o", "json").CombinedOutput()
			if err != nil || !json.Valid(checked) {
				t.Errorf("%v\n%s\n%s", err, checked, text)
			}
		})
	}
}

func valuesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
