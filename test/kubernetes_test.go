package test_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/graphsubd/graphsubd/internal/lease"
	"github.com/graphsubd/graphsubd/test/controlplane"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// The lease of these tests is short; the configuration allows no such.
const (
	leaseDuration = 6 * time.Second
	leaseDeadline = 4 * time.Second
	leaseRetry    = 500 * time.Millisecond
	leaseCall     = leaseDeadline / 8
	gracefulBound = leaseRetry*22/10 + time.Second
	crashBound    = leaseDuration + leaseRetry*44/10 + 2*leaseCall
	// atOnce is one try of the leader to renew.
	atOnce = leaseRetry + leaseCall
	// busy is what a busy machine may add.
	busy = 2 * time.Second
)

var errTestLeaseLost = errors.New("lease lost")

// TestKubernetes runs what needs a real Kubernetes API, on one of them: each
// part in a namespace, on the Lease and with the account that the chart makes.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SHORT: a real Kubernetes API is left out")
	}
	plane := controlplane.Start(t)
	server, err := postgres.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	in := func(namespace string) *cluster {
		return &cluster{ControlPlane: plane, namespace: namespace, server: server}
	}
	t.Run("lease", in("lease").testLease)
	t.Run("serve", in("serve").testServe)
	t.Run("chart", in("chart").testChart)
	t.Run("one leads", in("one").testOneLeads)
	t.Run("killed leader", in("killed").testKilledLeader)
	t.Run("rollout", in("rollout").testRollout)
	t.Run("no API server", in("no-api").testWithoutAPI)
	t.Run("deleted lease", in("no-lease").testDeletedLease)
	t.Run("revoked access", in("no-access").testRevokedAccess)
	t.Run("clocks apart", in("clocks").testClocks)
}

// cluster is a namespace, and the database beside it.
type cluster struct {
	*controlplane.ControlPlane
	namespace string
	server    *postgres.Server
	leads     atomic.Int32 // how many bodies of contenders run
}

// leadership is a change: somebody begins to lead, or ends.
type leadership struct {
	contender *contender
	begins    bool
	cause     error
	at        time.Time
}

// contender is one elector with a network of its own.
type contender struct {
	network *harness.Network
	stop    func()
	began   chan leadership
	ended   chan leadership
}

func (c *cluster) contend(t *testing.T) *contender {
	t.Helper()
	one := &contender{network: harness.NewNetwork(t, c.Address), began: make(chan leadership, 10), ended: make(chan leadership, 10)}
	client, err := lease.NewClient(c.ServiceAccount(t, c.namespace, one.network.Address))
	if err != nil {
		t.Fatal(err)
	}
	elector, err := lease.NewKubernetes(lease.KubernetesConfig{
		Namespace: c.namespace, Name: "graphsubd", Identity: lease.NewIdentity("test"), Election: "test",
		Duration: leaseDuration, RenewDeadline: leaseDeadline, RetryPeriod: leaseRetry, CallTimeout: leaseCall,
		Client: client, LostCause: errTestLeaseLost,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- elector.Run(ctx, func(ctx context.Context) error {
			if c.leads.Add(1) > 1 {
				t.Error("two lead at once")
			}
			one.began <- leadership{contender: one, begins: true, at: time.Now()}
			<-ctx.Done()
			c.leads.Add(-1)
			one.ended <- leadership{contender: one, cause: context.Cause(ctx), at: time.Now()}
			return nil
		})
	}()
	one.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run ended with %v", err)
		}
	})
	t.Cleanup(one.stop)
	return one
}

// next waits for a change.
func next(t *testing.T, within time.Duration, what string, changes ...<-chan leadership) leadership {
	t.Helper()
	for len(changes) < 2 {
		changes = append(changes, nil)
	}
	select {
	case change := <-changes[0]:
		return change
	case change := <-changes[1]:
		return change
	case <-time.After(within):
		t.Fatalf("not within %v: %s", within, what)
	}
	return leadership{}
}

// testLease runs two electors against a real API server, each with nothing but
// what the chart allows.
func (c *cluster) testLease(t *testing.T) {
	t.Parallel()
	c.Install(t, controlplane.Chart, c.namespace, controlplane.Values)
	a, b := c.contend(t), c.contend(t)
	leader := next(t, 10*time.Second, "one leads", a.began, b.began).contender

	began := time.Now()
	c.DeleteLease(t, c.namespace)
	lost := next(t, atOnce+busy, "the leader ends when the lease is deleted", leader.ended)
	t.Logf("ended %v after the lease was deleted: %v", lost.at.Sub(began), lost.cause)
	if !errors.Is(lost.cause, errTestLeaseLost) {
		t.Errorf("the cause is %v", lost.cause)
	}
	select {
	case <-a.began:
		t.Error("leads without a lease")
	case <-b.began:
		t.Error("leads without a lease")
	case <-time.After(leaseDuration + leaseRetry*5): // long enough for anybody to take over
	}
	if _, err := c.Admin.CoordinationV1().Leases(c.namespace).Get(t.Context(), "graphsubd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lease was made anew: %v", err)
	}
	c.PutLease(t, c.namespace)
	leader = next(t, gracefulBound+busy, "one leads when the lease is back", a.began, b.began).contender

	began = time.Now()
	grant := c.Revoke(t, c.namespace)
	lost = next(t, atOnce+busy, "the leader ends when its permission does", leader.ended)
	t.Logf("ended %v after the permission was taken: %v", lost.at.Sub(began), lost.cause)
	grant()
	// It could not release what it held, and takes it up again by its name.
	leader = next(t, crashBound+busy, "one leads when the permission is back", a.began, b.began).contender
	other := a
	if leader == a {
		other = b
	}

	leader.stop()
	ended := next(t, busy, "the leader has ended", leader.ended)
	taken := next(t, gracefulBound+busy, "the other takes over", other.began)
	t.Logf("graceful take-over took %v, the bound is %v", taken.at.Sub(ended.at), gracefulBound)

	heir := c.contend(t)
	other.network.Cut()
	cut := time.Now()
	taken = next(t, crashBound+busy, "the third takes over from one that is cut off", heir.began)
	lost = next(t, busy, "the one that is cut off has ended", other.ended)
	t.Logf("take-over from one that is cut off took %v, the bound is %v; it had ended %v before",
		taken.at.Sub(cut), crashBound, taken.at.Sub(lost.at))
	if taken.at.Sub(lost.at) < leaseDuration-leaseDeadline-leaseRetry-leaseCall {
		t.Error("the one that was cut off ended too late")
	}
	if n := c.Lease(t, c.namespace).LeaseTransitions; n == nil || *n < 2 {
		t.Errorf("the lease was taken over twice and says %+v", c.Lease(t, c.namespace))
	}
}

// TestLeaseWithoutAnswers stops the API server for longer than the renew
// deadline.
func TestLeaseWithoutAnswers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SHORT: a real Kubernetes API is left out")
	}
	c := &cluster{ControlPlane: controlplane.Start(t), namespace: "graph"}
	c.Install(t, controlplane.Chart, c.namespace, controlplane.Values)
	a, b := c.contend(t), c.contend(t)
	leader := next(t, 10*time.Second, "one leads", a.began, b.began).contender
	c.Pause(t)
	paused := time.Now()
	lost := next(t, leaseDeadline+busy, "the leader ends at the deadline", leader.ended)
	t.Logf("ended %v after the last answer could have come: %v", lost.at.Sub(paused), lost.cause)
	c.Resume(t)
	next(t, crashBound+busy, "one leads again", a.began, b.began)
}

// testServe has the built program lead by the Lease: it creates when it
// leads, ends leading when the Lease is gone, and lets go of it in the end.
func (c *cluster) testServe(t *testing.T) {
	t.Parallel()
	c.Install(t, controlplane.Chart, c.namespace, controlplane.Values)
	c.DeleteLease(t, c.namespace)
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 2)
	service.Rewrite("apps:", fmt.Sprintf("lease: {kubernetes: {namespace: %s, name: graphsubd, kubeconfig: %q}}\napps:", c.namespace, c.ServiceAccount(t, c.namespace, "")))
	process := service.Start()
	leads := func(value string) func() error {
		return func() error { return service.Metric(`leader{election="test"}`, value) }
	}
	harness.Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(process.Logged(), "nobody leads until it is put back") {
			return errors.New("a missing lease is not told")
		}
		return leads("0")()
	})
	if n := sim.Counts().Created; n != 0 {
		t.Errorf("%d subscriptions made by nobody's leader", n)
	}
	c.PutLease(t, c.namespace)
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	c.DeleteLease(t, c.namespace)
	harness.Eventually(t, 20*time.Second, leads("0"))
	c.PutLease(t, c.namespace)
	harness.Eventually(t, 20*time.Second, leads("1"))
	if _, code := process.Terminate(); code != 0 {
		t.Errorf("ended with code %d", code)
	}
	if got := c.Lease(t, c.namespace); got.HolderIdentity == nil || *got.HolderIdentity != "" || *got.LeaseDurationSeconds <= 0 {
		t.Errorf("released as %+v", got)
	}
	if n := sim.Counts(); n.Created != 2 || n.Live != 2 {
		t.Errorf("counts %+v", n)
	}
}
