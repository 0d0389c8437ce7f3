package lease_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/graphsubd/graphsubd/internal/lease"
)

// TestCase has one public report about leader election each.
func TestCase(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T){
		"A59": clocksDiffer, "A60": oneIdentity, "A61": releaseKeepsDuration, "A62": sixDigits,
		"A63": electionGoesOn, "A64": hungRenewal, "A65": recordedDuration,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, run)
		})
	}
}

// short is what the reports use.
func short() timings {
	return timings{15 * time.Second, 10 * time.Second, 2 * time.Second, 2 * time.Second}
}

func record(holder string, seconds int32, renewed time.Time) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: new(int32(7)),
		AcquireTime: microTime(renewed), RenewTime: microTime(renewed),
	}
}

// A holder whose clock is off renews; the contender goes by what it sees change.
func clocksDiffer(t *testing.T) {
	t.Helper()
	of := short()
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute, -time.Hour} {
		api, s := newAPIServer(), &stage{t: t}
		api.put(record("other", 15, time.Now().Add(skew)))
		r := newReplica(t, s, &wire{api: api}, of).start(t.Context())
		// The first look starts the wait, however old the record is.
		time.Sleep(of.duration - time.Second)
		for range 60 {
			api.put(record("other", 15, time.Now().Add(skew)))
			time.Sleep(2 * time.Second)
		}
		if s.count() > 0 {
			t.Errorf("skew %v: took over from a holder that renews", skew)
		}
		took := until(t, time.Minute, "it takes over", s.leads) + 2*time.Second
		if took < of.duration || took > of.duration+of.retry*44/10 {
			t.Errorf("skew %v: took over %v after the last change", skew, took)
		}
		r.stop()
	}
}

func oneIdentity(t *testing.T) {
	t.Helper()
	if a, b := lease.NewIdentity("pod"), lease.NewIdentity("pod"); a == b {
		t.Errorf("two processes of one host are both %s", a)
	}
	api, s := newAPIServer(), &stage{t: t}
	first := newReplica(t, s, &wire{api: api}, short()).start(t.Context())
	until(t, time.Second, "the first leads", s.leads)
	again := newReplica(t, s, &wire{api: api}, short()).start(t.Context())
	time.Sleep(5 * time.Minute)
	if s.count() != 1 {
		t.Errorf("%d bodies ran", s.count())
	}
	first.crash()
	if took := until(t, time.Minute, "the other leads", func() bool { return s.last().replica == again }); took < short().duration-short().retry {
		t.Errorf("waited only %v for a holder of its own host", took)
	}
	first.stop()
	again.stop()
}

func releaseKeepsDuration(t *testing.T) {
	t.Helper()
	api, s, of := newAPIServer(), &stage{t: t}, short()
	first := newReplica(t, s, &wire{api: api}, of).start(t.Context())
	until(t, time.Second, "the first leads", s.leads)
	second := newReplica(t, s, &wire{api: api}, of).start(t.Context())
	time.Sleep(time.Minute)
	var released coordinationv1.LeaseSpec
	api.observe(func(spec coordinationv1.LeaseSpec) {
		if *spec.HolderIdentity == "" {
			released = spec
		}
	})
	first.stop()
	if released.LeaseDurationSeconds == nil || *released.LeaseDurationSeconds <= 0 || released.RenewTime == nil {
		t.Errorf("released as %s", describe(released))
	}
	if took := until(t, time.Minute, "the second leads", s.leads); took > of.retry*22/10+time.Second {
		t.Errorf("an empty holder was taken over from after %v", took)
	}
	got := api.spec()
	if *got.LeaseTransitions != *released.LeaseTransitions+1 || !got.AcquireTime.After(released.AcquireTime.Time) {
		t.Errorf("taken over as %s after %s", describe(got), describe(released))
	}
	acquired := got.AcquireTime
	time.Sleep(time.Minute)
	if got := api.spec(); !got.AcquireTime.Equal(acquired) || time.Since(got.RenewTime.Time) > 2*of.retry {
		t.Errorf("renewed as %s", describe(got))
	}
	second.stop()
}

func sixDigits(t *testing.T) {
	t.Helper()
	// A bubble begins at a whole second, which is when digits get lost.
	api, s := newAPIServer(), &stage{t: t}
	r := newReplica(t, s, &wire{api: api}, short()).start(t.Context())
	synctest.Wait()
	if w := api.written(); len(w) == 0 || !regexp.MustCompile(`"renewTime":"[^"]*\.000000Z"`).MatchString(w[0]) {
		t.Errorf("written at a whole second: %q", w)
	}
	r.stop()
	// When nothing that it writes is taken, it shows.
	r = newReplica(t, s, &wire{api: api}, short())
	r.wire.set(func(method string) fault {
		if method == http.MethodPut {
			return fault{status: http.StatusBadRequest}
		}
		return fault{}
	})
	r.start(t.Context())
	time.Sleep(time.Minute)
	if n := r.log.count("lease cannot be used"); r.failures(t, "invalid") < 10 || n != 1 || s.count() != 1 {
		t.Errorf("%v refused writes counted, %d logged; %d bodies", r.failures(t, "invalid"), n, s.count())
	}
	r.stop()
}

func electionGoesOn(t *testing.T) {
	t.Helper()
	api, s, of := newAPIServer(), &stage{t: t}, defaults()
	replicas := []*replica{
		newReplica(t, s, &wire{api: api}, of).start(t.Context()),
		newReplica(t, s, &wire{api: api}, of).start(t.Context()),
	}
	until(t, 5*time.Second, "one leads", s.leads)
	for range 3 {
		for _, r := range replicas {
			r.wire.always(fault{status: http.StatusServiceUnavailable})
		}
		time.Sleep(time.Minute)
		if s.leads() {
			t.Error("leads beyond the renew deadline")
		}
		if cause := s.last().cause; !errors.Is(cause, errLost) {
			t.Errorf("the body ended with %v", cause)
		}
		for _, r := range replicas {
			r.wire.set(nil)
		}
		until(t, of.duration, "one leads again", s.leads)
		time.Sleep(time.Minute)
	}
	for _, r := range replicas {
		r.stop()
	}
}

func hungRenewal(t *testing.T) {
	t.Helper()
	api, s, of := newAPIServer(), &stage{t: t}, short()
	first := newReplica(t, s, &wire{api: api}, of).start(t.Context())
	until(t, time.Second, "the first leads", s.leads)
	second := newReplica(t, s, &wire{api: api}, of).start(t.Context())
	time.Sleep(time.Minute)
	renewed := api.spec().RenewTime.Time
	first.wire.set(func(method string) fault { return fault{hang: method == http.MethodPut} })
	until(t, time.Minute, "the second leads", func() bool { return s.last().replica == second })
	lost, next := s.span(0), s.span(1)
	if after := lost.told.Sub(renewed); after > of.deadline || !errors.Is(lost.cause, errLost) {
		t.Errorf("told to end %v after the last renewal, by %v", after, lost.cause)
	}
	if after := next.began.Sub(renewed); after < of.duration {
		t.Errorf("the other begins %v after the last renewal", after)
	}
	first.stop()
	second.stop()
}

func recordedDuration(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		spec     coordinationv1.LeaseSpec
		from, to time.Duration
	}{
		{record("old", 60, time.Now()), time.Minute, time.Minute},
		{record("old", 86400, time.Now()), lease.MaxDuration, lease.MaxDuration},
		{coordinationv1.LeaseSpec{HolderIdentity: new("by hand")}, short().duration, short().duration},
		{coordinationv1.LeaseSpec{HolderIdentity: new("by hand"), LeaseDurationSeconds: new(int32(15))}, short().duration, short().duration},
		{coordinationv1.LeaseSpec{}, 0, 0},
	} {
		api, s, of := newAPIServer(), &stage{t: t}, short()
		api.put(c.spec)
		ctx, cancel := context.WithCancel(t.Context())
		r := newReplica(t, s, &wire{api: api}, of).start(ctx)
		if took := until(t, time.Hour, "it leads", s.leads); took < c.from || took > c.to+of.retry*22/10+100*time.Millisecond {
			t.Errorf("%s: took over after %v", describe(c.spec), took)
		}
		cancel()
		<-r.done
	}
}
