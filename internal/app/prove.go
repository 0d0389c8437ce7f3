package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// The address of the handshake with ourselves. No subscription has that gen.
const (
	selfName = "self"
	selfGen  = "handshake"
)

// proveTimeout is what Graph allows an endpoint for its handshake.
const proveTimeout = 10 * time.Second

// prove makes the handshake that Graph would make, through the public URL, so
// that no create is sent that could only fail.
func prove(ctx context.Context, client *http.Client, keys *notification.Keys, publicURL string) error {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	token := "graphsubd asks itself: " + ulid.Make().String()
	target := publicURL + keys.Path(notification.PurposeNotifications, selfName, selfGen) + "?validationToken=" + url.QueryEscape(token)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, http.NoBody)
	if err != nil {
		return errors.New("publicURL cannot be called") // the cause would hold the token
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	response, err := client.Do(request)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the URL
		}
		return fmt.Errorf("handshake through %s: %w", publicURL, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(len(token))+1))
	switch {
	case err != nil:
		return fmt.Errorf("handshake through %s: %w", publicURL, err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("handshake through %s: answered %d, want 200: something in front of the receiver answers", publicURL, response.StatusCode)
	case string(body) != token:
		return fmt.Errorf("handshake through %s: the token came back changed", publicURL)
	}
	return nil
}
