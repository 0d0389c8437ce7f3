package renewal

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// client is Graph for one tenant. Every error is a *graph.Error or an error of
// the context. It is safe for concurrent use.
type client interface {
	Create(ctx context.Context, sub graph.Subscription) (graph.Subscription, error)
	Renew(ctx context.Context, id string, renewal graph.Renewal) (graph.Subscription, error)
	Get(ctx context.Context, id string) (graph.Subscription, error)
	Delete(ctx context.Context, id string) error
	// List gives every subscription that the app has in the tenant, or an
	// error: never a part.
	List(ctx context.Context) ([]graph.Subscription, error)
}

// identity makes and recognises what proves a subscription to be ours.
type identity interface {
	NotificationURL(name, gen string) string
	LifecycleURL(name, gen string) string
	ClientState(name, gen string) string
	// Ours says whose a listed subscription is. It is ours only with a valid
	// MAC in its URL and our own application id.
	Ours(tenant string, sub graph.Subscription) (graph.Key, bool)
}

// records is the durable state. Writes carry the term of leadership and give
// graph.ErrTermLost when a newer one was issued; any other failure is
// graph.ErrStoreUnavailable, and nothing was changed then.
type records interface {
	Wishes(ctx context.Context) ([]graph.Wish, error)
	PutWishes(ctx context.Context, term int64, source graph.Source, wishes []graph.Wish) error
	Records(ctx context.Context) ([]graph.Record, error)
	Save(ctx context.Context, term int64, change graph.Change) error
	Limits(ctx context.Context) ([]graph.LearnedLimit, error)
	LearnLimit(ctx context.Context, term int64, limit graph.LearnedLimit) error
	Lifecycle(ctx context.Context, limit int) ([]graph.LifecycleItem, error)
	SettleLifecycle(ctx context.Context, term int64, ids []string) error
	// LifecyclePending has a token when a lifecycle item, a command or an
	// outage waits.
	LifecyclePending() <-chan struct{}
	// Commands gives those that no leader has carried out.
	Commands(ctx context.Context) ([]graph.Command, error)
	SettleCommand(ctx context.Context, term int64, id string, state graph.CommandState, result string) error
	// TellOutages makes gaps of outages, up to limit of them, and gives them.
	TellOutages(ctx context.Context, term int64, limit int) ([]graph.Gap, error)
	// LastNotifications gives when the last change of each name came.
	LastNotifications(ctx context.Context) (map[string]time.Time, error)
	Receiving(ctx context.Context) (graph.Receiving, error)
}

// Tenant is one tenant and the registration that serves it.
type Tenant struct {
	Name string
	// App names the registration; tenants of one app share its budget.
	App    string
	Client client
	// Skew is how far Graph's clock is ahead of ours, by its last answer; nil
	// when nobody measures it.
	Skew func() time.Duration
	// Scale is how much faster Graph's time runs than ours, 1 in production.
	Scale float64
	// QuotaShare is the share of Graph's documented limits to use, in (0,1].
	QuotaShare float64
}

// Config is what a Manager needs. Every field is required unless it says
// otherwise.
type Config struct {
	Store    records
	Identity identity
	Rules    *graph.Rules
	Policy   Policy
	// Parallel is how many calls to Graph may be under way, 512 when 0.
	Parallel int
	// Prove returns once Graph can be expected to reach our listener, or an
	// error. No create is sent before it returned nil or ProveFor passed.
	Prove    func(ctx context.Context) error
	ProveFor time.Duration
	// Grace is how long a call that is under way may go on when the process
	// stops, 2 s when 0. A lost lease ends it at once.
	Grace time.Duration
	// Left says how long nobody else will lead, as far as this process knows;
	// for ever when nil. A write that does not fit in waits.
	Left func() time.Duration
	// AcceptReplacements says that a person knows that all subscriptions are
	// replaced: however many, it is no mass action.
	AcceptReplacements bool
	Rand               *rand.Rand
	Logger             *slog.Logger
	Registerer         prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.Parallel == 0 {
		c.Parallel = 512
	}
	if c.Grace == 0 {
		c.Grace = 2 * time.Second
	}
	if c.Left == nil {
		c.Left = unlimited
	}
	if c.ProveFor == 0 {
		c.ProveFor = 2 * time.Minute
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New(what))
		}
	}
	need(c.Store != nil && c.Identity != nil && c.Rules != nil && c.Prove != nil, "store, identity, rules and proof are required")
	need(c.Rand != nil && c.Logger != nil && c.Registerer != nil, "random source, logger and registerer are required")
	need(c.Policy.TriesLeft > 0 && c.Policy.RetryBase > 0 && c.Policy.RenewLatest < 1, "policy is incomplete")
	return errors.Join(faults...)
}
