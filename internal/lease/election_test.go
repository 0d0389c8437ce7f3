package lease_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/graphsubd/graphsubd/internal/lease"
)

// seeds is how many worlds are tried.
func seeds() int {
	if testing.Short() {
		return 4
	}
	return 24
}

// weather gives the faults of an ordinary bad day.
func weather(rng *rand.Rand) func(method string) fault {
	// Called under the wire's lock, so rng is not shared.
	return func(string) fault {
		f := fault{delay: time.Duration(rng.IntN(200)) * time.Millisecond}
		switch rng.IntN(40) {
		case 0:
			f.delay = time.Duration(rng.IntN(8000)) * time.Millisecond
		case 1:
			f.hang = true
		case 2:
			f.mute = true
		case 3:
			f.status = []int{500, 503, 429, 409}[rng.IntN(4)]
		}
		return f
	}
}

// TestNeverTwoBodies lets replicas live through crashes, stops, lost networks,
// revoked permissions and a deleted Lease. The stage fails the test when two
// bodies run at once, or one begins while another process was told that the
// lease is still its own.
func TestNeverTwoBodies(t *testing.T) {
	t.Parallel()
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { live(t, uint64(seed)) })
		})
	}
}

func live(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	api, s, of := newAPIServer(), &stage{t: t}, defaults()
	var graveyard, alive []*replica
	spawn := func() *replica {
		w := &wire{api: api}
		w.set(weather(rand.New(rand.NewPCG(seed, rng.Uint64()))))
		r := newReplica(t, s, w, of)
		r.linger = time.Duration(rng.IntN(9000)) * time.Millisecond
		return r.start(t.Context())
	}
	for range 3 {
		alive = append(alive, spawn())
	}
	for range 25 {
		time.Sleep(time.Duration(rng.IntN(60_000)) * time.Millisecond)
		i := rng.IntN(len(alive))
		r := alive[i]
		calm := weather(rand.New(rand.NewPCG(seed, rng.Uint64())))
		switch rng.IntN(6) {
		case 0: // a rollout
			r.stop()
			alive[i] = spawn()
		case 1: // the node is gone
			r.crash()
			graveyard = append(graveyard, r)
			alive[i] = spawn()
		case 2: // the network is
			r.wire.always([]fault{{hang: true}, {mute: true}, {status: http.StatusInternalServerError}}[rng.IntN(3)])
			time.Sleep(time.Duration(rng.IntN(150)) * time.Second)
			r.wire.set(calm)
		case 3:
			r.wire.always(fault{status: []int{http.StatusForbidden, http.StatusUnauthorized}[rng.IntN(2)]})
			time.Sleep(time.Duration(rng.IntN(90)) * time.Second)
			r.wire.set(calm)
		case 4: // put back when it is sure that nobody leads
			api.remove()
			time.Sleep(of.duration)
			api.put(coordinationv1.LeaseSpec{})
		case 5:
			time.Sleep(2 * time.Minute)
		}
	}
	for _, r := range alive {
		r.wire.set(nil)
	}
	until(t, of.duration+10*of.retry+4*of.call+9*time.Second, "somebody leads in the end", s.leads)
	for _, r := range append(alive, graveyard...) {
		r.stop()
		if r.err != nil {
			t.Errorf("run ended with %v", r.err)
		}
	}
	if s.count() < 3 {
		t.Errorf("only %d bodies ran", s.count())
	}
	api.unharmed(t)
}

// TestTakeOver measures both kinds of take-over against the bounds that
// client-go can keep.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	of := defaults()
	for _, c := range []struct {
		name  string
		end   func(r *replica)
		bound time.Duration
	}{
		{"graceful", (*replica).stop, of.retry*22/10 + time.Second},
		{"crash", (*replica).crash, of.duration + of.retry*44/10 + 2*of.call},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var longest time.Duration
			for range 3 * seeds() {
				synctest.Test(t, func(t *testing.T) { longest = max(longest, takeOver(t, of, c.end)) })
			}
			if longest > c.bound {
				t.Errorf("took %v, the bound is %v", longest, c.bound)
			}
			t.Logf("longest of %d: %v, the bound is %v", 3*seeds(), longest, c.bound)
		})
	}
}

// takeOver gives how long nobody led after the leader's body had ended.
func takeOver(t *testing.T, of timings, end func(r *replica)) time.Duration {
	t.Helper()
	api, s := newAPIServer(), &stage{t: t}
	first := newReplica(t, s, &wire{api: api}, of)
	first.linger = 3 * time.Second
	first.start(t.Context())
	until(t, time.Second, "the first leads", s.leads)
	second := newReplica(t, s, &wire{api: api}, of).start(t.Context())
	time.Sleep(time.Duration(rand.IntN(int(2 * of.duration))))
	end(first)
	ended := time.Now()
	until(t, 2*of.duration, "the second leads", func() bool { return s.last().replica == second })
	took := s.last().began.Sub(ended)
	first.stop()
	second.stop()
	api.unharmed(t)
	return took
}

func TestBodyThatOverstaysEndsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, s, of := newAPIServer(), &stage{t: t}, defaults()
		r := newReplica(t, s, &wire{api: api}, of)
		r.linger = time.Hour
		r.start(t.Context())
		until(t, time.Second, "it leads", s.leads)
		time.Sleep(time.Minute)
		renewed := api.spec().RenewTime.Time
		r.wire.always(fault{hang: true})
		<-r.done
		if took := time.Since(renewed); !errors.Is(r.err, lease.ErrOverstayed) || took > of.duration-5*time.Second {
			t.Errorf("ended %v after the last renewal with %v", took, r.err)
		}
		if told := s.last().told.Sub(renewed); told > of.deadline {
			t.Errorf("the body was told %v after the last renewal", told)
		}
		if r.elector.Left() != 0 {
			t.Error("something is left of a lost lease")
		}
		time.Sleep(r.linger) // the body, which the process would take with it
	})
}

// TestSlowBodyKeepsTheLease has a body that needs longer to stop than a lease
// lasts. Stopping is no loss, so the Lease is renewed meanwhile.
func TestSlowBodyKeepsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, s := newAPIServer(), &stage{t: t}
		first := newReplica(t, s, &wire{api: api}, defaults())
		first.linger = 3 * time.Minute
		first.start(t.Context())
		until(t, time.Second, "the first leads", s.leads)
		second := newReplica(t, s, &wire{api: api}, defaults()).start(t.Context())
		first.stop()
		if first.err != nil {
			t.Error(first.err)
		}
		until(t, 5*time.Second, "the second leads", s.leads)
		second.stop()
	})
}
