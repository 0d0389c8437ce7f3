package notification_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/notification"
)

func keys(t *testing.T, instance string, fill ...byte) *notification.Keys {
	t.Helper()
	raw := make([][]byte, len(fill))
	for i, b := range fill {
		raw[i] = bytes.Repeat([]byte{b}, notification.MinKeyLength)
	}
	k, err := notification.NewKeys(instance, raw)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// mac gives the last segment of a path.
func mac(k *notification.Keys, purpose notification.Purpose, name, gen string) string {
	path := k.Path(purpose, name, gen)
	return path[strings.LastIndex(path, "/")+1:]
}

func TestKeysAreLongEnough(t *testing.T) {
	if _, err := notification.NewKeys("i", nil); err == nil {
		t.Error("no key is accepted")
	}
	_, err := notification.NewKeys("i", [][]byte{bytes.Repeat([]byte("K"), 31)})
	if err == nil || strings.Contains(err.Error(), "KK") {
		t.Errorf("short key: %v", err)
	}
}

func TestPathProvesItsParts(t *testing.T) {
	k := keys(t, "graphsubd", 1)
	const name, gen = "orders-inbox", "abcdefghij"
	token := mac(k, notification.PurposeNotifications, name, gen)
	if len(token) != 32 || token != strings.ToLower(token) {
		t.Errorf("token %q is not 160 bits of lower-case base32", token)
	}
	if !k.CheckPath(notification.PurposeNotifications, name, gen, token) ||
		!k.CheckPath(notification.PurposeNotifications, strings.ToUpper(name), gen, strings.ToUpper(token)) {
		t.Error("our own token, or its folded form, is refused")
	}
	refused := map[string]bool{
		"other purpose":  k.CheckPath(notification.PurposeLifecycle, name, gen, token),
		"other name":     k.CheckPath(notification.PurposeNotifications, "orders", gen, token),
		"other gen":      k.CheckPath(notification.PurposeNotifications, name, "zbcdefghij", token),
		"other instance": keys(t, "other", 1).CheckPath(notification.PurposeNotifications, name, gen, token),
		"other key":      keys(t, "graphsubd", 2).CheckPath(notification.PurposeNotifications, name, gen, token),
		"prefix":         k.CheckPath(notification.PurposeNotifications, name, gen, token[:31]),
		"empty":          k.CheckPath(notification.PurposeNotifications, name, gen, ""),
	}
	for what, ok := range refused {
		if ok {
			t.Errorf("%s is accepted", what)
		}
	}
	if !keys(t, "graphsubd", 9, 1).CheckPath(notification.PurposeNotifications, name, gen, token) {
		t.Error("a former key does not verify")
	}
}

func TestClientState(t *testing.T) {
	k := keys(t, "graphsubd", 1)
	state := k.ClientState("a", "g")
	if len(state) > 128 || len(state) < 43 {
		t.Errorf("clientState has %d characters", len(state))
	}
	for _, wrong := range []string{
		"", state[:42], state + "x", strings.ToUpper(state), state[:42] + "\x00", strings.Repeat("x", 128), strings.Repeat("x", 129),
		k.ClientState("b", "g"), k.ClientState("a", "h"), mac(k, notification.PurposeNotifications, "a", "g"),
	} {
		if k.CheckClientState("a", "g", wrong) {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if !k.CheckClientState("a", "g", state) || !keys(t, "graphsubd", 9, 1).CheckClientState("a", "g", state) {
		t.Error("our own clientState is refused")
	}
}

func TestParseURL(t *testing.T) {
	k := keys(t, "graphsubd", 1)
	const base = "https://hooks.contoso.com/graph"
	ours := base + k.Path(notification.PurposeNotifications, "a", "g")
	if name, gen, ok := k.ParseURL(base, ours); !ok || name != "a" || gen != "g" {
		t.Errorf("our URL gives %q %q %v", name, gen, ok)
	}
	if _, _, ok := k.ParseURL(base, strings.Replace(ours, "hooks", "HOOKS", 1)); !ok {
		t.Error("a folded host is refused")
	}
	for _, foreign := range []string{
		base, base + "/notifications/a/g/" + strings.Repeat("a", 32), strings.Replace(ours, "contoso", "evil", 1),
		strings.Replace(ours, "/graph/", "/graphs/", 1), ours + "/x", "https://[", "EventHub:https://x?tenantId=y",
		base + k.Path(notification.PurposeLifecycle, "a", "g"), strings.Replace(ours, "https:", "http:", 1),
	} {
		if _, _, ok := k.ParseURL(base, foreign); ok {
			t.Errorf("%q is taken for ours", foreign)
		}
	}
}

func TestJudge(t *testing.T) {
	k := keys(t, "graphsubd", 1)
	a, b := notification.Address{Name: "a", Gen: "g"}, notification.Address{Name: "b", Gen: "h"}
	down := errors.New("store down")
	owner := func(id string) (notification.Address, bool, error) {
		switch id {
		case "down":
			return notification.Address{}, false, down
		case "b1":
			return b, true, nil
		}
		return notification.Address{}, false, nil
	}
	tests := []struct {
		name string
		item notification.Item
		want notification.Verdict
		err  error
	}{
		{"right", notification.Item{SubscriptionID: s1, ClientState: k.ClientState("a", "g")}, notification.Verdict{Address: a}, nil},
		{"right, no look-up", notification.Item{SubscriptionID: "down", ClientState: k.ClientState("a", "g")}, notification.Verdict{Address: a}, nil},
		{"of another name in the batch", notification.Item{SubscriptionID: "b1", ClientState: k.ClientState("b", "h")}, notification.Verdict{Address: b}, nil},
		{"another name's secret", notification.Item{SubscriptionID: s9, ClientState: k.ClientState("b", "h")}, notification.Verdict{Address: a, Reason: notification.ReasonBadClientState}, nil},
		{"missing", notification.Item{SubscriptionID: s1}, notification.Verdict{Address: a, Reason: notification.ReasonBadClientState}, nil},
		{"store down", notification.Item{SubscriptionID: "down"}, notification.Verdict{}, down},
		{"probe", notification.Item{SubscriptionID: "na", ChangeType: "validation: testing client application reachability for subscription request-id: x"}, notification.Verdict{Address: a, Reason: notification.ReasonProbe, Drop: true}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := k.Judge(a, &test.item, owner)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("Judge = %+v, %v; want %+v, %v", got, err, test.want, test.err)
			}
		})
	}
}

func TestTenantMatches(t *testing.T) {
	if !notification.TenantMatches("", "") || notification.TenantMatches(t1, "") || notification.TenantMatches("", t1) ||
		!notification.TenantMatches(strings.ToUpper(t1), t1) {
		t.Error("an empty tenant is good only for a wish without one")
	}
}
