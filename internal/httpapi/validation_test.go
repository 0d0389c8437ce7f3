package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// caseA04 has both URLs of one create validated at once, by two replicas that
// are busy with notifications, and then one URL twice.
func caseA04(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newRig(t, nil), newRig(t, nil)
		hold := make(chan struct{})
		var group sync.WaitGroup
		for _, r := range []*rig{first, second} {
			r.inbox.append = func(context.Context, []notification.Row) error {
				<-hold
				return nil
			}
			group.Go(func() { r.post(t, r.path(), collection(r.item(t, nil))) })
		}
		synctest.Wait()
		notifications, lifecycle := first.path(), first.url(notification.PurposeLifecycle, alpha())
		for _, urls := range [][2]string{{notifications, lifecycle}, {notifications, notifications}} {
			var pair sync.WaitGroup
			for i, r := range []*rig{first, second} {
				token := []string{"one", "two"}[i]
				pair.Go(func() {
					if w := r.post(t, urls[i]+"?validationToken="+token, ""); w.Code != http.StatusOK || w.Body.String() != token {
						t.Errorf("answer %d %q, want the token %q", w.Code, w.Body, token)
					}
				})
			}
			pair.Wait() // or the bubble ends in a deadlock
		}
		close(hold)
		group.Wait()
	})
}

// caseA06 has no leader and no credentials: neither is asked for.
func caseA06(t *testing.T) {
	r := newRig(t, nil)
	r.SetKeysLost(true)
	for _, headers := range [][]string{nil, {"Authorization", "Bearer junk"}} {
		assertEcho(t, r, r.path()+"?validationToken=tok", http.NoBody, "tok", headers...)
	}
}

func caseA11(t *testing.T) {
	r := newRig(t, nil)
	rows := forwarded(r.accept(t, r.path(), collection(r.item(t, map[string]any{
		"tenantId": "", "subscriptionExpirationDateTime": "2030-08-06T11:00:00+00:00", "resource": "Users/20b6000000000000/Messages/m1",
	}))))
	if len(rows) != 1 || rows[0].TenantID != "" {
		t.Fatalf("rows %+v", rows)
	}
	// Who knows the wish decides on it.
	if !notification.TenantMatches("", rows[0].TenantID) || notification.TenantMatches(t1, rows[0].TenantID) {
		t.Error("an item without a tenant fits a wish that names one, or none that names none")
	}
}

func caseA18(t *testing.T) {
	r := newRig(t, nil)
	right := r.keys.ClientState("alpha", "g1")
	if len(right) > 128 {
		t.Errorf("the clientState has %d characters, Graph takes 128", len(right))
	}
	last := "A"
	if strings.HasSuffix(right, last) {
		last = "B"
	}
	wrong := []string{
		right[:len(right)-1] + last, right[:len(right)-1], right + "x", "", " " + right, right + "\u0301",
		strings.ToUpper(right), strings.Repeat("x", 128), strings.Repeat("x", 129),
	}
	items := []string{r.item(t, nil)}
	for _, state := range wrong {
		items = append(items, r.item(t, map[string]any{"clientState": state}))
	}
	rows := r.accept(t, r.path(), collection(items...))
	if len(rows) != len(items) || len(forwarded(rows)) != 1 || rows[0].Reason != "" {
		t.Errorf("%d rows, %d forwarded", len(rows), len(forwarded(rows)))
	}
	r.assertQuiet(t, right[:20], strings.Repeat("x", 128))
	if _, err := notification.NewKeys("graphsubd", [][]byte{make([]byte, notification.MinKeyLength-1)}); err == nil {
		t.Error("a key of 31 bytes is taken")
	}
}

// caseA19 raises the rotation of alpha: S1 was made with the old secret, S2 with
// the new one, and both live for a while.
func caseA19(t *testing.T) {
	r := newRig(t, nil)
	one, two := alpha(), notification.Address{Name: "alpha", Gen: "g9"}
	owners := map[string]notification.Address{s1: one, s2: two}
	r.inbox.owner = func(_ context.Context, id string) (notification.Address, bool, error) {
		a, found := owners[id]
		return a, found, nil
	}
	state := func(a notification.Address) string { return r.keys.ClientState(a.Name, a.Gen) }
	if state(one) == state(two) {
		t.Fatal("the rotation has not changed the secret")
	}
	for _, test := range []struct {
		name      string
		to        notification.Address
		id, state string
		good      bool
	}{
		{"old to old", one, s1, state(one), true},
		{"new to new", two, s2, state(two), true},
		{"old secret of the old id to the new URL", two, s1, state(one), true}, // Graph batches
		{"old secret of the new id", two, s2, state(one), false},
		{"new secret of the old id", one, s1, state(two), false},
		{"old secret of an id that is not ours", two, s9, state(one), false},
	} {
		item := r.item(t, map[string]any{"subscriptionId": test.id, "clientState": test.state})
		rows := r.accept(t, r.url(notification.PurposeNotifications, test.to), collection(item))
		if len(rows) != 1 || (rows[0].Reason == "") != test.good {
			t.Errorf("%s: %+v, want accepted %v", test.name, rows, test.good)
		}
	}
	// A key is rotated by a second one in front: both hold, until the old one goes.
	oldKey, newKey := []byte(strings.Repeat("o", 32)), []byte(strings.Repeat("n", 32))
	during, err := notification.NewKeys("graphsubd", [][]byte{newKey, oldKey})
	if err != nil {
		t.Fatal(err)
	}
	after, err := notification.NewKeys("graphsubd", [][]byte{newKey})
	if err != nil {
		t.Fatal(err)
	}
	before, err := notification.NewKeys("graphsubd", [][]byte{oldKey})
	if err != nil {
		t.Fatal(err)
	}
	path := before.Path(notification.PurposeNotifications, "alpha", "g1")
	for name, status := range map[*notification.Keys]int{during: http.StatusAccepted, after: http.StatusNotFound} {
		receiver, err := httpapi.NewReceiver(httpapi.Config{PublicURL: "https://hooks.contoso.invalid"}, name, r.inbox)
		if err != nil {
			t.Fatal(err)
		}
		next := &rig{Receiver: receiver, keys: before, inbox: r.inbox}
		if w := next.post(t, path, collection(next.item(t, nil))); w.Code != status {
			t.Errorf("the old URL is answered %d, want %d", w.Code, status)
		}
		if rows := r.inbox.take(); status == http.StatusAccepted && len(forwarded(rows)) != 1 {
			t.Errorf("the old secret is not good beside the new key: %+v", rows)
		}
	}
}
