package graph_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

func loadRules(tb testing.TB) *graph.Rules {
	tb.Helper()
	rules, err := graph.LoadRules()
	if err != nil {
		tb.Fatal(err)
	}
	return rules
}

// TestDocumentedResources holds every documented path, as people write it, to
// its kind and its longest life.
func TestDocumentedResources(t *testing.T) {
	rules := loadRules(t)
	const (
		id   = "622eaaff-0683-4862-9de4-f2ec83c2bd98"
		chat = "19:8ea0e38b-efb3-4757-924a-5f94061cf8c2_97f62344-57dc-409c-88ad-c4af14158ff5@unq.gbl.spaces"
		join = "https%3A%2F%2Fteams.microsoft.com%2Fl%2Fmeetup-join%2F19%253ameeting"
	)
	tests := []struct {
		resource, kind string
		minutes        int
	}{
		{"users/" + id + "/messages", "message", 10080},
		{"me/messages", "message", 10080},
		{"me/messages?$filter=subject eq 'a/b?c' and from/emailAddress/address eq 'x'", "message", 10080},
		{"users('" + id + "')/messages", "message", 10080},
		{"users/" + id + "/mailFolders('inbox')/messages", "message", 10080},
		{"users/" + id + "/mailFolders/AQMk=/messages", "message", 10080},
		{"me/mailFolders('inbox')/messages", "message", 10080},
		{"/Users/" + id + "/MAILFOLDERS('Inbox')/Messages?$select=id", "message", 10080},
		{"users/a@contoso.com/events?$select=subject,start,end", "event", 10080},
		{"me/events", "event", 10080},
		{"users/" + id + "/contacts", "contact", 10080},
		{"me/contacts", "contact", 10080},
		{"users/" + id + "/contactFolders/AQMk/contacts", "contact", 10080},
		{"users", "user", 41760},
		{"/users/", "user", 41760},
		{"users/" + id, "user", 41760},
		{"users('" + id + "')", "user", 41760},
		{"groups", "group", 41760},
		{"groups/" + id, "group", 41760},
		{"groups/" + id + "/owners", "group", 41760},
		{"groups/" + id + "/members", "group", 41760},
		{"groups/g/conversations", "conversation", 4230},
		{"drives/b!x/root", "driveItem", 42300},
		{"users/u/drive/root", "driveItem", 42300},
		{"me/drive/root", "driveItem", 42300},
		{"sites/contoso.sharepoint.com,1,2/lists/l", "list", 42300},
		{"me/todo/lists/l/tasks", "todoTask", 4230},
		{"users/u/todo/lists/l/tasks", "todoTask", 4230},
		{"security/alerts/a", "securityAlert", 43200},
		{"security/alerts/?$filter=status eq 'newAlert'", "securityAlert", 43200},
		{"security/alerts?$filter=x", "securityAlert", 43200},
		{"reports/healthmonitoring/alerts", "healthMonitoringAlert", 42300},
		{"reports/healthMonitoring/alert", "healthMonitoringAlert", 42300},
		{"print/printers/p/jobs", "printer", 4230},
		{"print/taskDefinitions/d/tasks", "printTaskDefinition", 4230},
		{"print/printtaskdefinition/d/tasks", "printTaskDefinition", 4230},
		{"communications/callRecords", "callRecord", 4230},
		{"communications/callRecords?$filter=x", "callRecord", 4230},
		{"communications/presences/p", "presence", 60},
		{"/communications/presences?$filter=id in ('a1','b2')", "presence", 60},
		{"communications/onlineMeetings(joinWebUrl='" + join + "')/meetingCallEvents", "onlineMeeting", 4230},
		{"communications/onlineMeetings(joinWebUrl='https://x/l/y?context=(z)')/meetingCallEvents", "onlineMeeting", 4230},
		{"communications/onlineMeetings/getAllRecordings", "callRecording", 4320},
		{"communications/onlineMeetings/getAllTranscripts", "callTranscript", 4320},
		{"communications/onlineMeetings/m/recordings", "callRecording", 4320},
		{"communications/onlineMeetings/m/transcripts", "callTranscript", 4320},
		{"users/u/onlineMeetings/getAllRecordings", "callRecording", 4320},
		{"users/u/onlineMeetings/getAllTranscripts", "callTranscript", 4320},
		{"chats", "chat", 4320},
		{"chats/" + chat, "chat", 4320},
		{"chats('" + chat + "')?notifyOnUserSpecificProperties=true", "chat", 4320},
		{"users/u/chats", "chat", 4320},
		{"appCatalogs/teamsApps/a/installedToChats", "chat", 4320},
		{"appCatalogs/teamsApps/a/installedToChats/getAllMessages", "chatMessage", 4320},
		{"appCatalogs/teamsApps/a/installedToChats/getAllMembers", "conversationMember", 4320},
		{"appCatalogs/teamsApps/a/installations?$filter=(scopeInfo/scope eq 'team')", "teamsAppInstallation", 4320},
		{"teams/getAllMessages", "chatMessage", 4320},
		{"chats/getAllMessages?model=A", "chatMessage", 4320},
		{"teams/t/channels/19:c@thread.tacv2/messages", "chatMessage", 4320},
		{"teams/t/channels/c/messages?$search=Hello", "chatMessage", 4320},
		{"chats/" + chat + "/messages", "chatMessage", 4320},
		{"chats('19:x@thread.v2')/messages", "chatMessage", 4320},
		{"users/u/chats/getAllMessages", "chatMessage", 4320},
		{"teams", "team", 4320},
		{"teams/t", "team", 4320},
		{"teams/getAllChannels", "channel", 4320},
		{"teams/t/channels", "channel", 4320},
		{"teams/t/members", "conversationMember", 4320},
		{"teams/t/channels/getAllMembers", "conversationMember", 4320},
		{"chats/c/members", "conversationMember", 4320},
		{"chats/getAllMembers", "conversationMember", 4320},
		{"teams/getAllMembers", "conversationMember", 4320},
		{"teams/getAllChannels/getAllMembers", "conversationMember", 4320},
		{"teams/t/schedule/shifts", "shift", 360},
		{"teams/t/schedule/offerShiftRequests", "offerShiftRequest", 360},
		{"teams/t/schedule/openShiftChangeRequests", "openShiftChangeRequest", 360},
		{"teams/t/schedule/swapShiftsChangeRequests", "swapShiftsChangeRequest", 360},
		{"teams/t/schedule/timeOffRequests", "timeOffRequest", 360},
		{"solutions/approval/approvalItems", "approval", 43200},
		{"copilot/users/u/interactionHistory/getAllEnterpriseInteractions", "aiInteraction", 4320},
		{"copilot/interactionHistory/getAllEnterpriseInteractions", "aiInteraction", 4320},
		{"copilot/users/u/onlineMeetings/getAllAiInsights", "aiInsight", 60},
		{"copilot/users/u/onlineMeetings/m/aiInsights", "aiInsight", 60},
		{"solutions/virtualEvents/events", "virtualEvent", 1440},
		{"solutions/virtualEvents/events/getEventsFromOrganizers(organizerIds=['id1', 'id2'])", "virtualEvent", 1440},
		{"solutions/virtualEvents/webinars/w", "virtualEvent", 1440},
		{"solutions/virtualEvents/webinars/w/sessions", "virtualEvent", 1440},
		{"solutions/virtualEvents/webinars/w/registrations", "virtualEvent", 1440},
		{"solutions/virtualEvents/webinars/w/getAttendanceReports", "virtualEvent", 1440},
	}
	kinds := map[string]bool{}
	for _, test := range tests {
		rule, known := rules.For(test.resource)
		if !known || rule.Type != test.kind || rule.MaxLifetime != time.Duration(test.minutes)*time.Minute {
			t.Errorf("%s with %v, %v; want %+v", rule.Type, rule.MaxLifetime, known, test)
		}
		kinds[test.kind] = true
	}
	for _, rule := range rules.All() {
		if !kinds[rule.Type] {
			t.Errorf("no example of a %s", rule.Type)
		}
	}
}

func TestNearMissesAreUnknown(t *testing.T) {
	rules := loadRules(t)
	for _, resource := range []string{
		"", "/", "?", "?$filter=users/u/messages", "something/new", "message", "messages", "events",
		"users//messages", "users/u//messages", "users('')/messages", "users()/messages",
		"users/u/message", "users/u/messages/m", "users/u/mailFolders/messages", "users/u/mailFolders('inbox')", "users/u/calendar",
		"users/u/mailFolders('inbox')x/messages", "users/u/mailFolders('inbox'/messages", "users/u/events/e", "users/u/manager",
		"groups/g/events", "groups/g/members/m", "drives/d", "drives/d/root/children", "drives/d/items/i", "drives/d/root:/folder",
		"sites/s", "sites/s/lists", "sites/s/lists/l/items", "me/todo/lists", "security", "security/alerts_v2",
		"communications", "communications/calls", "communications/callRecords/c", "communications/onlineMeetings",
		"communications/onlineMeetings/m", "communications/presences/p/q", "chats/c/messages/m", "chats/c/tabs",
		"teams/t/schedule", "teams/t/schedule/x", "teams/t/channels/c", "teams/t/channels/c/messages/m/replies",
		"teams/getAllChannels/getAllMessages", "solutions/approval", "solutions/virtualEvents", "copilot", "print/printers/p", "appCatalogs/teamsApps/a",
		"xusers/u/messages", "users/u/messagesx", "v1.0/users/u/messages",
	} {
		rule, known := rules.For(resource)
		if known || rule.Type != graph.UnknownType || rule.MaxLifetime != time.Hour {
			t.Errorf("For(%q) = %s with %v, %v", resource, rule.Type, rule.MaxLifetime, known)
		}
	}
}

// TestNoRuleShadowsAnother fills in each path of the table and expects the
// rule that the path stands in.
func TestNoRuleShadowsAnother(t *testing.T) {
	rules := loadRules(t)
	for _, want := range rules.All() {
		for _, path := range want.Paths {
			for _, part := range []string{"7", "root", "members", "x.y@z"} {
				example := strings.NewReplacer("{id}", part, "{url}", part).Replace(path)
				for _, spelling := range []string{example, "/" + strings.ToUpper(example), example + "/?$filter=x/y"} {
					got, _ := rules.For(spelling)
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s of %s gives %s", spelling, want.Type, got.Type)
					}
				}
			}
		}
	}
}

// TestTable holds the data to what the code takes for granted.
func TestTable(t *testing.T) {
	rules := loadRules(t)
	if _, err := time.Parse(time.DateOnly, rules.Version); err != nil {
		t.Error(err)
	}
	needLifecycleURL := []string{
		"chat", "chatMessage", "conversationMember", "team", "channel", "teamsAppInstallation",
		"callRecording", "callTranscript", "aiInteraction", "aiInsight",
	}
	lives := map[string]time.Duration{}
	for _, r := range rules.All() {
		if longest, ok := lives[r.Type]; ok && longest != r.MaxLifetime {
			t.Errorf("%s lives for %v and for %v: a limit that Graph names is remembered by the type", r.Type, longest, r.MaxLifetime)
		}
		lives[r.Type] = r.MaxLifetime
		if r.Family == "" || r.Type == "" || len(r.Paths) == 0 || r.MaxLifetime < time.Hour || r.RichLifetime > r.MaxLifetime {
			t.Errorf("a rule lacks something: %+v", r)
		}
		if !strings.HasPrefix(r.Source, "https://learn.microsoft.com/") {
			t.Errorf("the source of %s is %q", r.Type, r.Source)
		}
		for _, word := range slices.Concat(r.ChangeTypes, r.DisputedTypes) {
			if !slices.Contains(graph.ChangeTypes(), word) {
				t.Errorf("%s has the change type %q", r.Type, word)
			}
		}
		if r.DelegatedOnly && len(r.Permissions) > 0 || r.SelectNeeded && r.Rich != graph.Supported {
			t.Errorf("%s contradicts itself", r.Type)
		}
		for _, support := range []graph.Support{r.Rich, r.Delta} {
			if !slices.Contains([]graph.Support{graph.Undocumented, graph.Supported, graph.Unsupported}, support) {
				t.Errorf("%s has the support %q", r.Type, support)
			}
		}
		if r.LifecycleURL != slices.Contains(needLifecycleURL, r.Type) {
			t.Errorf("%s: a lifecycle URL is needed: %v", r.Type, r.LifecycleURL)
		}
	}
}

func TestLongest(t *testing.T) {
	rules := loadRules(t)
	message, _ := rules.For("me/messages")
	chat, _ := rules.For("chats")
	if message.Longest(false) != 7*24*time.Hour || message.Longest(true) != 24*time.Hour || chat.Longest(true) != 72*time.Hour {
		t.Errorf("got %v, %v, %v", message.Longest(false), message.Longest(true), chat.Longest(true))
	}
}

// TestRuleJSON writes the table as it was read.
func TestRuleJSON(t *testing.T) {
	data, err := os.ReadFile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var file, again map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	data, err = json.Marshal(map[string]any{"rules": loadRules(t).All()})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(file["rules"], again["rules"]) {
		t.Error("the rules are not written as they were read")
	}
	var rule graph.Rule
	if err := json.Unmarshal([]byte(`{"type": "x", "maxminute": 3}`), &rule); err == nil {
		t.Error("an unknown key was taken")
	}
}

// FuzzRules asserts that no text makes the rules panic or contradict
// themselves, and that a slash before a resource changes nothing.
func FuzzRules(f *testing.F) {
	rules := loadRules(f)
	for _, rule := range rules.All() {
		for _, path := range rule.Paths {
			f.Add(path)
		}
	}
	for _, seed := range []string{"", "((", "('", "a('b')('c')//?", "users('o''brien')/messages?$filter=a eq 'b&c'&$top=1", strings.Repeat("users/(", 2000), "%2", "me?%ff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, resource string) {
		rule, known := rules.For(resource)
		if known == (rule.Type == graph.UnknownType) || rule.MaxLifetime < time.Hour {
			t.Errorf("For(%q) = %+v, %v", resource, rule, known)
		}
		if slashed, _ := rules.For("/" + resource); slashed.Type != rule.Type {
			t.Errorf("a slash before %q makes %s of %s", resource, slashed.Type, rule.Type)
		}
		for _, finding := range rules.Check(graph.WishInput{Resource: resource, ChangeTypes: graph.ChangeTypes(), Rich: true, ImmutableIDs: true, Cloud: "china"}) {
			if finding.Rule == "" || finding.Text == "" || finding.Remedy == "" || finding.Field == "" {
				t.Errorf("%q has a finding without words: %+v", resource, finding)
			}
		}
	})
}

// TestForIsLinear takes a resource of a megabyte, which a quadratic reader
// would work on for minutes.
func TestForIsLinear(t *testing.T) {
	rules := loadRules(t)
	for _, part := range []string{"/", "(", "('", "a/", "a('b')", "''", "?", "%2", "&'"} {
		long := strings.Repeat(part, 1<<20/len(part))
		start := time.Now()
		rules.Check(graph.WishInput{Resource: "users/u/messages" + long, Rich: true})
		rules.Check(graph.WishInput{Resource: "users/u/messages?" + long, Rich: true})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("a megabyte of %q took %v", part, took)
		}
	}
}

func BenchmarkFor(b *testing.B) {
	rules := loadRules(b)
	b.ReportAllocs()
	for b.Loop() {
		rules.For("users/622eaaff-0683-4862-9de4-f2ec83c2bd98/mailFolders('inbox')/messages?$select=id")
	}
}
