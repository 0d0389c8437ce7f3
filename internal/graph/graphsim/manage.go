package graphsim

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// overlap is the span in which a PATCH and a reauthorize must not meet.
const overlap = 10 * time.Minute

// get is GET /subscriptions/{id}.
func (s *Sim) get(x *exchange, sub *subscription) (answer, error) {
	s.mu.Lock()
	view := sub.view(false)
	s.mu.Unlock()
	view["@odata.context"] = origin(x.request) + "/v1.0/$metadata#subscriptions/$entity"
	return jsonAnswer(http.StatusOK, graphJSON, view)
}

// list is GET /subscriptions, one page.
func (s *Sim) list(x *exchange, who caller) (answer, error) {
	after, err := position(x.request.URL.Query().Get("$skiptoken"))
	if err != nil {
		return answer{}, err
	}
	page, last := s.page(who, after)
	body := map[string]any{
		"@odata.context": origin(x.request) + "/v1.0/$metadata#subscriptions",
		"value":          page,
	}
	if last != 0 {
		skip := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "after:%d", last))
		body["@odata.nextLink"] = origin(x.request) + x.request.URL.Path + "?$skiptoken=" + skip
	}
	return jsonAnswer(http.StatusOK, graphJSON, body)
}

// page gives the caller's subscriptions made after one ordinal, and the ordinal
// that the next page starts after, 0 on the last page.
func (s *Sim) page(who caller, after uint64) (page []map[string]any, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page = []map[string]any{}
	for _, sub := range s.live() {
		if sub.ordinal <= after || sub.hidden || sub.app != who.app || sub.tenant != who.tenant {
			continue
		}
		if len(page) == s.cfg.PageSize {
			return page, last
		}
		page, last = append(page, sub.view(true)), sub.ordinal
	}
	return page, 0
}

func position(skip string) (uint64, error) {
	if skip == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(skip)
	number, ok := strings.CutPrefix(string(text), "after:")
	after, parseErr := strconv.ParseUint(number, 10, 64)
	if err != nil || !ok || parseErr != nil {
		return 0, oddQuery()
	}
	return after, nil
}

// change is what a PATCH asks for.
type change struct {
	asked       time.Time // zero: not asked
	url         string
	certificate certificate
}

func (s *Sim) decodeChange(p payload) (change, error) {
	var c change
	err := p.only("expirationDateTime", "notificationUrl", "encryptionCertificate", "encryptionCertificateId")
	if err != nil {
		return c, err
	}
	if c.url, err = p.text("notificationUrl"); err != nil {
		return c, err
	}
	expiry, err := p.text("expirationDateTime")
	if err != nil {
		return c, err
	}
	if expiry == "" && c.url == "" {
		return c, nothingToUpdate()
	}
	if expiry != "" {
		if c.asked, err = p.expiry(); err != nil {
			return c, err
		}
	}
	if c.url != "" {
		if err = s.checkURL("notificationUrl", c.url); err != nil {
			return c, err
		}
	}
	if c.certificate, err = p.certificate(); err != nil {
		return c, err
	}
	if c.certificate.key != nil && c.asked.IsZero() {
		return c, nothingToUpdate()
	}
	return c, nil
}

// update is PATCH /subscriptions/{id}. A new notification URL has to pass the
// handshake first.
func (s *Sim) update(x *exchange, sub *subscription) (answer, error) {
	members, err := readJSON(x.request)
	if err != nil {
		return answer{}, err
	}
	c, err := s.decodeChange(payload(members))
	if err != nil {
		return answer{}, err
	}
	if c.certificate.key != nil && !sub.rich {
		return answer{}, invalid("encryptionCertificate needs includeResourceData.")
	}
	s.mu.Lock()
	moved := c.url != "" && c.url != sub.notificationURL
	s.mu.Unlock()
	if moved {
		if err := s.validate(x.request.Context(), []string{guid(x.random)}, []string{c.url}); err != nil {
			return answer{}, err
		}
	}
	view, err := s.apply(sub, c)
	if err != nil {
		return answer{}, err
	}
	view["@odata.context"] = origin(x.request) + "/v1.0/$metadata#subscriptions/$entity"
	return jsonAnswer(http.StatusOK, graphJSON, view)
}

// apply changes a subscription, unless it is gone by now.
func (s *Sim) apply(sub *subscription, c change) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(sub.id); err != nil {
		return nil, gone()
	}
	now := s.now()
	if !c.asked.IsZero() {
		if sub.rule.lifecycleURL && sub.lifecycleURL == "" && c.asked.Sub(now) > s.scaled(time.Hour) {
			return nil, lifecycleURLRequired()
		}
		expires, err := s.granted(now, c.asked, sub.rule, sub.rich)
		if err != nil {
			return nil, err
		}
		sub.expires = expires
		if expires.Before(s.nextExpiry) {
			s.nextExpiry = expires
		}
	}
	if c.url != "" {
		sub.notificationURL = c.url
	}
	if c.certificate.key != nil {
		sub.certificate = c.certificate
	}
	if !sub.reauthd.IsZero() && now.Sub(sub.reauthd) < s.scaled(overlap) {
		s.counts.Overlaps++
	}
	sub.patched = now
	s.counts.Renewed++
	return sub.view(false), nil
}

// remove is DELETE /subscriptions/{id}.
func (s *Sim) remove(_ *exchange, sub *subscription) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(sub.id); err != nil {
		return answer{}, gone()
	}
	s.discard(sub)
	s.counts.Deleted++
	return answer{status: http.StatusNoContent}, nil
}

// reauthorize is POST /subscriptions/{id}/reauthorize, which takes no body.
func (s *Sim) reauthorize(x *exchange, sub *subscription) (answer, error) {
	if x.request.ContentLength > 0 {
		return answer{}, invalid("The reauthorize action takes no request body.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(sub.id); err != nil {
		return answer{}, gone()
	}
	now := s.now()
	if !sub.patched.IsZero() && now.Sub(sub.patched) < s.scaled(overlap) {
		s.counts.Overlaps++
	}
	sub.reauthd = now
	s.counts.Reauthorized++
	return answer{status: http.StatusNoContent}, nil
}
