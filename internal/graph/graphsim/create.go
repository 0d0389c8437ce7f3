package graphsim

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// create is POST /subscriptions.
func (s *Sim) create(x *exchange, who caller) (answer, error) {
	members, err := readJSON(x.request)
	if err != nil {
		return answer{}, err
	}
	sub, asked, err := s.decode(payload(members))
	if err != nil {
		return answer{}, err
	}
	sub.app, sub.tenant = who.app, who.tenant
	sub.creator = guid(stream(s.seed, "principal", who.app, who.tenant))
	prefer := strings.ToLower(strings.Join(x.request.Header.Values("Prefer"), ","))
	sub.immutableIDs = strings.Contains(prefer, `idtype="immutableid"`)
	if sub.expires, err = s.admit(sub, asked); err != nil {
		return answer{}, err
	}
	urls := []string{sub.notificationURL}
	if sub.lifecycleURL != "" {
		urls = append(urls, sub.lifecycleURL)
	}
	if err := s.validate(x.request.Context(), []string{guid(x.random), guid(x.random)}, urls); err != nil {
		return answer{}, err
	}
	view, err := s.insert(sub)
	if err != nil {
		return answer{}, err
	}
	view["@odata.context"] = origin(x.request) + "/v1.0/$metadata#subscriptions/$entity"
	return jsonAnswer(http.StatusCreated, graphJSON, view)
}

// decode reads and checks all that the body says by itself.
func (s *Sim) decode(p payload) (*subscription, time.Time, error) {
	sub := &subscription{}
	if err := p.only("changeType", "notificationUrl", "lifecycleNotificationUrl", "resource", "expirationDateTime",
		"clientState", "includeResourceData", "encryptionCertificate", "encryptionCertificateId",
		"latestSupportedTlsVersion", "notificationQueryOptions", "notificationUrlAppId"); err != nil {
		return nil, time.Time{}, err
	}
	err := p.texts(map[string]*string{
		"changeType": &sub.changeType, "notificationUrl": &sub.notificationURL, "resource": &sub.resource,
		"lifecycleNotificationUrl": &sub.lifecycleURL, "clientState": &sub.clientState,
		"latestSupportedTlsVersion": &sub.tls, "notificationQueryOptions": &sub.queryOptions,
		"notificationUrlAppId": &sub.urlApp,
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	for _, m := range []struct{ name, value string }{
		{"changeType", sub.changeType}, {"notificationUrl", sub.notificationURL}, {"resource", sub.resource},
	} {
		if m.value == "" {
			return nil, time.Time{}, required(m.name)
		}
	}
	asked, err := p.expiry()
	if err != nil {
		return nil, time.Time{}, err
	}
	if sub.rich, err = p.flag("includeResourceData"); err != nil {
		return nil, time.Time{}, err
	}
	if sub.certificate, err = p.certificate(); err != nil {
		return nil, time.Time{}, err
	}
	return sub, asked, s.check(sub)
}

// check refuses what cannot be subscribed to, whoever asks.
func (s *Sim) check(sub *subscription) error {
	switch sub.tls {
	case "":
		sub.tls = "v1_2"
	case "v1_0", "v1_1", "v1_2":
	default:
		return validation("Invalid property value for LatestSupportedTlsVersion")
	}
	if len([]rune(sub.clientState)) > 128 {
		return invalid("clientState must not exceed 128 characters.")
	}
	if err := s.checkURL("notificationUrl", sub.notificationURL); err != nil {
		return err
	}
	if sub.lifecycleURL != "" {
		if err := s.checkURL("lifecycleNotificationUrl", sub.lifecycleURL); err != nil {
			return err
		}
	}
	if err := s.checkResource(sub); err != nil {
		return err
	}
	if err := sub.checkChangeTypes(); err != nil {
		return err
	}
	return sub.checkRich()
}

// checkResource finds the rule, and refuses what only a signed-in user may
// subscribe to.
func (s *Sim) checkResource(sub *subscription) error {
	sub.rule, sub.path = s.rules.find(sub.resource), canonical(sub.resource)
	switch {
	case sub.rule == nil || strings.Contains(sub.resource, "://"):
		return invalid("resource '%s' is not supported.", sub.resource)
	case sub.rule.queryOptions && sub.queryOptions == "":
		return required("notificationQueryOptions")
	case s.cfg.DelegatedOnly:
		return nil
	case sub.user() == "me":
		return userNeeded()
	case sub.rule.delegatedOnly:
		return delegatedNeeded()
	}
	return nil
}

func (s *subscription) checkChangeTypes() error {
	allowed := s.rule.changeTypes
	if allowed == nil {
		allowed = []string{"created", "updated", "deleted"}
	}
	s.requestedTypes = strings.Split(s.changeType, ",")
	for i, t := range s.requestedTypes {
		if !slices.Contains(allowed, t) || slices.Contains(s.requestedTypes[:i], t) {
			return invalid("changeType '%s' is not supported for resource '%s'.", s.changeType, s.resource)
		}
	}
	return nil
}

// checkRich checks the demands of resource data. Outlook wants $select, and
// refuses the options that would change what an item is.
func (s *subscription) checkRich() error {
	if !s.rich {
		if s.certificate.key != nil {
			return invalid("encryptionCertificate needs includeResourceData.")
		}
		return nil
	}
	if !s.rule.rich {
		if s.rule.kind == DriveItem || s.rule.kind == List {
			return invalid("File Services workload is not enabled for rich notifications.")
		}
		return invalid("The workload of this resource is not enabled for rich notifications.")
	}
	if s.certificate.key == nil {
		return required("encryptionCertificate")
	}
	if !s.rule.selectNeeded {
		return nil
	}
	_, query, _ := strings.Cut(strings.ToLower(s.resource), "?")
	for _, option := range []string{"$top", "$skip", "$orderby"} {
		if strings.Contains(query, option) {
			return invalid("%s is not supported for rich notifications of this resource.", option)
		}
	}
	if !strings.Contains(query, "$select=") {
		return invalid("$select is required for rich notifications of this resource.")
	}
	return nil
}

// admit checks what depends on the time and on other subscriptions, and gives
// the expiry that will be granted.
func (s *Sim) admit(sub *subscription, asked time.Time) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if sub.rule.lifecycleURL && sub.lifecycleURL == "" && asked.Sub(now) > s.scaled(time.Hour) {
		return time.Time{}, lifecycleURLRequired()
	}
	expires, err := s.granted(now, asked, sub.rule, sub.rich)
	if err != nil {
		return time.Time{}, err
	}
	return expires, s.room(sub)
}

// room refuses duplicates and what exceeds a quota. The caller holds the lock.
func (s *Sim) room(sub *subscription) error {
	s.sweep()
	if s.cfg.ConflictOnDuplicate || sub.rule.kind == Presence {
		if twin := s.twin(sub); twin != nil {
			if sub.rule.kind == Presence {
				return presenceConflict()
			}
			if s.cfg.ConflictShowsID {
				return conflict(twin.id)
			}
			return conflict("")
		}
	}
	if s.full(sub) {
		return quotaReached()
	}
	return nil
}

// twin finds a live subscription of the same owner, resource and change types.
func (s *Sim) twin(sub *subscription) *subscription {
	for _, other := range s.subs {
		if other.app == sub.app && other.tenant == sub.tenant && strings.EqualFold(other.resource, sub.resource) &&
			other.changeType == sub.changeType {
			return other
		}
	}
	return nil
}

// insert makes the subscription exist. What else was created during the
// handshake counts, so the room is checked once more.
func (s *Sim) insert(sub *subscription) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(sub); err != nil {
		return nil, err
	}
	birth := strings.Join([]string{sub.tenant, sub.app, sub.resource, sub.changeType}, "\x00")
	s.births[birth]++
	sub.random = stream(s.seed, "subscription", birth, s.births[birth])
	sub.id = guid(sub.random)
	s.ordinal++
	sub.ordinal = s.ordinal
	s.subs[sub.id] = sub
	s.count(sub, 1)
	s.counts.Created++
	if sub.expires.Before(s.nextExpiry) {
		s.nextExpiry = sub.expires
	}
	return sub.view(false), nil
}
