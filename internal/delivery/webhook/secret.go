package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// secretPrefix marks a secret that is written as base64.
	secretPrefix = "whsec_"
	// minKeyBytes is the shortest key that Standard Webhooks allows.
	minKeyBytes = 24
	// rereadAfter is how old secrets may get before they are read again.
	rereadAfter = time.Minute
)

// keyring holds what signs. It belongs to the goroutine of Send.
type keyring struct {
	read []func() (string, error)
	log  *slog.Logger

	signers signers
	readAt  time.Time
	refused bool // the consumer refused a signature since
	failing bool // to log the beginning of a failure only
}

// current gives the signers, read anew where that is due.
func (k *keyring) current(ctx context.Context, now time.Time) (signers, error) {
	if k.signers != nil && !k.refused && now.Sub(k.readAt) < rereadAfter {
		return k.signers, nil
	}
	fresh, err := k.load()
	switch {
	case err == nil:
		k.signers, k.failing = fresh, false
	case k.signers == nil:
		return nil, fmt.Errorf("webhook secret: %w", err)
	case !k.failing:
		k.failing = true
		k.log.WarnContext(ctx, "webhook secret cannot be read, the last one stays in use", "error", err)
	}
	k.readAt, k.refused = now, false
	return k.signers, nil
}

func (k *keyring) load() (signers, error) {
	fresh := make(signers, 0, len(k.read))
	for _, read := range k.read {
		secret, err := read()
		if err != nil {
			return nil, err
		}
		signer, err := newSigner(secret)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, signer)
	}
	return fresh, nil
}

// learn has the secrets read again where the consumer did not know them.
func (k *keyring) learn(results []error) {
	for _, err := range results {
		status, ok := errors.AsType[*statusError](err)
		if ok && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden) {
			k.refused = true
		}
	}
}

// newSigner reads a secret as Standard Webhooks writes it, or takes its bytes.
func newSigner(secret string) (*standardwebhooks.Webhook, error) {
	key := []byte(secret)
	if text, found := strings.CutPrefix(secret, secretPrefix); found {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, errors.New("what follows " + secretPrefix + " is no base64")
		}
	}
	if len(key) < minKeyBytes {
		return nil, fmt.Errorf("the key has %d bytes, it needs %d", len(key), minKeyBytes)
	}
	return standardwebhooks.NewWebhookRaw(key)
}

// signers sign with one secret each.
type signers []*standardwebhooks.Webhook

// sign gives the value of the signature header.
func (s signers) sign(id string, at time.Time, body []byte) (string, error) {
	signatures := make([]string, len(s))
	for i, signer := range s {
		var err error
		if signatures[i], err = signer.Sign(id, at, body); err != nil {
			return "", err
		}
	}
	return strings.Join(signatures, " "), nil
}
