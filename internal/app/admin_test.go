package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

const opsToken = "ops-0123456789abcdef"

// ask reads an answer of the admin interface and looks for secrets in it.
func (w *world) ask(path, token string, into any) error {
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.app.Addresses().Admin+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for _, secret := range []string{strings.Repeat("k", 40), "anything", token, "/base/", "clientState", "://"} {
		if strings.Contains(string(text), secret) {
			w.t.Errorf("%s shows %q: %s", path, secret, text)
		}
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", path, response.StatusCode, text)
	}
	return json.Unmarshal(text, into)
}

// get waits until a subscription is as wanted.
func (w *world) get(name string, wanted func(s *admin.Subscription) bool) {
	w.t.Helper()
	eventually(w.t, func() error {
		var s admin.Subscription
		err := w.ask("/api/v1/subscriptions/"+name, opsToken, &s)
		if err == nil && !wanted(&s) {
			err = fmt.Errorf("%s is %+v, record %+v", name, s, s.Record)
		}
		return err
	})
}

func TestAdminShowsWhatIsAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := time.Now().Add(-time.Second)
	w.get("inbox", func(s *admin.Subscription) bool { return s.State == "active" })
	if _, err := w.sim.Notify(graphsim.Notification{Count: 1}); err != nil {
		t.Fatal(err)
	}
	w.get("inbox", func(s *admin.Subscription) bool {
		return s.State == "active" && s.Tenant == "contoso" && s.LastError == nil && len(s.Replaces) == 0 &&
			s.Wish != nil && s.Wish.Resource == "users/u/messages" && s.Wish.Lifetime == 6*3600 &&
			s.Record != nil && s.Record.ID != "" && s.Record.ExpiresAt.After(begun) && s.Record.RenewAt.Before(*s.Record.ExpiresAt) &&
			s.LastNotificationAt != nil && s.LastNotificationAt.After(begun)
	})
	eventually(t, func() error {
		var s admin.Status
		err := w.ask("/api/v1/status", opsToken, &s)
		if err == nil && (s.Instance != "test" || s.Version != "test" || !s.Leading || s.Term != 1 || s.Leader.Term != 1 ||
			s.Holder == "" || s.Leader.Holder != s.Holder || s.Leader.Since.Before(begun) || s.Subscriptions["active"] != 2 ||
			s.EarliestExpiry == nil || len(s.Problems) != 0 || s.Store.Bytes == 0 || s.StartedAt.Before(begun) ||
			fmt.Sprint(s.Backlog) != "map[changes:0 notices:0]" || fmt.Sprint(s.DeadLetters) != "map[changes:0 notices:0]") {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})
}

func TestAdminShowsWhatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("calendar", func(s *admin.Subscription) bool { return s.State == "active" })
	if err := w.sim.AddFault(graphsim.Fault{Match: "POST /v1.0/subscriptions", Status: http.StatusForbidden, Times: -1}); err != nil {
		t.Fatal(err)
	}
	for _, live := range w.sim.State().Subscriptions {
		if strings.HasSuffix(live.Resource, "events") {
			if err := w.sim.Remove(live.ID, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.get("calendar", func(s *admin.Subscription) bool {
		return s.State == "parked" && s.Record.Reason == "forbidden" && strings.Contains(s.Record.Detail, "403") &&
			s.Record.ID == "" && s.Record.Attempts > 0 && s.Record.NextTryAt != nil && s.Record.LostAt != nil &&
			s.LastError != nil && s.LastError.Text == s.Record.Detail && strings.Contains(s.LastError.Remedy, "permission")
	})
	eventually(t, func() error {
		var s admin.Status
		err := w.ask("/api/v1/status", opsToken, &s)
		if err == nil && (s.Subscriptions["parked"] != 1 || s.OpenGaps != 1 || len(s.Problems) != 1 ||
			s.Problems[0].Subject != "tenant contoso" || s.Problems[0].Reason != "forbidden") {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})
	eventually(t, func() error {
		var list admin.SubscriptionList
		err := w.ask("/api/v1/subscriptions?state=parked", opsToken, &list)
		if err == nil && (len(list.Items) != 1 || list.Items[0].Name != "calendar") {
			err = fmt.Errorf("list %+v", list)
		}
		return err
	})
}

func TestReloadTakesOverAdminTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var s admin.Status
	if err := w.ask("/api/v1/status", opsToken, &s); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.path())
	if err == nil {
		err = os.WriteFile(w.path(), []byte(strings.ReplaceAll(string(text), "ADMIN_TOKEN", "OTHER_TOKEN")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.changed <- struct{}{}
	eventually(t, func() error { return w.ask("/api/v1/status", "other-0123456789abcdef", &s) })
	if err := w.ask("/api/v1/status", opsToken, &s); err == nil || !strings.Contains(err.Error(), "401") {
		err = errors.Join(errors.New("the former token is not refused"), err)
		t.Error(err)
	}
}
