package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// Config says where the store is and what it keeps for how long. A zero
// duration means the default; a zero bound means none.
type Config struct {
	// Path is the SQLite file. Beside it stand its write-ahead log and a
	// lock file. Exactly one of Path and Postgres is set.
	Path     string
	Postgres *Postgres
	// Owner is unique to this process; it marks its claims.
	Owner string

	// MaxBacklogRows and MaxBacklogBytes bound what is not delivered yet.
	// Lifecycle items may go a tenth beyond, operational events without end.
	MaxBacklogRows, MaxBacklogBytes int64

	// MaxQuarantineRows and MaxQuarantineBytes bound the quarantine. What is
	// beyond is counted and not kept.
	MaxQuarantineRows, MaxQuarantineBytes int64

	// SeenWindow is how long evidence of an item is kept, 6 h by default:
	// Graph sends one again for 4 h.
	SeenWindow time.Duration
	// HoldFor is how long an item waits for its subscription id to become
	// known, counted from its receipt; 15 min by default. It has to exceed
	// the longest time from a create call to the storing of its answer.
	HoldFor time.Duration

	// OutageAfter is how long nobody may accept notifications before that is an
	// outage, 4 h by default: Graph tries for so long.
	OutageAfter time.Duration

	// RetainDelivered is for what is done with, 72 h by default.
	RetainDelivered time.Duration
	// RetainDeadLetters is for dead letters and the quarantine, 14 days by
	// default.
	RetainDeadLetters time.Duration
	// RetainAudit is for the audit trail, 90 days by default.
	RetainAudit time.Duration
	// MaxBytes bounds the database by removing what is done with, the oldest
	// first. What still has to be delivered is never removed.
	MaxBytes int64

	// PollInterval is how often the router looks for work that nothing woke
	// it for, 1 s by default. Retention looks ten times more rarely.
	PollInterval time.Duration

	// Accepts says whether a sink takes a notification; nil takes all. It is
	// asked in the middle of a transaction: it must not block, nor use the
	// store.
	Accepts func(sink string, n *notification.Notification) bool
	// Verdict, if set, is told of what the router found after the receiver
	// had accepted it: "duplicate" or "quarantined", the reason, and how
	// many. It must not block.
	Verdict func(verdict string, reason notification.Reason, n int)

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Postgres says how to reach a PostgreSQL server.
type Postgres struct {
	// URL gives the connection URL, postgres://… It is asked anew for the user
	// and the password of each connection, so that a changed password needs no
	// restart.
	URL func() (string, error)
	// Password, if set, gives the password of each connection in place of the
	// URL's. It may be a token, so it goes over TLS only.
	Password func(ctx context.Context) (string, error)
	// CAFile names the authorities that may have signed the server's
	// certificate, in PEM; "" is the system's. It asks for verified TLS where
	// the URL names no sslmode.
	CAFile string
}

func (c Config) withDefaults() Config {
	const day = 24 * time.Hour
	for _, field := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.SeenWindow, 6 * time.Hour},
		{&c.HoldFor, 15 * time.Minute},
		{&c.OutageAfter, 4 * time.Hour},
		{&c.RetainDelivered, 3 * day},
		{&c.RetainDeadLetters, 14 * day},
		{&c.RetainAudit, 90 * day},
		{&c.PollInterval, time.Second},
	} {
		if *field.value == 0 {
			*field.value = field.fallback
		}
	}
	if c.Accepts == nil {
		c.Accepts = func(string, *notification.Notification) bool { return true }
	}
	if c.Verdict == nil {
		c.Verdict = func(string, notification.Reason, int) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

// Validate names every field that cannot be used.
func (c Config) Validate() error {
	var faults []error
	if (c.Path == "") == (c.Postgres == nil) {
		faults = append(faults, errors.New("store: exactly one of Path and Postgres is needed"))
	}
	if c.Postgres != nil && c.Postgres.URL == nil {
		faults = append(faults, errors.New("store: Postgres.URL is nil"))
	}
	if c.Owner == "" {
		faults = append(faults, errors.New("store: Owner is empty"))
	}
	for name, value := range map[string]int64{
		"MaxBacklogRows": c.MaxBacklogRows, "MaxBacklogBytes": c.MaxBacklogBytes,
		"MaxQuarantineRows": c.MaxQuarantineRows, "MaxQuarantineBytes": c.MaxQuarantineBytes,
		"MaxBytes": c.MaxBytes, "SeenWindow": int64(c.SeenWindow), "HoldFor": int64(c.HoldFor),
		"OutageAfter":     int64(c.OutageAfter),
		"RetainDelivered": int64(c.RetainDelivered), "RetainDeadLetters": int64(c.RetainDeadLetters),
		"RetainAudit": int64(c.RetainAudit), "PollInterval": int64(c.PollInterval),
	} {
		if value < 0 {
			faults = append(faults, fmt.Errorf("store: %s is negative", name))
		}
	}
	return errors.Join(faults...)
}
