package test_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/graphsubd/graphsubd/internal/lease"
	"github.com/graphsubd/graphsubd/test/controlplane"
	"github.com/graphsubd/graphsubd/test/harness"
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

// leaseCluster has one Lease and one user who may get and update it.
type leaseCluster struct {
	*controlplane.ControlPlane
	leads atomic.Int32 // how many bodies run
}

const leaseUser = "graphsubd"

func newLeaseCluster(t *testing.T) *leaseCluster {
	t.Helper()
	if testing.Short() {
		t.Skip("SHORT: a real Kubernetes API is left out")
	}
	c := &leaseCluster{ControlPlane: controlplane.Start(t)}
	_, err := c.Admin.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "graph"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.putLease(t)
	c.grant(t)
	return c
}

func (c *leaseCluster) putLease(t *testing.T) {
	t.Helper()
	_, err := c.Admin.CoordinationV1().Leases("graph").Create(t.Context(), &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: "graphsubd"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *leaseCluster) deleteLease(t *testing.T) {
	t.Helper()
	if err := c.Admin.CoordinationV1().Leases("graph").Delete(t.Context(), "graphsubd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *leaseCluster) grant(t *testing.T) {
	t.Helper()
	c.Grant(t, "graph", leaseUser, rbac.PolicyRule{
		APIGroups: []string{coordination.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{"graphsubd"},
		Verbs: []string{"get", "update"},
	})
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
	forwarder *forwarder
	stop      func()
	began     chan leadership
	ended     chan leadership
}

func (c *leaseCluster) contend(t *testing.T) *contender {
	t.Helper()
	one := &contender{forwarder: newForwarder(t, c.Address), began: make(chan leadership, 10), ended: make(chan leadership, 10)}
	client, err := lease.NewClient(c.Kubeconfig(t, leaseUser, one.forwarder.address))
	if err != nil {
		t.Fatal(err)
	}
	elector, err := lease.NewKubernetes(lease.KubernetesConfig{
		Namespace: "graph", Name: "graphsubd", Identity: lease.NewIdentity("test"), Election: "test",
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

// TestLeaseOnRealAPI runs two electors against a real API server, each with
// nothing but get and update on the one Lease.
func TestLeaseOnRealAPI(t *testing.T) {
	t.Parallel()
	c := newLeaseCluster(t)
	a, b := c.contend(t), c.contend(t)
	leader := next(t, 10*time.Second, "one leads", a.began, b.began).contender

	began := time.Now()
	c.deleteLease(t)
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
	if _, err := c.Admin.CoordinationV1().Leases("graph").Get(t.Context(), "graphsubd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lease was made anew: %v", err)
	}
	c.putLease(t)
	leader = next(t, gracefulBound+busy, "one leads when the lease is back", a.began, b.began).contender

	began = time.Now()
	c.Revoke(t, "graph", leaseUser)
	lost = next(t, atOnce+busy, "the leader ends when its permission does", leader.ended)
	t.Logf("ended %v after the permission was taken: %v", lost.at.Sub(began), lost.cause)
	c.grant(t)
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
	other.forwarder.cut()
	cut := time.Now()
	taken = next(t, crashBound+busy, "the third takes over from one that is cut off", heir.began)
	lost = next(t, busy, "the one that is cut off has ended", other.ended)
	t.Logf("take-over from one that is cut off took %v, the bound is %v; it had ended %v before",
		taken.at.Sub(cut), crashBound, taken.at.Sub(lost.at))
	if taken.at.Sub(lost.at) < leaseDuration-leaseDeadline-leaseRetry-leaseCall {
		t.Error("the one that was cut off ended too late")
	}
	spec, err := c.Admin.CoordinationV1().Leases("graph").Get(t.Context(), "graphsubd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := spec.Spec.LeaseTransitions; n == nil || *n < 2 {
		t.Errorf("the lease was taken over twice and says %+v", spec.Spec)
	}
}

// TestLeaseWithoutAnswers stops the API server for longer than the renew
// deadline.
func TestLeaseWithoutAnswers(t *testing.T) {
	t.Parallel()
	c := newLeaseCluster(t)
	a, b := c.contend(t), c.contend(t)
	leader := next(t, 10*time.Second, "one leads", a.began, b.began).contender
	c.Pause(t)
	paused := time.Now()
	lost := next(t, leaseDeadline+busy, "the leader ends at the deadline", leader.ended)
	t.Logf("ended %v after the last answer could have come: %v", lost.at.Sub(paused), lost.cause)
	c.Resume(t)
	next(t, crashBound+busy, "one leads again", a.began, b.began)
}

// TestServeOnLease has the built program lead by the Lease: it creates when it
// leads, ends leading when the Lease is gone, and lets go of it in the end.
func TestServeOnLease(t *testing.T) {
	t.Parallel()
	c := newLeaseCluster(t)
	c.deleteLease(t)
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 2)
	service.Rewrite("apps:", fmt.Sprintf("lease: {kubernetes: {namespace: graph, name: graphsubd, kubeconfig: %q}}\napps:", c.Kubeconfig(t, leaseUser, "")))
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
	c.putLease(t)
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	c.deleteLease(t)
	harness.Eventually(t, 20*time.Second, leads("0"))
	c.putLease(t)
	harness.Eventually(t, 20*time.Second, leads("1"))
	if _, code := process.Terminate(); code != 0 {
		t.Errorf("ended with code %d", code)
	}
	got, err := c.Admin.CoordinationV1().Leases("graph").Get(t.Context(), "graphsubd", metav1.GetOptions{})
	if err != nil || got.Spec.HolderIdentity == nil || *got.Spec.HolderIdentity != "" || *got.Spec.LeaseDurationSeconds <= 0 {
		t.Errorf("released as %+v, %v", got.Spec, err)
	}
	if n := sim.Counts(); n.Created != 2 || n.Live != 2 {
		t.Errorf("counts %+v", n)
	}
}

// forwarder is a network between one process and the API server.
type forwarder struct {
	address string
	to      string

	mu   sync.Mutex
	hang bool       // guarded by mu
	open []net.Conn // guarded by mu
}

func newForwarder(t *testing.T, to string) *forwarder {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{address: listener.Addr().String(), to: to}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.forward(connection) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.closeAll()
		wg.Wait()
	})
	return f
}

func (f *forwarder) forward(from net.Conn) {
	to, err := (&net.Dialer{}).Dial("tcp", f.to)
	if err != nil {
		_ = from.Close()
		return
	}
	f.mu.Lock()
	f.open = append(f.open, from, to)
	f.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { f.pump(to, from) })
	wg.Go(func() { f.pump(from, to) })
	wg.Wait()
}

// pump copies until an end is closed, and loses what comes after a cut.
func (f *forwarder) pump(to, from net.Conn) {
	defer func() { _ = to.Close() }()
	_, _ = io.Copy(writerFunc(func(text []byte) (int, error) {
		f.mu.Lock()
		lost := f.hang
		f.mu.Unlock()
		if lost {
			return len(text), nil
		}
		return to.Write(text)
	}), from)
}

// cut lets every connection be as it is, and carries nothing any more.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hang = true
}

func (f *forwarder) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, connection := range f.open {
		_ = connection.Close()
	}
}

type writerFunc func(text []byte) (int, error)

// Write is for io.Copy.
func (w writerFunc) Write(text []byte) (int, error) { return w(text) }
