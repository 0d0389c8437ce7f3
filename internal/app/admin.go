package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/renewal"
	"github.com/graphsubd/graphsubd/internal/store"
)

// buildAdmin makes the handler of the admin listener.
func (a *App) buildAdmin(opts Options) (err error) {
	a.rest, err = httpapi.NewAdmin(httpapi.AdminConfig{
		Tokens: adminTokens(a.cfg.Admin), Logger: a.component("admin"), Registerer: a.registry,
	}, &overview{
		store: a.store, term: &a.term, instance: a.cfg.Instance, version: opts.Version, holder: a.holder,
		startedAt: time.Now().UTC().Truncate(time.Microsecond), // as the store keeps instants
	})
	if err != nil {
		return err
	}
	a.admin = httpapi.NewServer(a.rest, a.component("admin"))
	a.admin.TLSConfig, err = a.serverTLS("listen.admin", a.cfg.Listen.Admin.TLS)
	return err
}

func adminTokens(cfg config.Admin) []httpapi.AdminToken {
	tokens := make([]httpapi.AdminToken, 0, len(cfg.Tokens))
	for _, token := range cfg.Tokens {
		tokens = append(tokens, httpapi.AdminToken{Name: token.Name, Role: token.Role, Current: token.Token.Current})
	}
	return tokens
}

// overview reads what the admin interface answers. Each of its methods reads
// several times, so a change in between may show in one part and not in
// another.
type overview struct {
	store *store.Store
	term  *atomic.Int64

	instance, version, holder string
	startedAt                 time.Time
}

// How long an approval waits for the leader's answer, and how often it looks.
const (
	approvalPatience = 5 * time.Second
	approvalLook     = 100 * time.Millisecond
)

// Status describes this process and its store.
func (o *overview) Status(ctx context.Context) (admin.Status, error) {
	subscriptions, err := o.Subscriptions(ctx)
	if err != nil {
		return admin.Status{}, err
	}
	totals, err := o.store.Totals(ctx)
	if err != nil {
		return admin.Status{}, fmt.Errorf("count: %w", err)
	}
	holder, term, since, err := o.store.Leader(ctx)
	if err != nil {
		return admin.Status{}, fmt.Errorf("read the leader: %w", err)
	}
	own := o.term.Load()
	status := admin.Status{
		Instance: o.instance, Version: o.version, Holder: o.holder, Leading: own != 0, Term: own,
		Leader:   admin.Leader{Holder: holder, Term: term, Since: admin.Instant(since)},
		Unrouted: totals.New + totals.Held, Backlog: totals.Pending, DeadLetters: totals.Dead,
		Quarantine: map[string]int64{}, OpenGaps: totals.OpenGaps,
		Store: admin.StoreStatus{Bytes: totals.Bytes}, StartedAt: o.startedAt,
	}
	for reason, n := range totals.Quarantine {
		status.Quarantine[string(reason)] = n
	}
	status.Describe(subscriptions)
	return status, nil
}

// Subscriptions gives every name that is wished for or known, in order.
func (o *overview) Subscriptions(ctx context.Context) ([]admin.Subscription, error) {
	wishes, err := o.store.Wishes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read wishes: %w", err)
	}
	records, err := o.store.Records(ctx)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	last, err := o.store.LastNotifications(ctx)
	if err != nil {
		return nil, fmt.Errorf("read last notifications: %w", err)
	}
	heard, err := o.heard(ctx, last)
	if err != nil {
		return nil, err
	}
	return admin.List(wishes, records, heard), nil
}

func (o *overview) heard(ctx context.Context, last map[string]time.Time) (admin.Heard, error) {
	receiving, err := o.store.Receiving(ctx)
	if err != nil {
		return admin.Heard{}, fmt.Errorf("read since when notifications can come: %w", err)
	}
	return admin.Heard{Now: time.Now(), Receiving: receiving, Last: last}, nil
}

// Subscription gives one name; found is false when it is neither wished for
// nor known.
func (o *overview) Subscription(ctx context.Context, name string) (s admin.Subscription, found bool, err error) {
	var wish *graph.Wish
	desired, wished, err := o.store.Wish(ctx, name)
	if err != nil {
		return s, false, fmt.Errorf("read wish: %w", err)
	}
	if wished {
		wish = &desired
	}
	records, err := o.store.RecordsOf(ctx, name)
	if err != nil {
		return s, false, fmt.Errorf("read records: %w", err)
	}
	last, err := o.store.LastNotification(ctx, name)
	if err != nil {
		return s, false, fmt.Errorf("read last notification: %w", err)
	}
	heard, err := o.heard(ctx, map[string]time.Time{name: last})
	if err != nil {
		return s, false, err
	}
	return admin.NewSubscription(name, wish, records, heard), wished || len(records) > 0, nil
}

// Plan gives the first steps of what the leader is about to do, by what the
// store knows, so that every process can tell.
func (o *overview) Plan(ctx context.Context, limit int) (admin.Plan, error) {
	wishes, err := o.store.Wishes(ctx)
	if err != nil {
		return admin.Plan{}, fmt.Errorf("read wishes: %w", err)
	}
	records, err := o.store.Records(ctx)
	if err != nil {
		return admin.Plan{}, fmt.Errorf("read records: %w", err)
	}
	plan := admin.Plan{At: time.Now().UTC(), Counts: map[string]int64{}, Items: []admin.PlanStep{}}
	for _, action := range admin.PlanActions() {
		plan.Counts[action] = 0
	}
	var held []graph.Key
	groups := map[admin.HoldGroup]int64{} // by all but their count
	for _, s := range renewal.Plan(plan.At, wishes, records) {
		plan.Counts[s.Kind]++
		if s.Held {
			held = append(held, s.Key)
			groups[admin.HoldGroup{Tenant: s.Tenant, Action: s.Kind}]++
		}
		if len(plan.Items) == limit {
			plan.More++
			continue
		}
		plan.Items = append(plan.Items, admin.PlanStep{
			Name: s.Key.Name, Gen: s.Key.Gen, Tenant: s.Tenant, Resource: s.Resource, Action: s.Kind, At: s.At.UTC(), Held: s.Held,
		})
	}
	if len(held) > 0 {
		plan.Hold = &admin.Hold{ID: graph.HoldID(held), Count: int64(len(held)), Groups: make([]admin.HoldGroup, 0, len(groups))}
		for group, n := range groups {
			group.Count = n
			plan.Hold.Groups = append(plan.Hold.Groups, group)
		}
		slices.SortFunc(plan.Hold.Groups, func(a, b admin.HoldGroup) int {
			return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Action, b.Action))
		})
	}
	return plan, nil
}

// Approve gives the approval to the leader by way of the store, and waits a
// little for its answer.
func (o *overview) Approve(ctx context.Context, caller, id string) (admin.Approval, bool, error) {
	plan, err := o.Plan(ctx, 1)
	if err != nil {
		return admin.Approval{}, false, err
	}
	if plan.Hold == nil || plan.Hold.ID != id {
		return admin.Approval{}, false, nil
	}
	command, err := o.store.PutCommand(ctx, graph.Command{Action: graph.CommandApprove, Argument: id, By: caller})
	if err != nil {
		return admin.Approval{}, false, fmt.Errorf("store the approval: %w", err)
	}
	look := time.NewTicker(approvalLook)
	defer look.Stop()
	for patience := time.After(approvalPatience); ; {
		state, result, _, err := o.store.CommandState(ctx, command)
		switch {
		case err != nil:
			return admin.Approval{}, false, fmt.Errorf("look for the answer of the leader: %w", err)
		case state == graph.CommandDone:
			return admin.Approval{State: "done", Result: result}, true, nil
		case state == graph.CommandConflict:
			return admin.Approval{}, false, nil
		}
		select {
		case <-patience:
			return admin.Approval{State: "pending", Result: "the leader has not answered yet, and does it when it can"}, true, nil
		case <-ctx.Done():
			return admin.Approval{}, false, context.Cause(ctx)
		case <-look.C:
		}
	}
}
