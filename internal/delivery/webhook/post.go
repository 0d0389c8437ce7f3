package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const userAgent = "graphsubd"

// maxDrain is how much of an answer is read, to use its connection again.
const maxDrain = 64 << 10

// post sends one event in one request.
func (s *Sink) post(ctx context.Context, e *event.Event, signers signers) error {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := s.newRequest(limited, e, signers, time.Now())
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("webhook: stopped while waiting for the answer: %w", ctx.Err())
	case limited.Err() != nil:
		return &transportError{fmt.Errorf("no answer within %s", s.timeout)}
	default:
		return withoutURL(err)
	}
	defer response.Body.Close()
	// The status is the answer, so a body that breaks off changes nothing.
	_, _ = io.CopyN(io.Discard, response.Body, maxDrain)
	return verdict(response, time.Now())
}

func (s *Sink) newRequest(ctx context.Context, e *event.Event, signers signers, now time.Time) (*http.Request, error) {
	var body bytes.Buffer
	if err := event.WriteJson(e, &body); err != nil {
		return nil, fmt.Errorf("webhook: encode event: %w", err)
	}
	signature, err := signers.sign(e.ID(), now, body.Bytes())
	if err != nil {
		return nil, fmt.Errorf("webhook: sign event: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, withoutURL(err)
	}
	request.Header.Set("Content-Type", event.ApplicationCloudEventsJSON)
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set(standardwebhooks.HeaderWebhookID, e.ID())
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	// Not sent. It lets the transport begin again on a new connection when the
	// consumer closed the idle one at that moment; the id makes that harmless.
	request.Header["Idempotency-Key"] = nil
	return request, nil
}
