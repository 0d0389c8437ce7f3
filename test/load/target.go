package load

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/test/harness"
)

// Target is a living subscription that changes can be told of.
type Target struct {
	// Path is that of its notification URL.
	Path string

	clientState, id, tenant string
}

// Targets gives a target for each subscription that lives.
func Targets(t harness.T, sim *harness.Simulator) (targets []Target) {
	t.Helper()
	keys, err := notification.NewKeys("test", [][]byte{[]byte(harness.SigningKey)})
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Subscriptions []struct {
			ID     string `json:"id"`
			Tenant string `json:"tenantId"`
			URL    string `json:"notificationUrl"`
		} `json:"subscriptions"`
	}
	sim.Control(http.MethodGet, "state", nil, &state)
	for _, s := range state.Subscriptions {
		address, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(address.Path, "/")
		if len(parts) != 5 {
			t.Fatalf("a notification URL has the path %q", address.Path)
		}
		targets = append(targets, Target{
			Path: address.Path, clientState: keys.ClientState(parts[2], parts[3]), id: s.ID, tenant: s.Tenant,
		})
	}
	return targets
}

// ResourceID is the id of the resource that the nth change is of.
func ResourceID(n int64) string { return fmt.Sprintf("AAMkAD%012d", n) }

// Body is a POST of some changes, from the nth on, about as Graph writes it:
// each of 640 bytes. No two changes are alike.
func (t *Target) Body(n int64, changes int) []byte {
	body := []byte(`{"value":[`)
	for i := range int64(changes) {
		if i > 0 {
			body = append(body, ',')
		}
		resource := "Users/622eaaff-0683-4862-9de4-f2ec83c2bd98/Messages/" + ResourceID(n+i)
		body = fmt.Appendf(body, `{"id":"00000000-0000-4000-8000-%012d","subscriptionId":%q,`+
			`"subscriptionExpirationDateTime":"2030-01-02T03:04:05.6789012+00:00","changeType":"created",`+
			`"resource":%[3]q,"resourceData":{"@odata.type":"#Microsoft.Graph.Message","@odata.id":%[3]q,`+
			`"@odata.etag":"W/\"CQAAABYAAAC%[1]d\"","id":%[4]q},"clientState":%[5]q,"tenantId":%[6]q}`,
			n+i, t.id, resource, ResourceID(n+i), t.clientState, t.tenant)
	}
	return append(body, `]}`...)
}
