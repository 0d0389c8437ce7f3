package httpapi

import (
	"errors"
	"net/http"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// Why a POST is refused. Anything else is the store's trouble.
var (
	errNotOurs   = errors.New("URL token is not ours")
	errTooLarge  = errors.New("body is larger than the limit")
	errEncoding  = errors.New("content encoding is not supported")
	errUnread    = errors.New("body is not what its headers say")
	errSlow      = errors.New("body did not arrive in time")
	errGone      = errors.New("client went away")
	errBusy      = errors.New("too many notifications at once")
	errUnstored  = errors.New("not stored")
	errBadTokens = errors.New("validation token is not fit to be echoed")
)

// refusal gives the status and the reason of an error. A body that can never
// be read is not answered 5xx, since Graph would send it again for hours.
func refusal(err error) (status int, reason notification.Reason) {
	switch {
	case errors.Is(err, errNotOurs):
		return http.StatusNotFound, notification.ReasonUnknownSubscription
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge, notification.ReasonMalformed
	case errors.Is(err, errEncoding):
		return http.StatusUnsupportedMediaType, notification.ReasonMalformed
	case errors.Is(err, errUnread), errors.Is(err, notification.ErrNotJSON), errors.Is(err, errBadTokens):
		return http.StatusBadRequest, notification.ReasonMalformed
	case errors.Is(err, errSlow):
		return http.StatusRequestTimeout, notification.Reason(graph.ReasonTransient)
	case errors.Is(err, errGone):
		return http.StatusServiceUnavailable, notification.Reason(graph.ReasonTransient)
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable, notification.Reason(graph.ReasonThrottled)
	}
	return http.StatusServiceUnavailable, notification.Reason(graph.ReasonStoreUnavailable)
}
