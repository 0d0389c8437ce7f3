package delivery_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	s1  = "11111111-1111-4111-8111-111111111111"
	t1  = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	app = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
)

func TestTypeOf(t *testing.T) {
	for _, test := range []struct{ odata, resource, change, want string }{
		{"#Microsoft.Graph.Message", "Users/u/Messages/m", "created", "MessageCreated"},
		{"#Microsoft.Graph.Message", "", "updated", "MessageUpdated"},
		{"#Microsoft.Graph.Event", "", "deleted", "EventDeleted"},
		{"#Microsoft.Graph.Contact", "", "created", "ContactCreated"},
		{"#Microsoft.Graph.User", "Users/u", "updated", "UserUpdated"},
		{"#microsoft.graph.group", "", "deleted", "GroupDeleted"},
		{"microsoft.graph.chatMessage", "", "created", "ChatMessageCreated"},
		{"#Microsoft.Graph.chatmessage", "", "created", "ChatMessageCreated"},
		{"#Microsoft.Graph.aadUserConversationMember", "chats('c')/members('m')", "created", "AadUserConversationMemberCreated"},
		{"#microsoft.graph.callRecords.callRecord", "", "created", "CallRecordCreated"},
		{"", "Users/u1/Messages/m1", "created", "MessageCreated"},
		{"", "users('u')/messages('m')", "deleted", "MessageDeleted"},
		{"", "users/u/mailFolders('inbox')/messages", "created", "MessageCreated"},
		{"", "teams('t')/channels('19:x@thread.tacv2')/messages('1')", "created", "ChatMessageCreated"},
		{"", "teams('t')/channels('c')/messages('1')/replies('2')", "updated", "ChatMessageUpdated"},
		{"", "chats/c/messages/1", "created", "ChatMessageCreated"},
		{"", "users/u/chats/c/messages/1", "created", "ChatMessageCreated"},
		{"", "/users/u/events/e", "updated", "EventUpdated"},
		{"", "users/u/contactFolders/f/contacts/c", "updated", "ContactUpdated"},
		{"", "Users/u", "updated", "UserUpdated"},
		{"", "groups('g')", "updated", "GroupUpdated"},
		{"", "drives/d1/root/", "updated", "DriveItemUpdated"},
		{"", "users/u/drive/root", "updated", "DriveItemUpdated"},
		{"", "sites/s/lists/l", "updated", "ListUpdated"},
		{"", "communications/presences('p')", "updated", "PresenceUpdated"},
		{"", "communications/callRecords/x", "created", "CallRecordCreated"},
		{"", "communications/presences?$filter=id in ('a','b')", "updated", "PresenceUpdated"},
		{"", "users('a/messages')/events('e')", "created", "EventCreated"},
		{"", "users/u/todo/lists/l/tasks/k", "created", "TodoTaskCreated"},
		// A member of a chat or of a group is not the chat or the group.
		{"", "chats('c')/members('m')", "created", "Change"},
		{"", "chats/c/members/m", "created", "Change"},
		{"", "groups/g/members", "updated", "Change"},
		// Nothing usable.
		{"", "", "created", "Change"},
		{"", "security/alerts/a", "updated", "Change"},
		{"#Microsoft.Graph.Message", "", "moved", "Change"},
		{"#Microsoft.Graph.Message", "", "", "Change"},
		{"#Evil.Corp.Message", "users/u/events/e", "created", "EventCreated"},
		{"#Microsoft.Graph.", "users/u/events/e", "created", "EventCreated"},
		{"#Microsoft.Graph.a b\n", "users/u/events/e", "created", "EventCreated"},
		{"#Microsoft.Graph." + strings.Repeat("x", 65), "users/u/events/e", "created", "EventCreated"},
	} {
		got := delivery.TypeOf(&notification.Item{ODataType: test.odata, Resource: test.resource, ChangeType: test.change})
		if got != "Microsoft.Graph."+test.want {
			t.Errorf("%q %q %q is %s, want Microsoft.Graph.%s", test.odata, test.resource, test.change, got, test.want)
		}
	}
}

func change() *notification.Notification {
	return &notification.Notification{ID: "01J0000000000000000000000A", Row: notification.Row{
		Address: notification.Address{Name: "orders-inbox", Gen: "g"}, SubscriptionID: s1, TenantID: t1,
		ReceivedAt: time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC), Kind: notification.KindChange, Origin: notification.OriginGraph,
		Evidence: notification.Evidence{{0xab, 0xcd}},
		Item: []byte(`{"subscriptionId":"` + s1 + `","tenantId":"` + t1 + `","changeType":"created","resource":"Users/u1/Messages/m1&x",` +
			`"resourceData":{"@odata.type":"#Microsoft.Graph.Message","id":"m1"}}`),
	}}
}

func appOf(tenant string) string {
	if tenant == t1 {
		return app
	}
	return ""
}

func mustEvent(t *testing.T, n *notification.Notification) event.Event {
	t.Helper()
	e, err := delivery.Event(n, appOf)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEventOfAChange(t *testing.T) {
	n := change()
	e := mustEvent(t, n)
	var raw bytes.Buffer
	if err := event.WriteJson(&e, &raw); err != nil {
		t.Fatal(err)
	}
	want := `{"specversion":"1.0","id":"abcd0000000000000000000000000000","source":"/tenants/` + t1 + `/applications/` + app +
		`","type":"Microsoft.Graph.MessageCreated","subject":"Users/u1/Messages/m1&x","datacontenttype":"application/json",` +
		`"time":"2030-01-02T03:04:05.678901Z","data":` + string(n.Item) + `,"subscriptionname":"orders-inbox"}`
	if raw.String() != want {
		t.Errorf("got  %s\nwant %s", raw.String(), want)
	}
}

func TestEventOfAnOperation(t *testing.T) {
	data := []byte(`{"subscription":"orders-inbox","cause":"missed"}`)
	n := &notification.Notification{ID: "01J0000000000000000000000B", Row: notification.Row{
		Address: notification.Address{Name: "orders-inbox"}, TenantID: t1, ReceivedAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		Kind: notification.KindOperation, Type: "io.graphsubd.gap.opened", Item: data,
	}}
	e := mustEvent(t, n)
	if e.ID() != n.ID || e.Type() != "io.graphsubd.gap.opened" || e.Subject() != "orders-inbox" ||
		e.Source() != "/tenants/"+t1+"/applications/"+app || !bytes.Equal(e.Data(), data) {
		t.Errorf("event %s", e)
	}
	n.TenantID = ""
	if e := mustEvent(t, n); e.Source() != "/graphsubd" {
		t.Errorf("source %q without a tenant", e.Source())
	}
}

func TestEventVariants(t *testing.T) {
	n := change()
	n.TenantID = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
	if got := mustEvent(t, n).Source(); got != "/tenants/"+n.TenantID {
		t.Errorf("source %q of a tenant without an application", got)
	}
	n = change()
	n.Evidence = nil
	if got := mustEvent(t, n).ID(); got != n.ID {
		t.Errorf("id %q without evidence", got)
	}
	n = change()
	n.Item = []byte("{\n \"subscriptionId\": \"x\",\r\n \"changeType\": \"updated\"}")
	e := mustEvent(t, n)
	if e.Type() != "Microsoft.Graph.Change" || string(e.Data()) != `{"subscriptionId":"x","changeType":"updated"}` {
		t.Errorf("event %s", e)
	}
}

func TestWhatMakesNoEvent(t *testing.T) {
	for name, spoil := range map[string]func(*notification.Notification){
		"item is no JSON":   func(n *notification.Notification) { n.Item = []byte("{") },
		"item is no object": func(n *notification.Notification) { n.Item = []byte("5") },
		"two items":         func(n *notification.Notification) { n.Item = append(append(n.Item, ','), n.Item...) },
		"lifecycle":         func(n *notification.Notification) { n.Kind = notification.KindLifecycle },
		"no type":           func(n *notification.Notification) { n.Kind, n.Type = notification.KindOperation, "" },
		"no id":             func(n *notification.Notification) { n.ID, n.Evidence = "", nil },
		"operation is no JSON": func(n *notification.Notification) {
			n.Kind, n.Type, n.Item = notification.KindOperation, "io.graphsubd.x", []byte("x")
		},
	} {
		n := change()
		spoil(n)
		if e, err := delivery.Event(n, appOf); err == nil {
			t.Errorf("%s: %s", name, e)
		}
	}
}

func FuzzEvent(f *testing.F) {
	f.Add("#Microsoft.Graph.Message", "Users/u/Messages/m", "created")
	f.Add("", "teams('t')/channels('c')/messages('1')", "updated")
	f.Add("#", "(''')", "")
	f.Fuzz(func(t *testing.T, odata, resource, changeType string) {
		item, err := json.Marshal(map[string]any{
			"subscriptionId": s1, "changeType": "x" + changeType, "resource": resource, "resourceData": map[string]string{"@odata.type": odata},
		})
		if err != nil {
			t.Fatal(err)
		}
		n := change()
		n.Item = item
		e, err := delivery.Event(n, appOf)
		if err != nil {
			t.Fatalf("%s: %v", item, err)
		}
		var line bytes.Buffer
		if err := event.WriteJson(&e, &line); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(line.Bytes()) || bytes.ContainsAny(line.Bytes(), "\n\r") {
			t.Errorf("line %q", line.Bytes())
		}
	})
}
