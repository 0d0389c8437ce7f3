package msgraph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	abstractions "github.com/microsoft/kiota-abstractions-go"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// call is one call to Graph, to be attempted once or twice.
type call struct {
	operation graph.Operation
	limit     int64    // of the answer, in bytes
	secrets   []string // what it sends and no text may show
	request   func(ctx context.Context) (*abstractions.RequestInformation, error)
	// read takes the body of a success; its error means that the answer is
	// not to be believed.
	read func(body []byte) error
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes the call. A 401 of Graph is answered with a new token and one more
// attempt, because the roles of an application are baked into its token and a
// token can be revoked; nothing else is tried twice.
func (t *Tenant) do(ctx context.Context, c call) error {
	token, err := t.attempt(ctx, c)
	fault, failed := errors.AsType[*graph.Error](err)
	if token == "" || !failed || fault.Status != http.StatusUnauthorized {
		return err
	}
	t.client.cfg.Logger.InfoContext(ctx, "token refused by graph, taking a new one",
		"operation", c.operation, "tenant_id", t.id, "graph_request_id", fault.RequestID)
	t.tokens.forget(ctx, token)
	_, err = t.attempt(ctx, c)
	return err
}

// attempt makes the call once, within its time-out, and gives the token that
// was used, "" when the call did not come so far.
func (t *Tenant) attempt(ctx context.Context, c call) (token string, err error) {
	timeout := t.client.cfg.CallTimeout
	if c.operation == graph.OperationCreate {
		timeout = t.client.cfg.CreateTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("no answer within %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()
	started := time.Now()
	defer func() { t.client.metrics.observe(c.operation, err, time.Since(started)) }()

	token, err = t.tokens.take(ctx)
	if err != nil {
		return "", withoutToken(ctx, c.operation, err)
	}
	request, err := t.client.newRequest(ctx, c, token)
	if err != nil {
		return token, silence(ctx, c.operation, err)
	}
	received, err := t.client.exchange(request, c.limit)
	if err != nil {
		return token, silence(ctx, c.operation, err)
	}
	return token, t.judge(ctx, c, received, append([]string{token}, c.secrets...))
}

// withoutToken completes the error of a token. One that is due to the end of
// ctx is told by its cause.
func withoutToken(ctx context.Context, operation graph.Operation, err error) *graph.Error {
	if fault, ok := errors.AsType[*graph.Error](err); ok && ctx.Err() == nil {
		fault.Operation, fault.Unsent = operation, true
		return fault
	}
	fault := silence(ctx, operation, err)
	fault.Unsent = true
	return fault
}

// newRequest turns the SDK's request into one of net/http.
func (c *Client) newRequest(ctx context.Context, made call, token string) (*http.Request, error) {
	info, err := made.request(ctx)
	if err != nil {
		return nil, err
	}
	address, err := info.GetUri()
	if err != nil {
		return nil, errors.New("the address of the call cannot be built")
	}
	var body io.Reader
	if len(info.Content) > 0 {
		body = strings.NewReader(string(info.Content))
	}
	request, err := http.NewRequestWithContext(ctx, info.Method.String(), address.String(), body)
	if err != nil {
		return nil, err
	}
	for _, key := range info.Headers.ListKeys() {
		for _, value := range info.Headers.Get(key) {
			request.Header.Add(key, value)
		}
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("User-Agent", "graphsubd")
	request.Header.Set("Client-Request-Id", c.requestID(made.operation))
	return request, nil
}

// requestID names a request for support. That of a write carries term and
// holder, so that Graph's log shows which process wrote.
func (c *Client) requestID(operation graph.Operation) string {
	id := uuid.NewString()
	if operation == graph.OperationGet || operation == graph.OperationList {
		return id
	}
	stamp := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '-' || r == '.' || r == '_' || isAlphanumeric(r)) {
			return r
		}
		return '-'
	}, c.cfg.Stamp())
	if stamp == "" {
		return id
	}
	return stamp[:min(len(stamp), 80)] + "." + id
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// exchange sends the request and reads the answer whole. A failure whose body
// broke off still has its status; a success without its body is no answer.
func (c *Client) exchange(request *http.Request, limit int64) (answer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readBounded(response.Body, limit)
	received := answer{status: response.StatusCode, header: response.Header, body: body}
	if err != nil && (received.ok() || request.Context().Err() != nil) {
		return answer{}, err
	}
	return received, nil
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// judge tells a success from a failure. A success that is not JSON is some
// proxy's page: whether the call took effect is then not known.
func (t *Tenant) judge(ctx context.Context, c call, a answer, secrets []string) error {
	now := time.Now()
	if !a.ok() {
		fault := refusal(c.operation, a, now, secrets)
		if fault.Enveloped {
			t.client.measureSkew(a.header, now)
		}
		t.complain(ctx, c, fault)
		return fault
	}
	if len(a.body) > 0 && !json.Valid(a.body) {
		return &graph.Error{Operation: c.operation, Err: fmt.Errorf("status %d: %w", a.status, errNotJSON)}
	}
	t.client.measureSkew(a.header, now)
	if c.read == nil {
		return nil
	}
	if err := c.read(a.body); err != nil {
		return &graph.Error{Operation: c.operation, Err: fmt.Errorf("status %d: %w", a.status, err)}
	}
	return nil
}
