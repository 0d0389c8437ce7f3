package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	// retryAfter is a hint in seconds; Graph has a back-off of its own.
	retryAfter = "10"
	// refusalLogInterval keeps a broken hop from filling the log.
	refusalLogInterval = 10 * time.Second
)

// inbox is where items become durable. Both methods obey their context and are
// called concurrently.
type inbox interface {
	// Append stores all rows or none. It is nil only once they are durable;
	// a full backlog or a store that is away is an error.
	Append(ctx context.Context, rows []notification.Row) error
	// Owner finds whom a subscription id belongs to or belonged to; found is
	// false for an id that was never ours.
	Owner(ctx context.Context, subscriptionID string) (a notification.Address, found bool, err error)
}

// Receiver is the handler of the public listener. It serves POST to
// {base}/notifications/{name}/{gen}/{mac} and {base}/lifecycle/… and nothing
// else, where base is the path of the public URL.
type Receiver struct {
	cfg     Config
	keys    *notification.Keys
	inbox   inbox
	log     *slog.Logger
	metrics *metrics
	routes  chi.Router

	endpoint endpoint
	sources  sources
	inFlight chan struct{}
	budget   *semaphore.Weighted
	chunks   sync.Pool // of *[firstChunk]byte
	// storeAway remembers the state of the store, to log its changes only.
	storeAway atomic.Bool
	refusals  rate.Sometimes
	keysLost  atomic.Bool

	mu     sync.Mutex
	events map[string]bool // guarded by mu; unknown lifecycle events logged
}

// NewReceiver checks the configuration and registers the metrics.
func NewReceiver(cfg Config, keys *notification.Keys, inbox inbox) (*Receiver, error) {
	cfg = cfg.withDefaults()
	base, err := cfg.basePath()
	if err := errors.Join(err, cfg.validate()); err != nil {
		return nil, fmt.Errorf("receiver: %w", err)
	}
	r := &Receiver{
		cfg: cfg, keys: keys, inbox: inbox, log: cfg.Logger, routes: chi.NewRouter(),
		endpoint: endpoint{marks: cfg.Marks},
		sources:  sources{proxies: cfg.TrustedProxies, allowed: cfg.AllowedSources},
		inFlight: make(chan struct{}, cfg.MaxInFlight),
		budget:   semaphore.NewWeighted(cfg.MaxBuffered),
		refusals: rate.Sometimes{Interval: refusalLogInterval},
		events:   map[string]bool{},
	}
	r.metrics, err = newMetrics(cfg.Registerer, func() float64 {
		recent := r.endpoint.recent(time.Now())
		return recent.ratio()
	})
	if err != nil {
		return nil, fmt.Errorf("receiver: register metrics: %w", err)
	}
	r.routes.Use(guard(r.metrics.panics, r.log, failPlainly), r.below(base))
	for _, purpose := range []notification.Purpose{notification.PurposeNotifications, notification.PurposeLifecycle} {
		r.routes.Post("/"+string(purpose)+"/{name}/{gen}/{mac}", func(w http.ResponseWriter, req *http.Request) {
			r.serve(w, req, purpose)
		})
	}
	return r, nil
}

// ServeHTTP answers one request of Graph.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.routes.ServeHTTP(w, req) }

// SetKeysLost says that the keys which signed the living subscriptions' URLs
// are not configured. What cannot be verified then may well be Graph's, so it
// is answered 503, and Graph sends it again for hours, and not 404.
func (r *Receiver) SetKeysLost(lost bool) { r.keysLost.Store(lost) }

// serve answers a POST to a path of the right shape.
func (r *Receiver) serve(w http.ResponseWriter, req *http.Request, purpose notification.Purpose) {
	started := time.Now()
	to := notification.Address{Name: chi.URLParam(req, "name"), Gen: chi.URLParam(req, "gen")}
	if !r.keys.CheckPath(purpose, to.Name, to.Gen, chi.URLParam(req, "mac")) {
		leaveBody(w, req)
		r.metrics.count(VerdictRefused, notification.ReasonUnknownSubscription, 1)
		if r.keysLost.Load() {
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
			return
		}
		http.NotFound(w, req)
		return
	}
	if token, present, err := validationToken(req.URL.RawQuery); present {
		r.handshake(w, req, token, err)
		return
	}
	// Not for handshakes: whoever has the URL may see that it is served, and the
	// service itself looks, through publicURL, before it creates anything.
	if !r.sources.allow(req) {
		r.forbid(w, req)
		return
	}
	defer r.answered(req.Context(), started)

	body := buffer{budget: r.budget, chunks: &r.chunks, limit: r.cfg.MaxBody}
	defer body.release()
	items, err := r.receive(w, req, to, &body)
	if err != nil {
		if !body.complete {
			leaveBody(w, req)
		}
		r.refuse(w, req, items, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// forbid answers whoever is not one of the allowed sources, and says why in the
// log: a list that is out of date keeps Graph out.
func (r *Receiver) forbid(w http.ResponseWriter, req *http.Request) {
	leaveBody(w, req)
	r.metrics.count(VerdictRefused, notification.Reason(graph.ReasonForbidden), 1)
	client, _ := r.sources.client(req)
	ctx := req.Context()
	r.refusals.Do(func() {
		r.log.WarnContext(ctx, "request is not from an allowed source", "remote_address", client.String())
	})
	http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
}

// answered measures an answer to Graph, and tells a person when too many are
// late: Graph itself gives no sign before it delays or drops what it sends.
func (r *Receiver) answered(ctx context.Context, started time.Time) {
	now := time.Now()
	took := now.Sub(started)
	r.metrics.ack.Observe(took.Seconds())
	p, recent, changed := r.endpoint.note(now, took)
	if !changed {
		return
	}
	switch p {
	case paceGood:
		r.log.InfoContext(ctx, "answers are fast again", "slow_ratio", recent.ratio())
	case paceNear:
		r.log.WarnContext(ctx, "answers come close to what graph calls slow", "slow_ratio", recent.ratio())
	case paceSlow:
		r.log.ErrorContext(ctx, "answers are so slow that graph delays notifications", "slow_ratio", recent.ratio())
	case paceDropped:
		r.log.ErrorContext(ctx, "answers are so slow that graph drops notifications", "slow_ratio", recent.ratio())
	}
}

// receive takes one POST; nil means that all of it is durable. items is how
// many of them an error concerns: 1 where they were not counted.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request, to notification.Address, body *buffer) (items int, err error) {
	select {
	case r.inFlight <- struct{}{}:
		defer func() { <-r.inFlight }()
	default:
		return 1, errBusy
	}
	if err := body.read(w, req); err != nil {
		return 1, err
	}
	envelope, err := notification.Decode(body.data)
	if err != nil {
		return 1, err
	}
	r.metrics.countReceived(&envelope)
	if err := r.store(req.Context(), to, &envelope); err != nil {
		return len(envelope.Items) + len(envelope.Malformed), err
	}
	return 0, nil
}

// store judges and appends, all within AppendTimeout.
func (r *Receiver) store(ctx context.Context, to notification.Address, envelope *notification.Envelope) error {
	bounded, cancel := context.WithTimeout(ctx, r.cfg.AppendTimeout)
	defer cancel()
	at := time.Now().UTC().Truncate(time.Microsecond)
	judged, err := r.judge(bounded, to, envelope, at)
	if err == nil && len(judged.rows) > 0 {
		err = r.inbox.Append(bounded, judged.rows)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errGone
	case err != nil:
		if r.storeAway.CompareAndSwap(false, true) {
			r.log.WarnContext(ctx, "store refuses notifications", "error", err)
		}
		return fmt.Errorf("%w: %w", errUnstored, err)
	}
	if len(judged.rows) > 0 && r.storeAway.CompareAndSwap(true, false) {
		r.log.InfoContext(ctx, "store takes notifications again")
	}
	r.stored(ctx, &judged)
	return nil
}

// refuse answers what was not stored. Trouble of the store is logged where it
// begins and ends.
func (r *Receiver) refuse(w http.ResponseWriter, req *http.Request, items int, err error) {
	status, reason := refusal(err)
	r.metrics.count(VerdictRefused, reason, max(items, 1))
	if !errors.Is(err, errUnstored) {
		ctx := req.Context()
		r.refusals.Do(func() {
			r.log.WarnContext(ctx, "notification refused", "http_status", status, "reason", string(reason), "error", err)
		})
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	if status == http.StatusUnsupportedMediaType {
		w.Header().Set("Accept-Encoding", "gzip")
	}
	http.Error(w, http.StatusText(status), status)
}
