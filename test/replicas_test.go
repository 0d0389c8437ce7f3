package test_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/graphsubd/graphsubd/test/controlplane"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/replicas"
)

func (c *cluster) replicas(t *testing.T, subscriptions int, clocks ...time.Duration) *replicas.Set {
	t.Helper()
	o := replicas.Options{Replicas: 3, Subscriptions: subscriptions, Chart: controlplane.Chart}
	if clocks != nil {
		o.Replicas, o.Clocks = len(clocks), clocks
	}
	return replicas.Start(t, c.ControlPlane, c.server, c.namespace, o)
}

// meanwhile does something once a second, and gives how often it did.
func meanwhile(t *testing.T, lasts time.Duration, do func(second int)) (times int) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	end := time.After(lasts)
	for ; ; times++ {
		select {
		case <-end:
			return times
		case <-t.Context().Done():
			return times
		case <-tick.C:
			do(times)
		}
	}
}

// keepsAll checks the end of a test: every subscription lives, none was made
// twice, and no former leader wrote after its heir.
func keepsAll(t *testing.T, s *replicas.Set, subscriptions int) {
	t.Helper()
	if c := s.Sim.Counts(); c.Created != subscriptions || c.Live != subscriptions || c.Expired != 0 || c.Deleted != 0 {
		t.Errorf("counts %+v, want %d created and live", c, subscriptions)
	}
	s.TermsInOrder()
}

// testOneLeads: three replicas, one leader, and all three receive and deliver.
func (c *cluster) testOneLeads(t *testing.T) {
	t.Parallel()
	s := c.replicas(t, 3)
	leader := s.Lead(replicas.Graceful + busy)
	meanwhile(t, 10*time.Second, func(int) {
		if now := s.Leader(); now != leader {
			t.Error("the leader has changed, and nothing happened")
		}
		s.Sim.Control(http.MethodPost, "notify", map[string]any{"count": 10}, nil)
	})
	harness.Eventually(t, 20*time.Second, func() error {
		counts := s.Sim.Counts()
		return errors.Join(want("queued", counts.Queued, 0), want("events", len(s.Events()), counts.Acknowledged))
	})
	for i, r := range s.Replicas {
		if len(r.Events()) == 0 {
			t.Errorf("replica %d has delivered nothing", i)
		}
	}
	if holder := c.Lease(t, c.namespace).HolderIdentity; holder == nil || *holder == "" {
		t.Error("the lease names no holder")
	}
	keepsAll(t, s, 3)
}

// testKilledLeader kills the leader amid 200 renewals.
func (c *cluster) testKilledLeader(t *testing.T) {
	t.Parallel()
	const subscriptions = 200
	s := c.replicas(t, subscriptions)
	leader := s.Lead(replicas.Graceful + busy)
	asked := time.Now()
	// Slow answers, so that there is an amid.
	s.Sim.Control(http.MethodPost, "faults", map[string]any{"match": "PATCH /v1.0/subscriptions/*", "delay": "100ms", "times": -1}, nil)
	for _, sub := range s.Sim.Live() {
		s.Reauthorize(sub.ID)
	}
	harness.Eventually(t, 20*time.Second, func() error {
		if n := s.Sim.Counts().Renewed; n < subscriptions/5 {
			return fmt.Errorf("%d renewed", n)
		}
		return nil
	})
	killed := time.Now()
	leader.Process.Kill()
	if n := s.Sim.Counts().Renewed; n >= subscriptions {
		t.Fatalf("all %d were renewed before the leader was killed", n)
	}
	s.Lead(replicas.Crash + busy)
	took := time.Since(killed)
	t.Logf("take-over took %v, the bound is %v", took, replicas.Crash)
	if took < replicas.Duration-2*replicas.RetryPeriod {
		t.Error("somebody led before the lease of the killed leader was over")
	}
	harness.Eventually(t, 60*time.Second, func() error { return want("renewed", s.Renewed(asked), subscriptions) })
	keepsAll(t, s, subscriptions)
}

// testRollout stops the leader in order, three times.
func (c *cluster) testRollout(t *testing.T) {
	t.Parallel()
	s := c.replicas(t, 5)
	leader := s.Lead(replicas.Graceful + busy)
	for range 3 {
		for _, sub := range s.Sim.Live() {
			s.Reauthorize(sub.ID)
		}
		asked := time.Now()
		leader.Process.Ask()
		var heir *replicas.Replica
		harness.Eventually(t, 5*time.Second, func() error {
			if heir = s.Leader(); heir == nil || heir == leader {
				return errors.New("nobody else leads")
			}
			return nil
		})
		t.Logf("hand-over took %v", time.Since(asked))
		<-leader.Process.Done
		if code := leader.Process.Cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the leader ended with code %d", code)
		}
		s.Restart(leader)
		leader = heir
	}
	keepsAll(t, s, 5)
}

// testWithoutAPI takes the API server away for two minutes, while Graph asks
// for renewals and sends notifications.
func (c *cluster) testWithoutAPI(t *testing.T) {
	t.Parallel()
	const outage = 2 * time.Minute
	s := c.replicas(t, 150)
	s.Lead(replicas.Graceful + busy)
	subs := s.Sim.Live()
	for _, r := range s.Replicas {
		r.API.Cut()
	}
	cut := time.Now()
	asked := meanwhile(t, outage, func(second int) {
		s.Reauthorize(subs[second].ID)
		s.Sim.Control(http.MethodPost, "notify", map[string]any{"id": subs[second].ID, "count": 2}, nil)
	})
	if late := s.WritesAfter(cut.Add(replicas.RenewDeadline + busy)); len(late) != 0 {
		t.Errorf("%d writes after the renew deadline, the first %v after the API server was gone", len(late), late[0].At.Sub(cut))
	}
	before := s.WritesAfter(cut)
	if len(before) == 0 {
		t.Fatal("no writes before the renew deadline, so the test shows nothing")
	}
	t.Logf("%d writes after the API server was gone, the last %v after", len(before), before[len(before)-1].At.Sub(cut))
	harness.Eventually(t, 20*time.Second, func() error {
		counts := s.Sim.Counts()
		return errors.Join(want("queued", counts.Queued, 0), want("acknowledged", counts.Acknowledged, 3*asked),
			want("events", len(s.Events()), 2*asked))
	})
	if s.Leader() != nil {
		t.Error("somebody leads without the API server")
	}
	mended := time.Now()
	for _, r := range s.Replicas {
		r.API.Mend()
	}
	s.Lead(replicas.Crash + busy)
	t.Logf("leadership is back %v after the API server", time.Since(mended))
	harness.Eventually(t, 30*time.Second, func() error { return want("renewed", s.Renewed(cut), asked) })
	keepsAll(t, s, len(subs))
}

// silence checks that nobody writes for a while, though Graph asks for it.
func silence(t *testing.T, s *replicas.Set, lasts time.Duration) (asked int) {
	t.Helper()
	harness.Eventually(t, replicas.RetryPeriod+replicas.CallTimeout+busy, func() error {
		if s.Leader() != nil {
			return errors.New("the leader leads on")
		}
		return nil
	})
	began := time.Now()
	subs := s.Sim.Live()
	asked = meanwhile(t, lasts, func(second int) { s.Reauthorize(subs[second].ID) })
	if writes := s.WritesAfter(began); len(writes) != 0 {
		t.Errorf("%d writes though nobody may lead", len(writes))
	}
	if s.Leader() != nil {
		t.Error("somebody leads")
	}
	return asked
}

// testDeletedLease deletes the Lease and puts it back.
func (c *cluster) testDeletedLease(t *testing.T) {
	t.Parallel()
	s := c.replicas(t, 30)
	s.Lead(replicas.Graceful + busy)
	c.DeleteLease(t, c.namespace)
	deleted := time.Now()
	asked := silence(t, s, 20*time.Second)
	if _, err := c.Admin.CoordinationV1().Leases(c.namespace).Get(t.Context(), "graphsubd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lease was made anew: %v", err)
	}
	c.PutLease(t, c.namespace)
	s.Lead(replicas.Graceful + busy)
	harness.Eventually(t, 30*time.Second, func() error { return want("renewed", s.Renewed(deleted), asked) })
	keepsAll(t, s, 30)
}

// testRevokedAccess takes the permission away and gives it back.
func (c *cluster) testRevokedAccess(t *testing.T) {
	t.Parallel()
	s := c.replicas(t, 30)
	s.Lead(replicas.Graceful + busy)
	grant := c.Revoke(t, c.namespace)
	revoked := time.Now()
	asked := silence(t, s, 20*time.Second)
	grant()
	s.Lead(replicas.Crash + busy)
	harness.Eventually(t, 30*time.Second, func() error { return want("renewed", s.Renewed(revoked), asked) })
	keepsAll(t, s, 30)
}

// testClocks has the clocks of two replicas 10 minutes apart: one is five
// minutes ahead and the other as much behind.
func (c *cluster) testClocks(t *testing.T) {
	t.Parallel()
	s := c.replicas(t, 3, 5*time.Minute, -5*time.Minute)
	for _, r := range s.Replicas {
		if off := clockOf(t, r.Service); (off - r.Clock).Abs() > busy {
			t.Fatalf("a clock is %v ahead, want %v", off, r.Clock)
		}
	}
	leader := s.Lead(replicas.Graceful + busy)
	heir := s.Followers(leader)[0]
	began := c.Lease(t, c.namespace)
	// Nobody takes over because of what the other's clock says.
	meanwhile(t, replicas.Duration+10*time.Second, func(int) {
		if now := s.Leader(); now != leader {
			t.Error("the leader has changed, and nothing happened")
		}
	})
	if now := c.Lease(t, c.namespace); *now.LeaseTransitions != *began.LeaseTransitions || *now.HolderIdentity != *began.HolderIdentity {
		t.Errorf("the lease went from %+v to %+v", began, now)
	}
	killed := time.Now()
	leader.Process.Kill()
	if s.Lead(replicas.Crash+busy) != heir {
		t.Fatal("a killed process leads")
	}
	took := time.Since(killed)
	t.Logf("take-over took %v, the bound is %v", took, replicas.Crash)
	if took < replicas.Duration-2*replicas.RetryPeriod {
		t.Error("the other led before the lease of the killed leader was over")
	}
	// And the other way round, in order.
	s.Restart(leader)
	asked := time.Now()
	if _, code := heir.Process.Terminate(); code != 0 {
		t.Errorf("the leader ended with code %d", code)
	}
	s.Lead(replicas.Graceful + busy)
	t.Logf("hand-over took %v", time.Since(asked))
	keepsAll(t, s, 3)
}

// clockOf asks a service for the time, by the header of an answer.
func clockOf(t *testing.T, service *harness.Service) (ahead time.Duration) {
	t.Helper()
	addresses, err := service.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + addresses.Telemetry + "/livez") //nolint:noctx // the test's own client
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	said, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(said)
}
