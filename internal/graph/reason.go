package graph

import (
	"context"
	"errors"
	"net/http"
)

// Reason is the class of a failure. The set is closed: the same word is the
// rule for the retry, the label of the metric and the field of the log.
type Reason string

// Reasons about a subscription or a call.
const (
	ReasonTransient        Reason = "transient"
	ReasonThrottled        Reason = "throttled"
	ReasonUnauthorized     Reason = "unauthorized"
	ReasonForbidden        Reason = "forbidden"
	ReasonQuota            Reason = "quota"
	ReasonGone             Reason = "gone"
	ReasonConflict         Reason = "conflict"
	ReasonInvalid          Reason = "invalid"
	ReasonHandshakeFailed  Reason = "handshake_failed"
	ReasonExpiryLimited    Reason = "expiry_limited"
	ReasonLeaseLost        Reason = "lease_lost"
	ReasonTermLost         Reason = "term_lost"
	ReasonStoreUnavailable Reason = "store_unavailable"
	ReasonMassChangeHeld   Reason = "mass_change_held"
	ReasonSilent           Reason = "silent"
	ReasonUnknown          Reason = "unknown"
)

// Reasons lists the closed set, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{
		ReasonTransient, ReasonThrottled, ReasonUnauthorized, ReasonForbidden, ReasonQuota,
		ReasonGone, ReasonConflict, ReasonInvalid, ReasonHandshakeFailed, ReasonExpiryLimited,
		ReasonLeaseLost, ReasonTermLost, ReasonStoreUnavailable, ReasonMassChangeHeld,
		ReasonSilent, ReasonUnknown,
	}
}

// Sentinels that the parts around a call give as the cause of an ended
// context, or return themselves.
var (
	// ErrSubscriptionGone says that Graph no longer knows the subscription.
	// It is never patched again; it is created anew.
	ErrSubscriptionGone = errors.New("subscription is gone")
	// ErrLeaseLost says that leadership ended while the call was under way.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTermLost says that the store has issued a newer term: another
	// process leads.
	ErrTermLost = errors.New("term lost: another process leads")
	// ErrStoreUnavailable says that the store did not take a write or give
	// an answer; nothing was changed.
	ErrStoreUnavailable = errors.New("store unavailable")
)

// Classify maps any error of a call onto the closed set; nil gives "". What
// is not known is ReasonUnknown, which is retried like a transient failure.
func Classify(err error) Reason {
	if err == nil {
		return ""
	}
	var fault *Error
	switch {
	case errors.Is(err, ErrLeaseLost):
		return ReasonLeaseLost
	case errors.Is(err, ErrTermLost):
		return ReasonTermLost
	case errors.Is(err, ErrStoreUnavailable):
		return ReasonStoreUnavailable
	case errors.Is(err, ErrSubscriptionGone):
		return ReasonGone
	case errors.As(err, &fault):
		return fault.reason()
	case errors.Is(err, context.DeadlineExceeded):
		return ReasonTransient
	}
	return ReasonUnknown
}

// reason classifies an answer of Graph. Texts come before statuses, because
// Graph gives the same text under different codes; the status embedded in an
// ExtensionError comes before the outer one, because the outer one may be 500.
func (e *Error) reason() Reason {
	if e.Status == 0 {
		return ReasonTransient
	}
	if r := e.reasonOfText(); r != "" {
		return r
	}
	status := e.Status
	if e.Embedded != 0 {
		status = e.Embedded
	}
	switch status {
	case http.StatusUnauthorized:
		return ReasonUnauthorized
	case http.StatusForbidden:
		return ReasonForbidden
	case http.StatusNotFound, http.StatusGone:
		return e.reasonOfAbsence()
	case http.StatusConflict:
		return ReasonConflict
	case http.StatusTooManyRequests:
		return ReasonThrottled
	case http.StatusRequestTimeout, http.StatusLocked:
		return ReasonTransient
	}
	switch {
	case status >= 500:
		return ReasonTransient
	case status >= 400:
		return ReasonInvalid
	}
	return ReasonUnknown
}

// reasonOfAbsence classifies a 404 that is not ErrSubscriptionGone: a proxy's
// page is transient; the workload's own NotFound on a create means that the
// resource does not exist, and anywhere else one GET has to decide.
func (e *Error) reasonOfAbsence() Reason {
	switch {
	case !e.Enveloped:
		return ReasonTransient
	case e.Operation == OperationCreate:
		return ReasonInvalid
	}
	return ReasonUnknown
}
