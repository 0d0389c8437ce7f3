package lease_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestMissingLease begins without a Lease, gets one, loses it, and gets it back.
func TestMissingLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, s, of := newAPIServer(), &stage{t: t}, defaults()
		api.remove()
		r := newReplica(t, s, &wire{api: api}, of).start(t.Context())
		time.Sleep(time.Hour)
		if s.count() > 0 {
			t.Error("leads without a lease")
		}
		const warning = "nobody leads until it is put back"
		if n := r.log.count(warning); n != 1 || r.failures(t, "gone") < 100 {
			t.Errorf("%d warnings, %v failures counted", n, r.failures(t, "gone"))
		}
		api.put(coordinationv1.LeaseSpec{})
		until(t, of.retry*22/10+time.Second, "it leads", s.leads)
		time.Sleep(time.Minute)
		api.remove()
		until(t, of.retry+time.Second, "it does not lead", func() bool { return !s.leads() })
		if cause := s.last().cause; !errors.Is(cause, errLost) {
			t.Errorf("ended by %v", cause)
		}
		time.Sleep(10 * time.Minute)
		if n := r.log.count(warning); n != 2 || s.count() != 1 || r.metric(t, "graphsubd_leader") != 0 {
			t.Errorf("%d warnings, %d bodies", n, s.count())
		}
		api.put(coordinationv1.LeaseSpec{})
		until(t, of.retry*22/10+time.Second, "it leads again", s.leads)
		if r.metric(t, "graphsubd_leader") != 1 || r.metric(t, "graphsubd_lease_transitions_total") != 3 {
			t.Errorf("leader is %v after %v transitions", r.metric(t, "graphsubd_leader"), r.metric(t, "graphsubd_lease_transitions_total"))
		}
		r.stop()
		api.unharmed(t)
	})
}

// TestDenied takes the permissions away and gives them back.
func TestDenied(t *testing.T) {
	t.Parallel()
	for reason, status := range map[string]int{"forbidden": http.StatusForbidden, "unauthorized": http.StatusUnauthorized} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api, s, of := newAPIServer(), &stage{t: t}, defaults()
				r := newReplica(t, s, &wire{api: api}, of).start(t.Context())
				until(t, time.Second, "it leads", s.leads)
				r.wire.always(fault{status: status})
				until(t, of.retry+time.Second, "it does not lead", func() bool { return !s.leads() })
				time.Sleep(10 * time.Minute)
				if s.count() != 1 || r.log.count("operation=get") > 2 || r.failures(t, reason) < 10 {
					t.Errorf("%d bodies, %v failures", s.count(), r.failures(t, reason))
				}
				r.wire.set(nil)
				until(t, of.retry*22/10+time.Second, "it leads again", s.leads)
				r.stop()
			})
		})
	}
}

// TestAnotherHolderEndsLeadership has a hand write another name into the Lease.
func TestAnotherHolderEndsLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, s, of := newAPIServer(), &stage{t: t}, defaults()
		r := newReplica(t, s, &wire{api: api}, of).start(t.Context())
		until(t, time.Second, "it leads", s.leads)
		api.put(record("by hand", 60, time.Now()))
		until(t, of.retry+time.Second, "it does not lead", func() bool { return !s.leads() })
		if r.log.count("another process leads") != 1 || api.holder() != "by hand" {
			t.Errorf("the holder is %q", api.holder())
		}
		r.stop()
		if api.holder() != "by hand" {
			t.Error("released the lease of another")
		}
	})
}

// TestReleaseIsTriedAgain has a renewal that was broken off come between the
// release's look at the Lease and its update.
func TestReleaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, s := newAPIServer(), &stage{t: t}
		r := newReplica(t, s, &wire{api: api}, defaults()).start(t.Context())
		until(t, time.Second, "it leads", s.leads)
		conflicts := 3
		r.wire.set(func(method string) fault {
			if conflicts--; method == http.MethodPut && conflicts >= 0 {
				return fault{status: http.StatusConflict}
			}
			return fault{}
		})
		r.stop()
		if api.holder() != "" || r.failures(t, "conflict") == 0 {
			t.Errorf("still held by %q", api.holder())
		}
	})
}

// TestLeft holds the arithmetic on which the writes to Graph stand: under the
// defaults a create may begin at any time, and may take its whole time-out.
func TestLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const createTimeout, createNeeds, margin = 40 * time.Second, 25 * time.Second, 5 * time.Second
		api, s, of := newAPIServer(), &stage{t: t}, defaults()
		r := newReplica(t, s, &wire{api: api}, of)
		if r.elector.Left() != 0 {
			t.Error("something is left before it leads")
		}
		r.start(t.Context())
		until(t, time.Second, "it leads", s.leads)
		for _, slow := range []time.Duration{0, of.call - time.Millisecond} {
			r.wire.always(fault{delay: slow})
			least := time.Hour
			for range 1000 {
				time.Sleep(97 * time.Millisecond)
				left := r.elector.Left()
				least = min(least, left)
				if most := time.Until(api.spec().RenewTime.Add(of.duration)); left > most {
					t.Errorf("%v is left, and another may lead in %v", left, most)
				}
			}
			if least < createNeeds || least-margin < createTimeout {
				t.Errorf("down to %v is left while calls take %v and succeed, too little for a create", least, slow)
			}
			t.Logf("calls take %v: %v is left at least", slow, least)
		}
		r.wire.always(fault{hang: true})
		until(t, of.deadline, "no create begins any more", func() bool { return r.elector.Left() < createNeeds })
		until(t, of.deadline, "it does not lead", func() bool { return !s.leads() })
		// A create that began at the last moment ends with leadership, at the latest.
		if told := s.last().told; told.After(r.promised().Add(-margin)) && !r.promised().IsZero() {
			t.Errorf("told to end at %v, promised until %v", told, r.promised())
		}
		r.stop()
	})
}
