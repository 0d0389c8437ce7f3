package renewal

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// picture is what the store knows: all that a term begins with.
type picture struct {
	wishes  []graph.Wish
	records []graph.Record
	limits  []graph.LearnedLimit
}

// reload stores the wishes of the configuration and reads back the complete
// set of all sources. The first time it reads the records too. A store that
// is away is asked again later; what is in memory goes on meanwhile.
func (t *term) reload(ctx context.Context) {
	if t.reloadBusy {
		t.reloadAgain = true
		return
	}
	t.reloadBusy, t.reloadAgain, t.reloadAt = true, false, time.Time{}
	first := !t.loaded
	wanted := t.m.wanted()
	t.job(ctx, func() func(time.Time) error {
		p, err := t.read(ctx, wanted.Wishes, first)
		return func(now time.Time) error {
			t.reloadBusy = false
			if t.reloadAgain {
				t.reloadAt = now
			}
			if err != nil {
				return t.reloadFailed(now, err)
			}
			t.reloadAttempt = 0
			t.setTenants(now, wanted.Tenants)
			t.take(now, p, first)
			return nil
		}
	})
}

func (t *term) read(ctx context.Context, wishes []graph.Wish, first bool) (p picture, err error) {
	store := t.m.cfg.Store
	if err = store.PutWishes(ctx, t.id, graph.SourceFile, wishes); err != nil {
		return p, err
	}
	if p.wishes, err = store.Wishes(ctx); err != nil || !first {
		return p, err
	}
	if p.limits, err = store.Limits(ctx); err != nil {
		return p, err
	}
	p.records, err = store.Records(ctx)
	return p, err
}

func (t *term) reloadFailed(now time.Time, err error) error {
	if fault := fatal(err); fault != nil {
		return fault
	}
	t.reloadAttempt++
	t.reloadAt = now.Add(backoff(t.m.cfg.Policy.CheckEvery, time.Minute, t.reloadAttempt, t.m.cfg.Rand.Float64()))
	t.log.Warn("wishes not stored, trying again", "retry_at", t.reloadAt, "error", err.Error())
	return nil
}

// take makes the entries fit the picture: one for each record, and one for
// each wish that has none yet.
func (t *term) take(now time.Time, p picture, first bool) {
	if first {
		for _, limit := range p.limits {
			t.limits[limitKey{limit.Tenant, limit.Type}] = limit
		}
		for _, r := range p.records {
			t.add(now, r)
		}
	}
	for _, tenant := range t.tenants {
		// What was held when another led stays so: it is not known here what
		// that one had let pass.
		g := &tenant.gate
		g.reloaded, g.before, g.lookAt = !first, g.held, now
	}
	t.wishes = make(map[string]*graph.Wish, len(p.wishes))
	for i := range p.wishes {
		wish := &p.wishes[i]
		t.wishes[wish.Name] = wish
		// A store without a record of it may be new, lost, or an older copy
		// that was put back: what we made before has to be found again and not
		// made twice. A wish that comes later in the term is new for sure.
		t.pend(now, wish, first)
	}
	if first {
		t.lifecycleAt, t.outageAt = now, now // what came while nobody led
	}
	t.loaded, t.forecastAt = true, now
	t.silence.at = now
	t.storeAway = false
	t.wakeAll(now)
	if first {
		t.log.Info("leading", "wishes", len(p.wishes), "records", len(p.records))
	}
	t.tellHolds(now)
}

// tellHolds tells of what was held before this term, or before its tenant came.
func (t *term) tellHolds(now time.Time) {
	counts := map[*tenant]*census{}
	for _, tenant := range t.tenants {
		if tenant.gate.held > 0 && !tenant.gate.told {
			counts[tenant] = &census{}
		}
	}
	if len(counts) > 0 {
		t.count(now, counts)
	}
	for tenant, c := range counts {
		t.tellHold(tenant, len(c.held), c.alive)
	}
	t.countHeld()
}
