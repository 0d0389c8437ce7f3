package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

const hookSettings = `
sinks:
  - {name: changes, concurrency: 8, webhook: {url: "%s/hooks/graph", secrets: [{file: "%s"}, {env: OLD_SECRET}]}}
  - {name: notices, events: [gaps], webhook: {url: "%s/hooks/gaps", secrets: [{env: OLD_SECRET}]}}
subscriptions:`

// consumer takes events as a user's service does, with a poor memory: it takes
// none the first time.
type consumer struct {
	mu      sync.Mutex
	current string            // the secret of /hooks/graph
	tries   map[string]int    // by path and id
	taken   map[string]string // the body, by path and id
	refused int               // for their signature
	faults  []string
}

func (c *consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	secret := c.current
	if r.URL.Path == "/hooks/gaps" {
		secret = oldSecret
	}
	verifier, failed := standardwebhooks.NewWebhook(secret)
	id := r.Header.Get("Webhook-Id")
	key := r.URL.Path + " " + id
	switch {
	case err != nil || failed != nil || r.Header.Get("Content-Type") != "application/cloudevents+json" || id == "":
		c.faults = append(c.faults, fmt.Sprint(err, failed, r.Header))
	case verifier.Verify(body, r.Header) != nil:
		c.refused++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if c.tries[key]++; c.tries[key] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if c.taken[key] != "" {
		c.faults = append(c.faults, key+" came again after it was taken")
	}
	c.taken[key] = string(body)
	w.WriteHeader(http.StatusNoContent)
}

// count gives how many events were taken whose body holds a text.
func (c *consumer) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, body := range c.taken {
		if strings.Contains(body, text) {
			n++
		}
	}
	return n
}

func (c *consumer) assertTaken(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range c.faults {
		t.Error(fault)
	}
	for key, body := range c.taken {
		var event struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(body), &event); err != nil || !strings.HasSuffix(key, " "+event.ID) {
			t.Errorf("%s holds %s: %v", key, body, err)
		}
		if c.tries[key] != 2 {
			t.Errorf("%s came %d times", key, c.tries[key])
		}
	}
}

func whsec(key string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(key)) }

var (
	firstSecret  = whsec("first-0123456789abcdef0123456789")
	secondSecret = whsec("second-0123456789abcdef012345678")
	oldSecret    = whsec("old-0123456789abcdef0123456789ab")
)

func TestWebhookConsumer(t *testing.T) {
	t.Parallel()
	c := &consumer{current: oldSecret, tries: map[string]int{}, taken: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "whsec")
	write := func(secret string) {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(firstSecret)
	before, _, _ := strings.Cut(settings, "\nsinks:")
	_, after, _ := strings.Cut(settings, "\nsubscriptions:")
	w := newWorldOf(t, before+fmt.Sprintf(hookSettings, server.URL, file, server.URL)+after, map[string]string{"OLD_SECRET": oldSecret})
	notify := func(total int) {
		t.Helper()
		if _, err := w.sim.Notify(graphsim.Notification{Count: 20}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if n := c.count(`"type":"Microsoft.Graph.`); n != total {
				return fmt.Errorf("%d changes taken, want %d", n, total)
			}
			return nil
		})
	}
	eventually(t, func() error {
		if n := w.sim.Counts().Live; n != 2 {
			return fmt.Errorf("%d live, want 2", n)
		}
		return nil
	})
	// Each secret is enough for a consumer that knows only the one.
	notify(40)
	c.mu.Lock()
	c.current = firstSecret
	c.mu.Unlock()
	notify(80)
	c.mu.Lock()
	if c.refused != 0 {
		t.Errorf("%d requests refused", c.refused)
	}
	c.current = secondSecret
	c.mu.Unlock()
	write(secondSecret)
	notify(120)
	if err := w.sim.Remove(w.sim.State().Subscriptions[0].ID, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		// One at each of the two sinks.
		if opened, closed := c.count(`"io.graphsubd.gap.opened"`), c.count(`"io.graphsubd.gap.closed"`); opened != 2 || closed != 2 {
			return fmt.Errorf("%d gaps opened and %d closed, want 2 of each", opened, closed)
		}
		return nil
	})
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	c.assertTaken(t)
}
