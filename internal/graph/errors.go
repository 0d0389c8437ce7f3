package graph

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Operation is a call to Graph; it is also the label of the metrics.
type Operation string

// The calls that graphsubd makes.
const (
	OperationList        Operation = "list"
	OperationGet         Operation = "get"
	OperationCreate      Operation = "create"
	OperationRenew       Operation = "renew"
	OperationReauthorize Operation = "reauthorize"
	OperationDelete      Operation = "delete"
)

// Operations lists every call.
func Operations() []Operation {
	return []Operation{
		OperationList, OperationGet, OperationCreate,
		OperationRenew, OperationReauthorize, OperationDelete,
	}
}

// Error is one failed call. Err is set when no answer came (Status is then 0).
//
// errors.Is(err, ErrSubscriptionGone) holds for a 404 on an existing
// subscription that carries Graph's own error envelope and no embedded
// status: an HTML or empty 404 is a proxy's and proves nothing.
type Error struct {
	Operation Operation
	Status    int    // HTTP status of the answer, 0 when there was none
	Code      string // error.code
	Message   string // error.message
	// Embedded is the workload's own status inside an ExtensionError, 0 when
	// there is none.
	Embedded int
	// Enveloped says that the answer had Graph's error envelope, with a code.
	Enveloped bool
	// Unsent says that the call never left, for want of a token, so that it
	// had no effect.
	Unsent bool
	// RetryAfter is how long Graph asks to wait, 0 when it did not say.
	RetryAfter time.Duration
	RequestID  string // Graph's request-id, for support
	Err        error  // the transport's error, when no answer came
}

// Error names the operation, the status and Graph's own words.
func (e *Error) Error() string {
	switch {
	case e.Unsent && e.Message != "":
		return fmt.Sprintf("%s subscription: not sent: %s", e.Operation, e.Message)
	case e.Unsent:
		return fmt.Sprintf("%s subscription: not sent: %v", e.Operation, e.Err)
	case e.Status == 0:
		return fmt.Sprintf("%s subscription: no answer from Graph: %v", e.Operation, e.Err)
	}
	text := fmt.Sprintf("%s subscription: Graph answered %d", e.Operation, e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.RequestID != "" {
		text += " (request-id " + e.RequestID + ")"
	}
	return text
}

// Unwrap gives the transport's error.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrSubscriptionGone) hold where Graph itself says
// that the subscription does not exist.
func (e *Error) Is(target error) bool {
	return target == ErrSubscriptionGone && e.Status == http.StatusNotFound && e.Enveloped &&
		e.Embedded == 0 && e.Operation != OperationCreate && e.Operation != OperationList
}

// NeedsGet says that the answer to a renewal leaves open whether the
// subscription still exists, so that one GET has to decide: the workload's
// own NotFound, or Outlook's ErrorInvalidParameter.
func (e *Error) NeedsGet() bool {
	if e.Operation != OperationRenew && e.Operation != OperationReauthorize {
		return false
	}
	return e.Embedded == http.StatusNotFound || e.Status == http.StatusGone ||
		strings.EqualFold(e.Code, "ErrorInvalidParameter")
}

// Ambiguous says that the call may have taken effect although it failed: no
// answer came, or one that an intermediary may have given.
func (e *Error) Ambiguous() bool {
	switch {
	case e.Unsent:
		return false
	case e.Status == 0, e.Status == http.StatusRequestTimeout:
		return true
	case e.Status >= 500:
		return e.Embedded == 0 && !e.is(unsupported)
	case e.Status == http.StatusNotFound && !e.Enveloped:
		return true
	}
	return false
}

// The texts that decide where a status does not. Graph's documentation asks
// not to branch on messages; these are the ones for which it leaves no choice.
const (
	handshakePrefix = "Subscription validation request"
	unsupported     = "Specified method is not supported"
	beyondMaximum   = "beyond allowed max"
	limitMessage    = "expiration can only be"
)

func (e *Error) is(text string) bool {
	return strings.Contains(strings.ToLower(e.Message), strings.ToLower(text))
}

func (e *Error) reasonOfText() Reason {
	switch {
	case e.is(handshakePrefix):
		return ReasonHandshakeFailed
	case e.is(limitMessage), e.is(beyondMaximum):
		return ReasonExpiryLimited
	case e.is(unsupported):
		return ReasonInvalid
	case e.Status == http.StatusForbidden && (e.is("maximum number") || e.is("limit") || e.is("quota")):
		return ReasonQuota
	}
	return ""
}

// ExpiryLimit gives the maximum lifetime that Graph names in an answer such as
// "Subscription expiration can only be 4230 minutes in the future.". It is in
// Graph's time; ok is false when the answer names no number.
func (e *Error) ExpiryLimit() (limit time.Duration, ok bool) {
	found := regexp.MustCompile(`(?i)can only be (\d{1,7}) minutes?`).FindStringSubmatch(e.Message)
	if found == nil {
		return 0, false
	}
	minutes, err := strconv.Atoi(found[1])
	if err != nil || minutes == 0 {
		return 0, false
	}
	return time.Duration(minutes) * time.Minute, true
}

// ConflictID gives the id that a 409 names, "" when it names none.
func (e *Error) ConflictID() string {
	if e.reason() != ReasonConflict {
		return ""
	}
	return regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`).FindString(e.Message)
}

// EmbeddedStatus reads the status that an ExtensionError wraps, as in
// "Operation: Create; Exception: [Status Code: Forbidden; Reason: …]". It is 0
// when there is none.
func EmbeddedStatus(message string) int {
	found := regexp.MustCompile(`\[Status Code: ([A-Za-z]+)`).FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	for status := http.StatusBadRequest; status < 600; status++ {
		if strings.EqualFold(strings.ReplaceAll(http.StatusText(status), " ", ""), found[1]) {
			return status
		}
	}
	return 0
}
