package renewal

import (
	"context"
	"slices"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// listsPerTenant is Graph's documented limit on listings, for one app in one
// tenant in each window of 20 s.
const listsPerTenant = 25

// list reads all subscriptions of a tenant beside the loop. Renewals never
// wait for it.
func (t *term) list(ctx context.Context, tenant *tenant) {
	tenant.listBusy = true
	began, client := time.Now(), tenant.Client
	t.job(ctx, func() func(time.Time) error {
		subs, err := client.List(ctx)
		return func(now time.Time) error {
			tenant.listBusy = false
			if err != nil {
				t.listFailed(ctx, now, tenant, err)
				return fatal(err)
			}
			if tenant.listReason != "" {
				t.log.InfoContext(ctx, "tenant is listed again", "tenant", tenant.Name)
			}
			tenant.listAttempt, tenant.listReason, tenant.listWanted = 0, "", false
			t.listed(now, tenant, began, subs)
			return nil
		}
	})
}

// listFailed backs off. What waits for the listing says so, once for each new
// reason; nothing is created or deleted from an inventory that was not seen.
func (t *term) listFailed(ctx context.Context, now time.Time, tenant *tenant, err error) {
	tenant.listAttempt++
	p, reason := tenant.policy, graph.Classify(err)
	tenant.listAt = now.Add(max(retryAfter(err), backoff(p.RetryBase, p.RetryMax, tenant.listAttempt, t.m.cfg.Rand.Float64())))
	if reason == tenant.listReason {
		return
	}
	tenant.listReason = reason
	t.log.WarnContext(ctx, "listing failed, trying again", "tenant", tenant.Name,
		"reason", string(reason), "retry_at", tenant.listAt, "error", detail(err))
	for e := range t.all {
		if e.tenant == tenant && !e.busy && e.record.ID == "" && e.record.Ambiguous {
			t.explain(ctx, e, reason, detail(err))
		}
	}
}

// explain stores why a record waits.
func (t *term) explain(ctx context.Context, e *entry, reason graph.Reason, text string) {
	r := e.record
	r.Reason, r.Detail = reason, text
	t.set(e, r)
	t.keep(ctx, e)
}

// keep stores a record that changed without a call.
func (t *term) keep(ctx context.Context, e *entry) {
	e.owe(append(e.owed(), graph.Change{Record: e.record}))
	e.action = Action{Verb: Wait}
	t.agenda.remove(e)
	if e.tenant != nil {
		e.tenant.ready.remove(e)
		e.tenant.gate.remove(e)
	}
	t.start(ctx, e)
}

// listed reduces a listing to what is ours and looks again at the tenant's
// entries. What is ours and has no record yet gets one: as a former gen it
// stays until its replacement lives, and without a wish it is let go.
func (t *term) listed(now time.Time, tenant *tenant, began time.Time, subs []graph.Subscription) {
	found := map[graph.Key][]graph.Subscription{}
	for _, sub := range subs {
		if key, ours := t.m.cfg.Identity.Ours(tenant.Name, sub); ours {
			found[key] = append(found[key], sub)
		}
	}
	tenant.listing = &Listing{At: began, Found: found}
	for key, twins := range found {
		if t.find(key) == nil {
			best, _ := tenant.listing.pick(key)
			t.addLive(now, tenant, key, best)
		}
		t.repair(now, tenant, t.find(key), twins)
	}
	for e := range t.all {
		if e.tenant == tenant && e.record.ID == "" {
			t.wake(now, e)
		}
	}
}

func (t *term) addLive(now time.Time, tenant *tenant, key graph.Key, sub graph.Subscription) {
	t.add(now, graph.Record{
		Name: key.Name, Gen: key.Gen, Tenant: tenant.Name, Resource: sub.Resource, ID: sub.ID,
		State: graph.StateActive, GrantedAt: now, ExpiresAt: sub.ExpiresAt, RenewAt: now,
	})
}

// repair lets go of duplicates: the recorded one is kept, and each other gets
// an entry like that of an older gen, which is deleted once the wish's own
// lives. It acts only where one listing shows the recorded one beside the
// others, since a listing that misses it proves nothing.
func (t *term) repair(now time.Time, tenant *tenant, kept *entry, twins []graph.Subscription) {
	if !slices.ContainsFunc(twins, func(sub graph.Subscription) bool { return sub.ID == kept.record.ID }) {
		return
	}
	for _, sub := range twins {
		key := graph.Key{Name: kept.record.Name, Gen: kept.record.Gen + graph.TwinMark + sub.ID}
		if sub.ID == kept.record.ID || t.find(key) != nil {
			continue
		}
		t.log.Warn("duplicate subscription is let go", "subscription", kept.record.Name,
			"subscription_id", kept.record.ID, "duplicate_id", sub.ID)
		t.addLive(now, tenant, key, sub)
	}
}
