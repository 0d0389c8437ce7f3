package notification_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	s1 = "11111111-1111-4111-8111-111111111111"
	s9 = "99999999-9999-4999-8999-999999999999"
	t1 = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
)

// item gives the wire form of an ordinary change with some members replaced;
// a nil value removes one.
func item(t *testing.T, changes map[string]any) string {
	t.Helper()
	members := map[string]any{
		"subscriptionId": s1, "subscriptionExpirationDateTime": "2030-01-02T03:04:05.6789012Z",
		"tenantId": t1, "clientState": "state-one", "changeType": "created",
		"resource": "Users/u1/Messages/m1",
		"resourceData": map[string]any{
			"@odata.type": "#Microsoft.Graph.Message", "@odata.id": "Users/u1/Messages/m1",
			"@odata.etag": `W/"1"`, "id": "m1",
		},
	}
	for name, value := range changes {
		if value == nil {
			delete(members, name)
		} else {
			members[name] = value
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func decode(t *testing.T, body string) notification.Envelope {
	t.Helper()
	envelope, err := notification.Decode([]byte(body))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	return envelope
}

func one(t *testing.T, element string) notification.Item {
	t.Helper()
	envelope := decode(t, `{"value":[`+element+`]}`)
	if len(envelope.Items) != 1 {
		t.Fatalf("%d items of %s", len(envelope.Items), element)
	}
	return envelope.Items[0]
}

func TestDecode(t *testing.T) {
	got := one(t, item(t, map[string]any{"id": "i1"}))
	want := notification.Item{
		ID: "i1", SubscriptionID: s1, TenantID: t1, ChangeType: "created", Resource: "Users/u1/Messages/m1",
		ODataType: "#Microsoft.Graph.Message", ETag: `W/"1"`, ClientState: "state-one",
		ExpiresAt: time.Date(2030, 1, 2, 3, 4, 5, 678901200, time.UTC),
	}
	if raw := string(got.JSON); strings.Contains(raw, "state-one") || !strings.Contains(raw, `W/\"1\"`) {
		t.Errorf("stored item: %s", raw)
	}
	got.JSON = nil
	if got.ID != want.ID || got.SubscriptionID != want.SubscriptionID || got.TenantID != want.TenantID ||
		got.ChangeType != want.ChangeType || got.Resource != want.Resource || got.ODataType != want.ODataType ||
		got.ETag != want.ETag || got.ClientState != want.ClientState || !got.ExpiresAt.Equal(want.ExpiresAt) || got.Lifecycle {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeShapes(t *testing.T) {
	good := item(t, nil)
	tests := []struct {
		name, body       string
		items, malformed int
	}{
		{"one", `{"value":[` + good + `]}`, 1, 0},
		{"byte order mark", "\xef\xbb\xbf" + `{"value":[` + good + `]}`, 1, 0},
		{"Pascal case", `{"Value":[{"SubscriptionId":"` + s1 + `","ChangeType":"Created"}]}`, 1, 0},
		{"no value", `{}`, 0, 1},
		{"null value", `{"value":null}`, 0, 0},
		{"empty value", `{"value":[]}`, 0, 0},
		{"object value", `{"value":{}}`, 0, 1},
		{"array", `[]`, 0, 1},
		{"null", `null`, 0, 1},
		{"null element", `{"value":[null]}`, 0, 1},
		{"string element", `{"value":["x"]}`, 0, 1},
		{"good and number", `{"value":[` + good + `,5]}`, 1, 1},
		{"no subscription", `{"value":[` + item(t, map[string]any{"subscriptionId": nil}) + `]}`, 0, 1},
		{"neither change nor lifecycle", `{"value":[` + item(t, map[string]any{"changeType": nil}) + `]}`, 0, 1},
		{"ids of another type", `{"value":[` + item(t, map[string]any{"id": 7, "tenantId": true}) + `]}`, 1, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			envelope := decode(t, test.body)
			if len(envelope.Items) != test.items || len(envelope.Malformed) != test.malformed {
				t.Errorf("%d items, %d malformed; want %d, %d", len(envelope.Items), len(envelope.Malformed), test.items, test.malformed)
			}
			for _, raw := range envelope.Malformed {
				if !json.Valid(raw) {
					t.Errorf("malformed element is stored as %q", raw)
				}
			}
		})
	}
	for _, body := range []string{"", " ", "{", "value=1", `{"value":[` + good + `]} x`, "\x1f\x8b\x08"} {
		if _, err := notification.Decode([]byte(body)); !errors.Is(err, notification.ErrNotJSON) {
			t.Errorf("Decode(%q) = %v, want ErrNotJSON", body, err)
		}
	}
}

func TestDates(t *testing.T) {
	for text, want := range map[string]string{
		"2030-05-15T09:06:46.5737745-07:00": "2030-05-15T16:06:46.5737745Z",
		"2030-06-11T12:23:21.88+00:00":      "2030-06-11T12:23:21.88Z",
		"2030-06-11T12:23:21.8Z":            "2030-06-11T12:23:21.8Z",
		"2030-06-11T12:23:21Z":              "2030-06-11T12:23:21Z",
		"2030-06-11T12:23:21.9367027+00:00": "2030-06-11T12:23:21.9367027Z",
		"soon":                              "0001-01-01T00:00:00Z",
	} {
		got := one(t, item(t, map[string]any{"subscriptionExpirationDateTime": text}))
		if got.ExpiresAt.Format(time.RFC3339Nano) != want {
			t.Errorf("%q is read as %v, want %s", text, got.ExpiresAt, want)
		}
		if !bytes.Contains(got.JSON, []byte(text)) {
			t.Errorf("%q is not kept as it came: %s", text, got.JSON)
		}
	}
}

func TestLifecycleItems(t *testing.T) {
	tests := []struct {
		name      string
		changes   map[string]any
		lifecycle bool
		event     string
	}{
		{"event", map[string]any{"changeType": nil, "lifecycleEvent": "missed"}, true, "missed"},
		{"both", map[string]any{"lifecycleEvent": "missed"}, true, "missed"},
		{"empty event alone", map[string]any{"changeType": nil, "lifecycleEvent": ""}, true, ""},
		{"empty event beside a change", map[string]any{"lifecycleEvent": ""}, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := one(t, item(t, test.changes))
			if got.Lifecycle != test.lifecycle || got.LifecycleEvent != test.event {
				t.Errorf("lifecycle %v %q", got.Lifecycle, got.LifecycleEvent)
			}
		})
	}
}

func TestClientStateIsNeverStored(t *testing.T) {
	const secret = "top-secret-state"
	bodies := []string{
		`{"value":[{"subscriptionId":"x","changeType":"created","clientState":"` + secret + `"}]}`,
		`{"value":[{"subscriptionId":"x","changeType":"created","ClientState":"` + secret + `","clientSTATE":"` + secret + `"}]}`,
		`{"value":[{"subscriptionId":"x","changeType":"created","client\u0053tate":"` + secret + `","clientState":"` + secret + `"}]}`,
		`{"value":[{"clientState":"` + secret + `"}]}`,
		`{"value":[[{"clientState":"` + secret + `"}],"` + secret + `"]}`,
		`{"value":{"clientState":"` + secret + `"}}`,
		`[{"clientState":"` + secret + `"}]`,
		`"` + secret + `"`,
	}
	for _, body := range bodies {
		envelope := decode(t, body)
		for _, item := range envelope.Items {
			if bytes.Contains(item.JSON, []byte(secret)) {
				t.Errorf("%s leaves %s", body, item.JSON)
			}
		}
		for _, raw := range envelope.Malformed {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s leaves %s", body, raw)
			}
		}
	}
}

func TestEvidence(t *testing.T) {
	base := one(t, item(t, map[string]any{"id": "i1"}))
	noID := one(t, item(t, nil))
	bare := one(t, item(t, map[string]any{"resourceData": nil}))
	updated := one(t, item(t, map[string]any{"changeType": "updated"}))
	full := notification.EvidenceOf("a", &base)
	if len(full) != 2 {
		t.Fatalf("an item with id and etag gives %d keys", len(full))
	}
	if without := notification.EvidenceOf("a", &noID); len(without) != 1 || without[0] != full[1] {
		t.Error("the same change without an id is not found by its etag")
	}
	if got := notification.EvidenceOf("a", &bare); len(got) != 0 {
		t.Error("an item that proves nothing gives evidence")
	}
	if got := notification.EvidenceOf("a", &updated); got[0] == full[1] {
		t.Error("created and updated are merged")
	}
	if got := notification.EvidenceOf("b", &base); got[0] == full[0] || got[1] == full[1] {
		t.Error("evidence of one subscription counts for another")
	}
	row := notification.Notification{ID: "01J", Row: notification.Row{Evidence: full}}
	if id := row.EventID(); len(id) != 32 {
		t.Errorf("event id %q", id)
	}
	if bareRow := (&notification.Notification{ID: "01J"}); bareRow.EventID() != "01J" {
		t.Error("without evidence the event id is the row's")
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"value":[{"subscriptionId":"s","changeType":"created","clientState":"c"}]}`,
		"\xef\xbb\xbf{}", `[]`, `null`, `{"value":[null,5,"x",{}]}`, `{"value":{"value":[]}}`,
		`{"value":[{"subscriptionId":"s","lifecycleEvent":null}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		envelope, err := notification.Decode(body)
		if err != nil {
			return
		}
		for _, item := range envelope.Items {
			if !json.Valid(item.JSON) || item.SubscriptionID == "" {
				t.Errorf("item %+v", item)
			}
			var members map[string]any
			if json.Unmarshal(item.JSON, &members) != nil {
				t.Errorf("stored item is no object: %s", item.JSON)
			}
			for name := range members {
				if strings.EqualFold(name, "clientState") {
					t.Errorf("clientState is left in %s", item.JSON)
				}
			}
		}
	})
}
