package msgraph

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/google/uuid"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Tokens that are valid and yet of no use.
var (
	errDelegated = errors.New("the token is a signed-in person's (it carries scp); " +
		"graphsubd needs application permissions: use a credential of the application")
	errOtherTenant = errors.New("the token belongs to another tenant than the one asked for; " +
		"a managed identity serves its own tenant only")
)

// tokenFault turns a failed token request into a *graph.Error without its
// operation: 401 where the login refused, 403 for a token of the wrong kind,
// the login's own status where it was throttled or out of order, and 0 where
// no answer of the login came. The message ends with a remedy.
func tokenFault(err error, secret string) *graph.Error {
	switch {
	case errors.Is(err, errDelegated):
		return &graph.Error{Status: http.StatusForbidden, Code: "DelegatedToken", Message: err.Error()}
	case errors.Is(err, errOtherTenant):
		return &graph.Error{Status: http.StatusUnauthorized, Code: "WrongTenant", Message: err.Error()}
	}
	if a, came := loginAnswer(err); came {
		if fault := loginFault(a, secret); fault != nil {
			return fault
		}
		return unreachable(fmt.Sprintf("the login host answered %d in words that are not Entra's: "+
			"check the proxy and the login endpoint", a.status), err)
	}
	words := clean(err.Error(), secret)
	return unreachable("no token: "+words+remedyOfFailure(words), err)
}

// unreachable keeps of err only what errors.Is may need, because its text can
// hold whatever the login said.
func unreachable(message string, err error) *graph.Error {
	return &graph.Error{Message: message, Err: opaque{message, err}}
}

// opaque shows another text than the error it wraps.
type opaque struct {
	text string
	err  error
}

func (o opaque) Error() string { return o.text }
func (o opaque) Unwrap() error { return o.err }

// unusable is a credential that cannot even be made: a person has to mend it,
// as with one that the login refuses.
func unusable(err error, secret string) *graph.Error {
	return &graph.Error{
		Status: http.StatusUnauthorized, Code: "UnusableCredential",
		Message: "no token: " + clean(err.Error(), secret) + "; check the credential of the app",
	}
}

// loginAnswer gives the answer of the login that an error of azidentity
// carries. Its body was bounded when it was read.
func loginAnswer(err error) (a answer, came bool) {
	failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	if !ok || failed.RawResponse == nil {
		return answer{}, false
	}
	body, err := runtime.Payload(failed.RawResponse)
	if err != nil {
		body = nil
	}
	return answer{status: failed.RawResponse.StatusCode, header: failed.RawResponse.Header, body: body}, true
}

// loginFault reads Entra's refusal; it is nil when the answer is not Entra's.
func loginFault(a answer, secret string) *graph.Error {
	var refusal struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
		Codes       []int  `json:"error_codes"`
		TraceID     string `json:"trace_id"`
	}
	// The page of a proxy leaves it empty.
	_ = json.Unmarshal(a.body, &refusal)
	if refusal.Error == "" {
		return nil
	}
	code := aadstsOf(refusal.Codes, refusal.Description)
	status := a.status
	if status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout {
		status = http.StatusUnauthorized
	}
	words, _, _ := strings.Cut(refusal.Description, "Trace ID:")
	return &graph.Error{
		Status:     status,
		Code:       clean(refusal.Error, secret),
		Message:    "no token: " + clean(words, secret) + "; " + remedyOf(code),
		RetryAfter: retryAfter(a.header, time.Now()),
		RequestID:  clean(refusal.TraceID, secret),
	}
}

// aadstsOf gives the number of Entra's error, "" when there is none.
func aadstsOf(codes []int, description string) string {
	if len(codes) > 0 {
		return fmt.Sprint(codes[0])
	}
	found := regexp.MustCompile(`AADSTS(\d+)`).FindStringSubmatch(description)
	if found == nil {
		return ""
	}
	return found[1]
}

func remedyOf(code string) string {
	switch code {
	case "7000215":
		return "check the client secret: it has to be the secret's value, not its id"
	case "7000222":
		return "the client secret has expired: make a new one"
	case "700016", "7000229":
		return "check clientID and cloud, and give admin consent to the application in this tenant"
	case "7000112":
		return "the application is disabled in this tenant: enable it"
	case "90002", "900021", "900023":
		return "check tenantID and cloud"
	case "90038", "900382", "500011":
		return "the tenant is of another cloud: check cloud"
	case "700024":
		return "check the clock of this machine"
	case "700027":
		return "upload this certificate to the application, and check the clock of this machine"
	case "70021", "700211", "700212", "700213":
		return "check issuer, subject and audience of the application's federated credential"
	}
	return "check the credential of the app"
}

// remedyOfFailure reads words, because azidentity keeps nothing else of a
// request that got no answer. It picks a hint only, never a class.
func remedyOfFailure(words string) string {
	switch {
	case strings.Contains(words, "x509: certificate signed by unknown authority"),
		strings.Contains(words, "x509: certificate is not trusted"):
		return "; trust the authority's certificate with endpoints.caFile"
	case strings.Contains(words, "x509: certificate has expired or is not yet valid"):
		return "; check the clock of this machine and the certificate of the login host"
	case strings.Contains(words, "token file"), strings.Contains(words, "no such file"):
		return "; check that the pod has the label and service account of the workload identity"
	}
	return "; check that the login host can be reached"
}

func isGUID(s string) bool { return uuid.Validate(s) == nil }
