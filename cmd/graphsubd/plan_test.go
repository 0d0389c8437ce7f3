package main

import (
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/admin"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	i := newInstance(t, "operator")
	_, stdout, _ := i.run("plan")
	lines(t, stdout, "nothing to do\n")
	if code, _, stderr := i.run("plan", "--approve"); code != exitConflict || !strings.Contains(stderr, "nothing is held") {
		t.Errorf("%d, %q", code, stderr)
	}
	held := admin.Plan{Hold: &admin.Hold{ID: "abc123", Count: 2, Groups: []admin.HoldGroup{
		{Tenant: "contoso", Action: "delete", Count: 1}, {Tenant: "fabrikam", Action: "recreate", Count: 1},
	}}, More: 7, Items: []admin.PlanStep{
		{Name: "a", Tenant: "contoso", Resource: "users/u/messages", Action: "delete", Held: true},
		{Name: "b", Tenant: "contoso", Resource: "users/v/messages", Action: "renew", At: time.Now().Add(time.Hour + time.Second)},
		{Name: "c", Tenant: "contoso", Resource: "users/w/messages", Action: "create"},
	}}
	i.plan = held
	code, stdout, stderr := i.run("plan")
	if code != exitOK || stderr != "" {
		t.Fatalf("%d, %q", code, stderr)
	}
	lines(t, stdout,
		"2 changes are held:\n", "contoso: delete 1\n", "fabrikam: recreate 1\n",
		"Correct the configuration, or release what is held: graphsubd plan --approve=abc123\n",
		"delete held a contoso users/u/messages\n", "renew "+held.Items[1].At.UTC().Format(time.RFC3339)+" (in 1h) b contoso",
		"create now c contoso users/w/messages\n", "and 7 more\n")
	if code, _, stderr := i.run("plan", "--approve=abc124"); code != exitConflict || !strings.Contains(stderr, "look at the plan again") {
		t.Errorf("%d, %q", code, stderr)
	}
	for _, flag := range []string{"--approve=abc123", "--approve"} {
		i.plan = held
		told := flag == "--approve" // nobody has seen it yet
		if code, stdout, stderr := i.run("plan", flag); code != exitOK || stdout != "2 changes released\n" || told != strings.Contains(stderr, "contoso: delete 1") {
			t.Errorf("%s: %d, %q, %q", flag, code, stdout, stderr)
		}
	}
	i.plan = held
	if code, _, _ := newInstance(t, "viewer").run("plan", "--approve=abc123"); code != exitDenied {
		t.Errorf("a viewer: %d", code)
	}
}
