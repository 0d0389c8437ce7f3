package msgraph_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
)

const (
	opCreate = graph.OperationCreate
	opRenew  = graph.OperationRenew
	opGet    = graph.OperationGet
	opDelete = graph.OperationDelete
	opReauth = graph.OperationReauthorize
	opList   = graph.OperationList
)

// perform makes the call that the operation names.
func perform(ctx context.Context, tenant *msgraph.Tenant, operation graph.Operation) (err error) {
	switch operation {
	case opCreate:
		_, err = tenant.Create(ctx, wanted())
	case opRenew:
		_, err = tenant.Renew(ctx, idOne, graph.Renewal{ExpiresAt: wanted().ExpiresAt})
	case opGet:
		_, err = tenant.Get(ctx, idOne)
	case opDelete:
		err = tenant.Delete(ctx, idOne)
	case opReauth:
		err = tenant.Reauthorize(ctx, idOne)
	case opList:
		_, err = tenant.List(ctx)
	}
	return err
}

func TestFailures(t *testing.T) {
	wrapped := func(status string) string {
		return "Operation: Update; Exception: [Status Code: " + status + "; Reason: x]"
	}
	tests := []struct {
		name          string
		operation     graph.Operation
		status        int
		code, message string
		want          graph.Reason
	}{
		{"handshake failed", opCreate, 400, "ValidationError", "Subscription validation request failed. Notification endpoint must respond with 200 OK to validation request.", graph.ReasonHandshakeFailed},
		{"handshake timed out", opRenew, 400, "InvalidRequest", "Subscription validation request timed out.", graph.ReasonHandshakeFailed},
		{"TLS version", opCreate, 400, "ValidationError", "Invalid property value for LatestSupportedTlsVersion", graph.ReasonInvalid},
		{"malformed", opCreate, 400, "InvalidRequest", "Could not process subscription creation payload. Are all property names spelled and camelCased properly?", graph.ReasonInvalid},
		{"resource", opCreate, 400, "InvalidRequest", "resource 'x' is not supported.", graph.ReasonInvalid},
		{"not rich", opCreate, 400, "InvalidRequest", "File Services workload is not enabled for rich notifications.", graph.ReasonInvalid},
		{"expiry", opRenew, 400, "ExtensionError", "Subscription expiration can only be 4230 minutes in the future.", graph.ReasonExpiryLimited},
		{"quota", opCreate, 403, "ExtensionError", "Operation: Create; Exception: [Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]", graph.ReasonQuota},
		{"permission", opCreate, 403, "ExtensionError", "Operation: Create; Exception: [Status Code: Forbidden; Reason: Forbidden]", graph.ReasonForbidden},
		{"conflict", opCreate, 409, "Conflict", "Subscription Id " + idTwo + " already exists for the requested combination", graph.ReasonConflict},
		{"gone", opRenew, 404, "ResourceNotFound", "The object was not found.", graph.ReasonGone},
		{"gone on reauthorize", opReauth, 404, "ResourceNotFound", "", graph.ReasonGone},
		{"gone on delete", opDelete, 404, "ResourceNotFound", "The object was not found.", graph.ReasonGone},
		{"embedded 404", opRenew, 404, "ExtensionError", wrapped("NotFound"), graph.ReasonUnknown},
		{"no such list", opList, 404, "ResourceNotFound", "", graph.ReasonUnknown},
		{"wrong auth", opCreate, 500, "ExtensionError", "Operation: Create; Exception: [Specified method is not supported.]", graph.ReasonInvalid},
		{"embedded 503", opCreate, 500, "ExtensionError", wrapped("ServiceUnavailable"), graph.ReasonTransient},
		{"embedded 401 in a 500", opRenew, 500, "ExtensionError", wrapped("Unauthorized"), graph.ReasonUnauthorized},
		{"throttled", opGet, 429, "TooManyRequests", "Please retry again later.", graph.ReasonThrottled},
		{"empty message", opRenew, 503, "UnknownError", "", graph.ReasonTransient},
		{"bandwidth", opGet, 509, "bandwidthLimitExceeded", "", graph.ReasonTransient},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(reply{status: test.status, body: envelope(test.code, test.message)})
			err := perform(t.Context(), f.tenant(t), test.operation)
			fault := faultOf(t, err)
			if got := graph.Classify(err); got != test.want {
				t.Errorf("reason %q, want %q (%v)", got, test.want, err)
			}
			want := graph.Error{
				Operation: test.operation, Status: test.status, Code: test.code, Message: test.message,
				Embedded: graph.EmbeddedStatus(test.message), Enveloped: true, RequestID: "r1",
			}
			if *fault != want {
				t.Errorf("got %+v, want %+v", *fault, want)
			}
			if gone := errors.Is(err, graph.ErrSubscriptionGone); gone != (test.want == graph.ReasonGone) {
				t.Errorf("gone = %v", gone)
			}
			if len(f.requests()) != 1 {
				t.Errorf("%d requests: a failure was retried", len(f.requests()))
			}
		})
	}
}

func TestAnswersWithoutEnvelope(t *testing.T) {
	bodies := map[string]string{
		"empty": "", "HTML": "<html><h1>404 Not Found</h1></html>", "null": "null", "a list": "[1]",
		"error is a word": `{"error":"not_found"}`, "no code": `{"error":{"message":"nothing here"}}`,
		"another gateway's": `{"statusCode":404,"message":"Resource not found"}`,
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			f := newFake(reply{status: http.StatusNotFound, body: body})
			_, err := f.tenant(t).Renew(t.Context(), idOne, graph.Renewal{ExpiresAt: wanted().ExpiresAt})
			if fault := faultOf(t, err); fault.Enveloped || fault.Status != http.StatusNotFound {
				t.Errorf("got %+v", fault)
			}
			if errors.Is(err, graph.ErrSubscriptionGone) || graph.Classify(err) != graph.ReasonTransient {
				t.Errorf("%v proves nothing", err)
			}
		})
	}
}

func TestEnvelopeInOtherSpellings(t *testing.T) {
	f := newFake(
		reply{status: 404, body: `{"error":{"code":"ResourceNotFound","message":"x","innererror":{"request-id":"r2"}}}`},
		reply{status: 404, body: `{"error":{"code":"ResourceNotFound"}}`, header: map[string]string{"request-id": "r3"}},
		reply{status: 429, body: `{"error":{"code":"TooManyRequests","message":"x","innerError":{"code":"429"}}}`},
		reply{status: 404, body: `{"error":{"code":"ResourceNotFound","message":null,"innerError":"odd"}}`},
	)
	tenant := f.tenant(t)
	for _, want := range []string{"r2", "r3", "", ""} {
		fault := faultOf(t, tenant.Delete(t.Context(), idOne))
		if fault.RequestID != want || !fault.Enveloped {
			t.Errorf("got %+v, want request-id %q", fault, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	const date = "Wed, 02 Jan 2030 03:04:05 GMT"
	tests := map[string]struct {
		value, date string
		want        time.Duration
	}{
		"seconds":         {"120", "", 2 * time.Minute},
		"fraction":        {"2.128", "", 2128 * time.Millisecond},
		"date":            {"Wed, 02 Jan 2030 03:05:05 GMT", date, time.Minute},
		"past date":       {"Wed, 02 Jan 2030 03:03:05 GMT", date, 0},
		"date far away":   {"Wed, 02 Jan 2030 03:05:05 GMT", "", time.Hour},
		"negative":        {"-1", "", 0},
		"too long":        {"999999", "", time.Hour},
		"beyond a number": {"1e999", "", time.Hour},
		"beyond below":    {"-1e999", "", 0},
		"infinite":        {"inf", "", time.Hour},
		"not a number":    {"NaN", "", 0},
		"nonsense":        {"soon", "", 0},
		"absent":          {"", "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			header := map[string]string{"Retry-After": test.value, "Date": test.date}
			f := newFake(reply{status: 429, body: envelope("TooManyRequests", ""), header: header})
			fault := faultOf(t, f.tenant(t).Delete(t.Context(), idOne))
			if fault.RetryAfter != test.want {
				t.Errorf("RetryAfter = %v, want %v", fault.RetryAfter, test.want)
			}
		})
	}
}

func TestNoSecretInAnErrorOrALog(t *testing.T) {
	var logged bytes.Buffer
	echo := "Could not process subscription creation payload: clientState state-one, url https://hooks.invalid/notifications/a/g/mac?x=1," +
		" path /lifecycle/a/g/mac, Bearer "
	f := newFake()
	cfg := f.config()
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	var token string
	f.script = []reply{{status: 400, body: envelope("InvalidRequest", echo), before: func(r *http.Request) {
		token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}}}
	_, err := newClient(t, cfg).Tenant(tenantOne).Create(t.Context(), wanted())
	for _, secret := range []string{"state-one", "/g/mac", "x=1", secret, token, "subject eq"} {
		if strings.Contains(err.Error(), secret) || strings.Contains(logged.String(), secret) {
			t.Errorf("%q is shown in %v\n%s", secret, err, logged.String())
		}
	}
	if !strings.Contains(err.Error(), "https://hooks.invalid/(removed)") {
		t.Errorf("the host is gone as well: %v", err)
	}
	for _, part := range []string{"graph could not read the request body", "expirationDateTime", "2030-03-05T04:05:06Z", "created,updated"} {
		if !strings.Contains(logged.String(), part) {
			t.Errorf("%q is not in the log: %s", part, logged.String())
		}
	}
}

func TestNoTokenInAnEchoedMessage(t *testing.T) {
	f := newFake()
	f.claims = map[string]any{"fixed": true}
	f.script = []reply{{status: 400, body: envelope("InvalidRequest", jwt(map[string]any{"tid": tenantOne, "n": 1, "roles": []string{"Mail.Read"}, "fixed": true}))}}
	err := f.tenant(t).Delete(t.Context(), idOne)
	if !strings.Contains(err.Error(), "(removed)") || strings.Contains(err.Error(), "e30.") {
		t.Errorf("got %v", err)
	}
}

func TestALongMessageIsCut(t *testing.T) {
	f := newFake(reply{status: 400, body: envelope("InvalidRequest", strings.Repeat("ä\n", 5000))})
	fault := faultOf(t, f.tenant(t).Delete(t.Context(), idOne))
	if len(fault.Message) > 1100 || strings.Contains(fault.Message, "\n") {
		t.Errorf("message of %d bytes", len(fault.Message))
	}
}

func TestQueryStringOfALinkStaysOutOfErrors(t *testing.T) {
	cfg := newFake().config()
	cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		f := newFake(reply{status: 200, body: `{"value":[],"@odata.nextLink":"` + fakeGraph + `/v1.0/subscriptions?$skiptoken=SKIP"}`})
		if r.URL.RawQuery != "" {
			return nil, errors.New("connection reset")
		}
		return f.RoundTrip(r)
	})
	_, err := newClient(t, cfg).Tenant(tenantOne).List(t.Context())
	if err == nil || strings.Contains(err.Error(), "SKIP") || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("got %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
