package graphsim

import "time"

// State is the whole of the simulator at one moment.
type State struct {
	Now           time.Time         `json:"now"` // by the simulator's clock
	Seed          uint64            `json:"seed"`
	TimeScale     float64           `json:"timeScale"`
	ClockOffset   string            `json:"clockOffset"`
	Subscriptions []Subscription    `json:"subscriptions"` // in order of creation
	Endpoints     map[string]string `json:"endpoints"`     // healthy, slow or dropping, by origin
	Faults        int               `json:"faults"`        // active
	Queued        int               `json:"queued"`        // items not settled
	LastRequest   uint64            `json:"lastRequest"`   // number of the latest in the log
}

// Subscription is one living subscription. Its clientState is left out.
type Subscription struct {
	ID                       string    `json:"id"`
	Application              string    `json:"applicationId"`
	Tenant                   string    `json:"tenantId"`
	Kind                     Kind      `json:"kind"`
	Resource                 string    `json:"resource"`
	ChangeType               string    `json:"changeType"`
	NotificationURL          string    `json:"notificationUrl"`
	LifecycleNotificationURL string    `json:"lifecycleNotificationUrl,omitempty"`
	Expiration               time.Time `json:"expirationDateTime"`
	Rich                     bool      `json:"includeResourceData"`
	CertificateID            string    `json:"encryptionCertificateId,omitempty"`
	ImmutableIDs             bool      `json:"immutableIds"`
	Hidden                   bool      `json:"hidden"`
}

// State gives the state of this moment.
func (s *Sim) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{
		Now: s.now().UTC(), Seed: s.seed, TimeScale: s.cfg.TimeScale, ClockOffset: s.offset.String(),
		Subscriptions: []Subscription{}, Endpoints: map[string]string{}, Faults: len(s.faults),
		Queued: s.outbox.items, LastRequest: s.journal.last,
	}
	for _, sub := range s.live() {
		state.Subscriptions = append(state.Subscriptions, Subscription{
			ID: sub.id, Application: sub.app, Tenant: sub.tenant, Kind: sub.rule.kind, Resource: sub.resource,
			ChangeType: sub.changeType, NotificationURL: sub.notificationURL, LifecycleNotificationURL: sub.lifecycleURL,
			Expiration: sub.expires.UTC(), Rich: sub.rich, CertificateID: sub.certificate.id,
			ImmutableIDs: sub.immutableIDs, Hidden: sub.hidden,
		})
	}
	now := time.Now()
	for origin, e := range s.endpoints {
		state.Endpoints[origin] = string(e.judge(now))
	}
	return state
}
