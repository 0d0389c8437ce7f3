package msgraph_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// FuzzAnswer gives every call a foreign answer: it must come back as a whole
// value or as a *graph.Error, and only an envelope of Graph means gone.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		granted(idOne, "2030-03-05T04:05:06.1234567Z"),
		`{"value":[` + granted(idOne, "2030-03-05T04:05:06") + `],"@odata.nextLink":"` + fakeGraph + `/v1.0/subscriptions?$skiptoken=A"}`,
		envelope("ResourceNotFound", "Operation: Update; Exception: [Status Code: NotFound; Reason: x]"),
		`{"error":{"code":"ResourceNotFound"}}`, `{"value":[null,{}]}`, `{"value":{}}`, `{"id":7}`, "null", "[]", `"x"`, "",
		`{"error":"x"}`, "<html>", `{"expirationDateTime":"NA","id":{}}`,
	} {
		for _, status := range []int{200, 204, 404, 401, 429, 500} {
			f.Add(status, body, "1.5")
		}
	}
	f.Fuzz(func(t *testing.T, status int, body, wait string) {
		if status < 200 || status > 599 {
			return
		}
		// In a bubble, because a page of a listing waits as long as it is told.
		synctest.Test(t, func(t *testing.T) { answered(t, status, body, wait) })
	})
}

func answered(t *testing.T, status int, body, wait string) {
	t.Helper()
	answer := reply{status: status, body: body, header: map[string]string{"Retry-After": wait}}
	for _, operation := range graph.Operations() {
		err := perform(t.Context(), newFake(answer, answer).tenant(t), operation)
		if err == nil {
			if status >= 300 {
				t.Errorf("%s took a %d for a success", operation, status)
			}
			continue
		}
		fault := faultOf(t, err)
		if fault.Operation != operation || fault.RetryAfter < 0 || err.Error() == "" {
			t.Errorf("%s: %+v", operation, fault)
		}
		if errors.Is(err, graph.ErrSubscriptionGone) && (status != http.StatusNotFound || fault.Code == "") {
			t.Errorf("%s: gone by %d %q", operation, status, body)
		}
	}
}
