package graphsim

import (
	"math/rand/v2"
	"time"
)

// subscription is one live subscription. What is below the gap is guarded by
// Sim.mu, the rest never changes.
type subscription struct {
	id, app, tenant, creator  string
	ordinal                   uint64
	rule                      *rule
	path                      string // canonical resource
	resource, changeType      string
	lifecycleURL, clientState string
	rich                      bool
	tls, queryOptions, urlApp string
	requestedTypes            []string
	random                    *rand.Rand // for items; guarded by Sim.mu
	immutableIDs              bool

	notificationURL  string
	expires          time.Time
	certificate      certificate
	hidden           bool
	patched, reauthd time.Time
}

// wireTime is how Graph writes an instant: UTC, up to seven digits of a second.
const wireTime = "2006-01-02T15:04:05.9999999Z07:00"

// view is the subscription as the wire shows it. Listings withhold clientState.
func (s *subscription) view(listed bool) map[string]any {
	v := map[string]any{
		"id":                        s.id,
		"resource":                  s.resource,
		"applicationId":             s.app,
		"changeType":                s.changeType,
		"clientState":               orNull(s.clientState),
		"notificationUrl":           s.notificationURL,
		"notificationQueryOptions":  orNull(s.queryOptions),
		"notificationUrlAppId":      orNull(s.urlApp),
		"lifecycleNotificationUrl":  orNull(s.lifecycleURL),
		"expirationDateTime":        s.expires.UTC().Format(wireTime),
		"creatorId":                 s.creator,
		"includeResourceData":       nil,
		"latestSupportedTlsVersion": s.tls,
		"encryptionCertificate":     nil, // write-only in the documentation's samples
		"encryptionCertificateId":   orNull(s.certificate.id),
	}
	if s.rich {
		v["includeResourceData"] = true
	}
	if listed {
		v["clientState"] = nil
	}
	return v
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// granted is the expiry that Graph gives for one asked for. It refuses what the
// maximum of the kind forbids.
func (s *Sim) granted(now, asked time.Time, r *rule, rich bool) (time.Time, error) {
	maximum := r.max
	if rich && r.maxRich > 0 {
		maximum = r.maxRich
	}
	if configured, ok := s.cfg.MaxLifetimes[r.kind]; ok {
		maximum = configured
	}
	if asked.Sub(now) > s.scaled(maximum) {
		return time.Time{}, tooLong(maximum)
	}
	life := asked.Sub(now)
	if s.cfg.GrantedShare < 1 {
		life = time.Duration(float64(life) * s.cfg.GrantedShare)
	}
	return now.Add(max(life, s.scaled(s.cfg.MinLifetime))).Truncate(100 * time.Nanosecond), nil
}
