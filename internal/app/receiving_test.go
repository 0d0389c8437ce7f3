package app_test

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

func TestAdminShowsSilence(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, strings.Replace(settings, "lifetime: 6h", "lifetime: 6h, silentAfter: 1s", 1), nil)
	silent := func(s *admin.Subscription) bool {
		return s.State == "active" && s.Wish.SilentAfter == 1 && s.SilentSince != nil && s.LastError != nil &&
			s.LastError.Reason == "silent" && strings.Contains(s.LastError.Remedy, "publicURL")
	}
	w.get("inbox", silent)
	w.get("calendar", func(s *admin.Subscription) bool {
		return s.State == "active" && s.SilentSince == nil && s.LastError == nil && s.Wish.SilentAfter == 0
	})
	if _, err := w.sim.Notify(graphsim.Notification{Count: 1}); err != nil {
		t.Fatal(err)
	}
	w.get("inbox", func(s *admin.Subscription) bool { return s.SilentSince == nil && s.LastError == nil })
	w.get("inbox", silent)
}

// After a weekend each subscription that lived has a gap, and its sinks were
// told.
func TestRestartAfterAWeekend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"inbox", "calendar"} {
		w.get(name, func(s *admin.Subscription) bool { return s.State == "active" })
	}
	w.waitForNote(0)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "data", "graphsubd.db"))
	if err != nil {
		t.Fatal(err)
	}
	const weekend = 63 * time.Hour
	for _, statement := range []string{
		`UPDATE receiving SET at = at - ?1, since = since - ?1`,
		`UPDATE subscription_id SET "from" = "from" - 2 * ?1`,
	} {
		if _, err := db.ExecContext(t.Context(), statement, weekend.Microseconds()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cfg, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	public, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", w.app.Addresses().Public)
	if err != nil {
		t.Fatal(err)
	}
	w.serve(cfg, public)
	eventually(t, func() error {
		text, err := os.ReadFile(filepath.Join(w.dir, "notices.jsonl"))
		if err != nil {
			return err
		}
		told := map[string]int{}
		for line := range strings.Lines(string(text)) {
			for _, name := range []string{"inbox", "calendar"} {
				if strings.Contains(line, `"cause":"outage"`) && strings.Contains(line, `"subscription":"`+name+`"`) {
					told[name]++
				}
			}
		}
		if told["inbox"] != 2 || told["calendar"] != 2 {
			return fmt.Errorf("told %v, want the begin and the end of each", told)
		}
		return nil
	})
}

// noted reads when it was noted last that notifications can be accepted.
func (w *world) noted() (at int64) {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "data", "graphsubd.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(w.t.Context(), `SELECT at FROM receiving`).Scan(&at); err != nil {
		w.t.Fatal(err)
	}
	return at
}

// waitForNote waits until it is noted again after an instant.
func (w *world) waitForNote(after int64) {
	w.t.Helper()
	eventually(w.t, func() error {
		if at := w.noted(); at <= after {
			return fmt.Errorf("noted at %d, want later than %d", at, after)
		}
		return nil
	})
}

// With the keys lost every notification is refused, so what nobody delivers
// again has to be found later.
func TestLostKeysAreAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, settings, map[string]string{})
	w.get("inbox", func(s *admin.Subscription) bool { return s.State == "active" })
	w.waitForNote(0)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	before := w.noted()
	restart := func() {
		cfg, err := w.load()
		if err != nil {
			t.Fatal(err)
		}
		public, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", w.app.Addresses().Public)
		if err != nil {
			t.Fatal(err)
		}
		w.serve(cfg, public)
		w.get("inbox", func(s *admin.Subscription) bool { return s.State == "active" })
	}
	w.env["SIGNING_KEY"] = strings.Repeat("x", 40)
	restart()
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if at := w.noted(); at != before {
		t.Errorf("noted at %d while all was refused, before it was %d", at, before)
	}
	delete(w.env, "SIGNING_KEY")
	restart()
	w.waitForNote(before)
}
