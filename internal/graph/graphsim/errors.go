package graphsim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrUnknownSubscription is returned by the methods that steer a subscription
// which is not alive.
var ErrUnknownSubscription = errors.New("graphsim: no such live subscription")

// problem is an answer that refuses a call. There is one constructor for each,
// so that handlers never choose a status or a code.
type problem struct {
	status     int
	code       string
	message    string
	retryAfter time.Duration // 0: no Retry-After header
}

func (p *problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.status, p.code, p.message)
}

func invalid(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, code: "InvalidRequest", message: fmt.Sprintf(format, args...)}
}

func malformed() *problem {
	return invalid("Could not process subscription creation payload. Are all property names spelled and camelCased properly?")
}

func required(property string) *problem {
	return invalid("%s is a required property for subscription creation", property)
}

func lifecycleURLRequired() *problem {
	return invalid("lifecycleNotificationUrl is a required property for subscription creation on this resource " +
		"when the expirationDateTime value is set to greater than 1 hour")
}

func nothingToUpdate() *problem {
	return invalid("Subscription must contain either the 'expirationDateTime' or 'notificationUrl' property and its value.")
}

func validation(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, code: "ValidationError", message: fmt.Sprintf(format, args...)}
}

func handshakeStatus(status int) *problem {
	return validation("Subscription validation request failed. HTTP status code is '%s'. "+
		"Notification endpoint must respond with 200 OK to validation request.", statusName(status))
}

func handshakeUnreachable() *problem {
	return validation("Subscription validation request failed. " +
		"Notification endpoint must respond with 200 OK to validation request.")
}

func handshakeTimeout() *problem {
	return invalid("Subscription validation request timed out.")
}

func handshakeMismatch() *problem {
	return invalid("Subscription validation request failed. Response must exactly match validationToken query parameter.")
}

func tooLong(maximum time.Duration) *problem {
	return &problem{
		status: http.StatusBadRequest, code: "ExtensionError",
		message: fmt.Sprintf("Subscription expiration can only be %d minutes in the future.", maximum/time.Minute),
	}
}

// extension wraps a workload's own refusal of a create call.
func extension(status int, reason string) *problem {
	return &problem{
		status: status, code: "ExtensionError",
		message: fmt.Sprintf("Operation: Create; Exception: [Status Code: %s; Reason: %s]", statusName(status), reason),
	}
}

func quotaReached() *problem {
	return extension(http.StatusForbidden, "Maximum number of subscriptions has been reached")
}

func delegatedNeeded() *problem {
	return extension(http.StatusForbidden, "Forbidden")
}

func presenceConflict() *problem {
	//nolint:misspell // Graph's own spelling.
	return extension(http.StatusConflict, "A subscripton already exists. It must be deleted before a another can be made.")
}

func userNeeded() *problem {
	return &problem{
		status: http.StatusInternalServerError, code: "ExtensionError",
		message: "Operation: Create; Exception: [Specified method is not supported.]",
	}
}

func conflict(id string) *problem {
	return &problem{
		status: http.StatusConflict, code: "Conflict",
		message: fmt.Sprintf("Subscription Id <%s> already exists for the requested combination", id),
	}
}

func gone() *problem {
	return &problem{status: http.StatusNotFound, code: "ResourceNotFound", message: "The object was not found."}
}

func badToken(message string) *problem {
	return &problem{status: http.StatusUnauthorized, code: "InvalidAuthenticationToken", message: message}
}

func throttled(wait time.Duration) *problem {
	return &problem{
		status: http.StatusTooManyRequests, code: "TooManyRequests",
		message: "Please retry again later.", retryAfter: wait,
	}
}

func unsupportedMedia() *problem {
	return &problem{
		status: http.StatusUnsupportedMediaType, code: "RequestBodyRead",
		message: "The request body must be plain application/json without a content encoding.",
	}
}

func tooLarge() *problem {
	return &problem{
		status: http.StatusRequestEntityTooLarge, code: "RequestEntityTooLarge",
		message: "The request body is too large.",
	}
}

func unknownSegment(path string) *problem {
	return &problem{
		status: http.StatusBadRequest, code: "BadRequest",
		message: fmt.Sprintf("Resource not found for the segment '%s'.", path),
	}
}

func wrongMethod() *problem {
	return &problem{
		status: http.StatusMethodNotAllowed, code: "Request_BadRequest",
		message: "Specified HTTP method is not allowed for the request target.",
	}
}

func oddQuery() *problem {
	return &problem{
		status: http.StatusBadRequest, code: "BadRequest",
		message: "OData query options are not supported on subscriptions.",
	}
}

// refusal is the problem of a status alone, as a fault asks for it.
func refusal(status int) *problem {
	switch status {
	case http.StatusUnauthorized:
		return badToken("Access token has expired or is not yet valid.")
	case http.StatusForbidden:
		return delegatedNeeded()
	case http.StatusNotFound:
		return gone()
	case http.StatusConflict:
		return conflict("")
	case http.StatusTooManyRequests:
		return throttled(0)
	default:
		return &problem{status: status, code: statusName(status), message: "The simulator was told to answer so."}
	}
}

// statusName is a status as .NET spells it, such as ServiceUnavailable.
func statusName(status int) string {
	name := strings.ReplaceAll(http.StatusText(status), " ", "")
	if name == "" {
		return fmt.Sprint(status)
	}
	return name
}
