package graphsim

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// validate runs the handshakes of all URLs at once and gives the first failure
// in the order of the URLs. Equal URLs are called once each. The caller of the
// API leaving does not end it: Graph goes on, and the subscription may appear.
func (s *Sim) validate(ctx context.Context, requestIDs, urls []string) error {
	failures := make([]error, len(urls))
	var wg sync.WaitGroup
	for i, target := range urls {
		wg.Go(func() { failures[i] = s.handshake(ctx, target, requestIDs[i]) })
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	for _, err := range failures {
		switch {
		case err == nil:
			s.counts.Handshakes++
		case first == nil:
			first = err
			fallthrough
		default:
			s.counts.HandshakesFailed++
		}
	}
	return first
}

// handshake asks one URL to echo a token: 200, text/plain, the token exactly.
func (s *Sim) handshake(ctx context.Context, target, requestID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.HandshakeTimeout)
	defer cancel()
	token := "Validation: Testing client application reachability for subscription Request-Id: " + requestID
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, withToken(target, token), http.NoBody)
	if err != nil {
		return handshakeUnreachable()
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := s.client.Do(req)
	if err != nil {
		return handshakeFailure(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return handshakeStatus(resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(token))+1))
	if err != nil {
		return handshakeFailure(err)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "text/plain" || string(body) != token {
		return handshakeMismatch()
	}
	return nil
}

func handshakeFailure(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return handshakeTimeout()
	}
	return handshakeUnreachable()
}

// withToken adds the validation token to a URL, whose own query stays as it is.
func withToken(target, token string) string {
	joint := "?"
	if strings.Contains(target, "?") {
		joint = "&"
	}
	return target + joint + "validationToken=" + url.QueryEscape(token)
}
