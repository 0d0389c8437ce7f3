package webhook_test

import (
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// receive takes events. keep stores one durably, and only once for each id.
func receive(secret string, keep func(id string, event []byte) error) (http.HandlerFunc, error) {
	verifier, err := standardwebhooks.NewWebhook(secret) // NewWebhookRaw for one without whsec_
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case verifier.Verify(body, r.Header) != nil:
			w.WriteHeader(http.StatusUnauthorized)
		case keep(r.Header.Get("webhook-id"), body) != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}, nil
}
