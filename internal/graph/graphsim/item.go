package graphsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"
)

// LifecycleEvent is what Graph tells about a subscription itself.
type LifecycleEvent string

// The lifecycle events that Graph sends.
const (
	ReauthorizationRequired LifecycleEvent = "reauthorizationRequired"
	SubscriptionRemoved     LifecycleEvent = "subscriptionRemoved"
	Missed                  LifecycleEvent = "missed"
)

// Notification asks for change notifications. What is left out is drawn.
type Notification struct {
	SubscriptionID string          // empty: every live subscription
	Count          int             // items per subscription, default 1
	ChangeType     string          // default: one of the subscribed types
	ClientState    *string         // in place of the true one, as a forger would send it
	Content        json.RawMessage // the plaintext of rich items, default: a small resource
}

// item is one change or lifecycle item. What is below the gap is guarded by
// Sim.mu.
type item struct {
	url         string
	app, tenant string
	rich        bool
	body        json.RawMessage

	copies       int // POSTs that still hold it
	sent, proven bool
}

// envelope is what change and lifecycle items have in common. The offset of the
// date varies, the instant does not.
func (s *subscription) envelope() map[string]any {
	zones := []*time.Location{time.UTC, time.UTC, time.FixedZone("", 19800), time.FixedZone("", -28800)}
	v := map[string]any{
		"subscriptionId":                 s.id,
		"subscriptionExpirationDateTime": s.expires.In(pick(s.random, zones...)).Format(wireTime),
		"tenantId":                       s.tenant,
	}
	if s.clientState != "" {
		v["clientState"] = s.clientState
	}
	return v
}

// newItem draws one change of a subscription. The caller holds the lock.
func (s *Sim) newItem(sub *subscription, n Notification) (*item, error) {
	r := sub.random
	v := sub.envelope()
	v["changeType"] = n.ChangeType
	if n.ChangeType == "" {
		v["changeType"] = pick(r, sub.requestedTypes...)
	}
	if n.ClientState != nil {
		v["clientState"] = *n.ClientState
	}
	// The id of an item is missing in many of Graph's samples.
	if id := guid(r); r.IntN(4) > 0 {
		v["id"] = id
	}
	resource, data := sub.changed(s.now())
	v["resource"], v["resourceData"] = resource, data
	if sub.rule.kind == Presence {
		v["organizationId"] = sub.tenant
	}
	if sub.rich {
		content := n.Content
		if content == nil {
			var err error
			if content, err = json.Marshal(sub.content(data)); err != nil {
				return nil, fmt.Errorf("graphsim: encode content: %w", err)
			}
		}
		sealed, err := seal(sub.certificate, content)
		if err != nil {
			return nil, err
		}
		v["encryptedContent"] = sealed
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("graphsim: encode an item: %w", err)
	}
	return &item{url: sub.notificationURL, app: sub.app, tenant: sub.tenant, rich: sub.rich, body: body}, nil
}

// queueLifecycle queues a lifecycle event. The caller holds the lock.
func (s *Sim) queueLifecycle(sub *subscription, event LifecycleEvent) {
	v := sub.envelope()
	v["lifecycleEvent"] = event
	body, err := json.Marshal(v)
	if err != nil {
		s.cfg.Logger.Error("lifecycle event not encoded", "error", err)
		return
	}
	url := sub.lifecycleURL
	if url == "" {
		url = sub.notificationURL
	}
	if err := s.post([]*item{{url: url, app: sub.app, tenant: sub.tenant, body: body}}); err != nil {
		s.cfg.Logger.Error("lifecycle event not queued", "error", err)
	}
}

// changed draws a changed resource: its path in one of the spellings in use, and
// its resourceData, which is nil for some.
func (s *subscription) changed(now time.Time) (string, map[string]any) {
	r := s.random
	switch s.rule.kind {
	case Message:
		return s.outlook("Messages", "#Microsoft.Graph.Message")
	case Event:
		return s.outlook("Events", "#Microsoft.Graph.Event")
	case Contact:
		return s.outlook("Contacts", "#Microsoft.Graph.Contact")
	case User:
		return s.directory("Users", "#Microsoft.Graph.User", now)
	case Group:
		return s.directory("Groups", "#Microsoft.Graph.Group", now)
	case DriveItem:
		// A tap on the shoulder: the item is not named.
		return strings.TrimPrefix(s.resource, "/"), pick(r, nil, map[string]any{"@odata.type": "#Microsoft.Graph.DriveItem"})
	case List:
		return strings.TrimPrefix(s.resource, "/"), pick(r, nil, map[string]any{"@odata.type": "#Microsoft.Graph.ListItem"})
	case ChatMessage:
		return s.chatMessage()
	case CallRecord:
		return named("communications/callRecords/%s", "#microsoft.graph.callrecord", guid(r))
	case Presence:
		return s.presence()
	case TodoTask:
		path, data := named(s.owner()+"/%s", "#Microsoft.Graph.todoTask", token(r, 40))
		data["@odata.etag"] = etag(r)
		return path, data
	default:
		return named(s.owner()+"/%s", "#microsoft.graph."+string(s.rule.kind), guid(r))
	}
}

// owner is the subscribed path without query, in the caller's spelling.
func (s *subscription) owner() string {
	path, _, _ := strings.Cut(s.resource, "?")
	return strings.ReplaceAll(strings.Trim(path, "/"), "%", "%%")
}

func named(path, odataType, id string) (string, map[string]any) {
	path = fmt.Sprintf(path, id)
	return path, map[string]any{"@odata.type": odataType, "@odata.id": path, "id": id}
}

func etag(r *rand.Rand) string { return fmt.Sprintf(`W/"CQAAABYAAA%s"`, token(r, 12)) }

func (s *subscription) outlook(collection, odataType string) (string, map[string]any) {
	r := s.random
	user := s.user()
	if user == "" || user == "me" {
		user = guid(stream(0, "me", s.creator))
	}
	id := "AAMkA" + token(r, 60) + "="
	path := fmt.Sprintf(pick(r, "Users/%s/%s/%s", "Users/%s/%s/%s", "users('%s')/%s('%s')"), user, collection, id)
	if strings.HasPrefix(path, "users(") {
		path = strings.ReplaceAll(path, collection, strings.ToLower(collection))
	}
	return path, map[string]any{"@odata.type": odataType, "@odata.id": path, "@odata.etag": etag(r), "id": id}
}

func (s *subscription) directory(collection, odataType string, now time.Time) (string, map[string]any) {
	id := guid(s.random)
	if parts := segments(s.resource); len(parts) > 1 {
		id = parts[1]
	}
	path, data := named(collection+"/%s", odataType, id)
	data["organizationId"] = s.tenant
	data["eventTime"] = now.UTC().Format(wireTime)
	data["sequenceNumber"] = now.UnixNano() / 100
	return path, data
}

func (s *subscription) chatMessage() (string, map[string]any) {
	r := s.random
	id := fmt.Sprint(1_700_000_000_000 + r.Int64N(1_000_000_000_000))
	thread := "19:" + token(r, 32) + "@thread.v2"
	parts := segments(s.resource)
	path := fmt.Sprintf("chats('%s')/messages('%s')", thread, id)
	switch {
	case parts[0] == "teams" && len(parts) == 5:
		path = fmt.Sprintf("teams('%s')/channels('%s')/messages('%s')", parts[1], parts[3], id)
	case parts[0] == "teams":
		path = fmt.Sprintf("teams('%s')/channels('%s')/messages('%s')", guid(r), thread, id)
	case parts[0] == "chats" && len(parts) == 3:
		path = fmt.Sprintf("chats('%s')/messages('%s')", parts[1], id)
	}
	return path, map[string]any{
		"@odata.type": "#Microsoft.Graph.chatMessage", "@odata.id": path, "@odata.etag": fmt.Sprintf(`W/"%s"`, id), "id": id,
	}
}

func (s *subscription) presence() (string, map[string]any) {
	id := guid(s.random)
	if parts := segments(s.resource); len(parts) > 2 {
		id = parts[2]
	}
	path := fmt.Sprintf("communications/presences('%s')", id)
	return path, map[string]any{
		"@odata.type": "#Microsoft.Graph.presence", "@odata.id": path, "id": id,
		"activity": pick(s.random, "Available", "InACall", "Away"), "availability": pick(s.random, "Available", "Busy", "Away"),
	}
}

// content is the plaintext of a rich item.
func (s *subscription) content(data map[string]any) map[string]any {
	v := map[string]any{
		"subject": "Simulated " + token(s.random, 8),
		"body":    map[string]any{"contentType": "text", "content": "Hello World"},
	}
	maps.Copy(v, data)
	return v
}
