package msgraph

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// malformed is what Graph says of a body that it cannot read. It names no
// property, so only the body itself helps.
const malformed = "Could not process subscription creation payload"

// complain logs the body of a request that Graph could not read. The error
// goes back as well; it has no room for a body.
func (t *Tenant) complain(ctx context.Context, c call, fault *graph.Error) {
	if fault.Status != http.StatusBadRequest || !strings.Contains(fault.Message, malformed) {
		return
	}
	info, err := c.request(ctx)
	if err != nil {
		return
	}
	t.client.cfg.Logger.ErrorContext(ctx, "graph could not read the request body",
		"operation", c.operation, "tenant_id", t.id, "graph_request_id", fault.RequestID,
		"body", redactBody(info.Content, c.secrets))
}

// redactBody shows a request body without its secrets: no clientState, of a
// URL its origin, of a resource no query.
func redactBody(body []byte, secrets []string) string {
	var properties map[string]string
	if json.Unmarshal(body, &properties) != nil {
		return "(not shown: it is not an object of strings)"
	}
	for name, value := range properties {
		if name == "clientState" {
			value = "(removed)"
		}
		if path, _, found := strings.Cut(value, "?"); found {
			value = path + "?(removed)"
		}
		properties[name] = clean(value, secrets...)
	}
	shown, err := json.Marshal(properties)
	if err != nil {
		return "(not shown)"
	}
	return string(shown)
}
