package graph_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// found gives each finding as severity, rule and place.
func found(findings []graph.Finding) []string {
	list := []string{}
	for _, f := range findings {
		list = append(list, string(f.Severity)+" "+f.Rule+" at "+f.Field)
	}
	return list
}

func TestCheck(t *testing.T) {
	rules := loadRules(t)
	const (
		created, updated, deleted = graph.Created, graph.Updated, graph.Deleted
		hour                      = time.Hour
	)
	type types = []graph.ChangeType
	all := graph.ChangeTypes()
	for _, test := range []struct {
		name string
		wish graph.WishInput
		want []string
	}{
		{"nothing", graph.WishInput{Resource: "users/u/messages", ChangeTypes: all, ImmutableIDs: true, Lifetime: 24 * hour, Cloud: "china"}, nil},
		{"a filter", graph.WishInput{Resource: "users/u/messages?$filter=subject eq 'let''s \"go\" & more'&$select=id,body", ChangeTypes: all}, nil},
		{"no resource", graph.WishInput{}, []string{"error resource-text at resource"}},
		{"address", graph.WishInput{Resource: "HTTPS://graph.microsoft.com/v1.0/users('a')/messages"}, []string{"error resource-prefix at resource"}},
		{"host", graph.WishInput{Resource: "//Graph.Microsoft.us/users"}, []string{"error resource-prefix at resource"}},
		{"version", graph.WishInput{Resource: "/Beta/users"}, []string{"error resource-prefix at resource"}},
		{"address in a filter", graph.WishInput{Resource: "security/alerts?$filter=u eq 'https://x'", ChangeTypes: all}, nil},
		{"spaces", graph.WishInput{Resource: "users "}, []string{"error resource-text at resource"}},
		{"line break", graph.WishInput{Resource: "users/a\nb"}, []string{"error resource-text at resource"}},
		{"unknown", graph.WishInput{Resource: "users/u/manager", ChangeTypes: all, Rich: true, ImmutableIDs: true}, []string{"warning unknown-resource at resource"}},
		{"one item", graph.WishInput{Resource: "users/u/events/e", ChangeTypes: all}, []string{"warning unknown-resource at resource"}},
		{"me", graph.WishInput{Resource: "/Me/messages", ChangeTypes: all}, []string{"warning me at resource"}},
		{"me alone", graph.WishInput{Resource: "me", ChangeTypes: types{updated}}, []string{"warning me at resource"}},
		{"not me", graph.WishInput{Resource: "meetings", ChangeTypes: all}, []string{"warning unknown-resource at resource"}},
		{"apostrophe", graph.WishInput{Resource: "users/o'brien@contoso.com/messages", ChangeTypes: all}, []string{"warning user-name at resource"}},
		{"doubled apostrophe", graph.WishInput{Resource: "users('o''brien@contoso.com')/events", ChangeTypes: all}, []string{"warning user-name at resource"}},
		{"escaped apostrophe", graph.WishInput{Resource: "users/o%27brien/contacts", ChangeTypes: all}, []string{"warning user-name at resource"}},
		{"quoted user", graph.WishInput{Resource: "users('a@contoso.com')/events", ChangeTypes: all}, nil},

		{"delegated", graph.WishInput{Resource: "groups/g/conversations", ChangeTypes: types{created}}, []string{"error delegated-only at resource"}},
		{"presence elsewhere", graph.WishInput{Resource: "communications/presences/p", ChangeTypes: types{updated}, Cloud: "usgov-l4"}, []string{"error delegated-only at resource", "error cloud at resource"}},
		{"tasks", graph.WishInput{Resource: "users/u/todo/lists/l/tasks", ChangeTypes: all, Cloud: "global"}, []string{"warning permission at resource"}},
		{"tasks elsewhere", graph.WishInput{Resource: "users/u/todo/lists/l/tasks", ChangeTypes: all, Cloud: "china"}, []string{"error cloud at resource", "warning permission at resource"}},
		{"tasks somewhere", graph.WishInput{Resource: "users/u/todo/lists/l/tasks", ChangeTypes: all}, []string{"warning permission at resource"}},
		{"print", graph.WishInput{Resource: "print/printers/p/jobs", ChangeTypes: types{updated}}, []string{"warning query-options at resource"}},
		{"beta", graph.WishInput{Resource: "communications/onlineMeetings(joinWebUrl='https%3A%2F%2Fx')/meetingCallEvents", ChangeTypes: all}, []string{"warning beta at resource"}},

		{"drive", graph.WishInput{Resource: "drives/d/root", ChangeTypes: types{created, updated, deleted}}, []string{"error change-types at changeTypes[0]", "error change-types at changeTypes[2]"}},
		{"list", graph.WishInput{Resource: "sites/s/lists/l", ChangeTypes: types{updated, deleted}}, []string{"error change-types at changeTypes[1]"}},
		{"chat", graph.WishInput{Resource: "chats/c", ChangeTypes: all}, []string{"error change-types at changeTypes[2]"}},
		{"print task", graph.WishInput{Resource: "print/taskDefinitions/d/tasks", ChangeTypes: types{updated}}, []string{"error change-types at changeTypes[0]"}},
		{"users", graph.WishInput{Resource: "users", ChangeTypes: types{created, updated}}, []string{"warning change-types at changeTypes[0]"}},
		{"group", graph.WishInput{Resource: "groups/g/members", ChangeTypes: types{updated, created}}, []string{"warning change-types at changeTypes[1]"}},
		{"undocumented", graph.WishInput{Resource: "teams/t/schedule/shifts", ChangeTypes: all}, nil},
		{"no change type at all", graph.WishInput{Resource: "drives/d/root", ChangeTypes: types{"renamed"}}, nil},

		{"short", graph.WishInput{Resource: "users/u/messages", Lifetime: 10 * time.Minute}, []string{"warning lifetime at lifetime"}},
		{"45 minutes", graph.WishInput{Resource: "users/u/messages", Lifetime: 45 * time.Minute}, nil},
		{"longest", graph.WishInput{Resource: "users/u/messages", Lifetime: 168 * hour}, nil},
		{"long", graph.WishInput{Resource: "users/u/messages", Lifetime: 168*hour + 1}, []string{"warning lifetime at lifetime"}},
		{"long for resource data", graph.WishInput{Resource: "users/u/messages?$select=id", Lifetime: 25 * hour, Rich: true}, []string{"warning lifetime at lifetime"}},
		{"long for the unknown", graph.WishInput{Resource: "x/y", Lifetime: 2 * hour}, []string{"warning unknown-resource at resource", "warning lifetime at lifetime"}},
		{"undocumented life", graph.WishInput{Resource: "copilot/users/u/onlineMeetings/getAllAiInsights", ChangeTypes: all}, []string{"warning lifetime at resource"}},

		{"rich drive", graph.WishInput{Resource: "drives/d/root", ChangeTypes: types{updated}, Rich: true}, []string{"error resource-data at resourceData"}},
		{"rich chats of a user", graph.WishInput{Resource: "users/u/chats", ChangeTypes: types{updated}, Rich: true}, []string{"warning resource-data at resourceData"}},
		{"rich chat", graph.WishInput{Resource: "chats/c/messages", ChangeTypes: all, Rich: true}, nil},
		{"rich without select", graph.WishInput{Resource: "users/u/events?$filter=subject eq '&$select=id'", Rich: true}, []string{"error select at resource"}},
		{"rich with body", graph.WishInput{Resource: "users/u/messages?$SELECT=subject, UniqueBody", Rich: true}, []string{"error select at resource"}},
		{"rich with the rest", graph.WishInput{Resource: "users/u/messages?$select=id&$top=1&$skip=2&$orderby=x&$expand=attachments", Rich: true}, []string{
			"error query-options at resource", "error query-options at resource", "error query-options at resource", "error query-options at resource",
		}},
		{"rich with an extended property", graph.WishInput{Resource: "users/u/messages?$select=id&$expand=singleValueExtendedProperties($filter=id eq 'x')", Rich: true}, nil},
		{"basic with top", graph.WishInput{Resource: "users/u/messages?$top=1", ChangeTypes: all}, []string{"warning query-options at resource"}},
		{"top elsewhere", graph.WishInput{Resource: "chats/c/messages?$top=1", ChangeTypes: all}, nil},
		{"encoded", graph.WishInput{Resource: "users/u/messages?$filter=subject%20eq%20'x'"}, []string{"warning query-text at resource"}},
		{"a share", graph.WishInput{Resource: "users/u/messages?$filter=subject eq '100%'"}, nil},
		{"open quote", graph.WishInput{Resource: "users/u/messages?$filter=subject eq 'let's go'"}, []string{"warning query-text at resource"}},
		{"ids of a chat", graph.WishInput{Resource: "chats/c/messages", ChangeTypes: all, ImmutableIDs: true}, []string{"warning immutable-ids at immutableIDs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings := rules.Check(test.wish)
			if got := found(findings); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, f := range findings {
				if f.Text == "" || f.Remedy == "" || f.Source != "" && !strings.HasPrefix(f.Source, "https://") {
					t.Errorf("lacks words: %+v", f)
				}
			}
		})
	}
}

// TestCheckSays pins what people read.
func TestCheckSays(t *testing.T) {
	rules := loadRules(t)
	for _, test := range []struct {
		wish         graph.WishInput
		text, remedy string
	}{
		{graph.WishInput{Resource: "/me/messages?$select=id"}, "begins with me, but an application has no signed-in user for it to stand for", "write users/ID/messages"},
		{graph.WishInput{Resource: "users/u/events/AAMk="}, "is of no known kind, so it is asked to live for an hour at most", "watch all of users/u/events; Graph documents no single part of it"},
		{graph.WishInput{Resource: "users/u/manager"}, "is of no known kind, so it is asked to live for an hour at most", "compare it with the resources that Graph supports; graphsubd resources lists the known ones"},
		{graph.WishInput{Resource: "chats/c", ChangeTypes: []graph.ChangeType{graph.Deleted}}, "is deleted, and Graph has only created, updated for a chat", "leave it out"},
		{graph.WishInput{Resource: "users/u/messages", Lifetime: 10 * time.Minute}, "is 10m, and Graph raises what is below 45m to 45m", "write 45m or more, or max"},
		{graph.WishInput{Resource: "communications/callRecords", Lifetime: 96 * time.Hour}, "is 96h, above the longest of this resource, 70h30m, which is asked for instead", "write max, or 70h30m or less"},
		{graph.WishInput{Resource: "groups/g/conversations"}, "is a conversation, which Graph offers to signed-in users only; graphsubd is an application", "remove the subscription; no application permission gives it"},
	} {
		findings := rules.Check(test.wish)
		if len(findings) != 1 || findings[0].Text != test.text || findings[0].Remedy != test.remedy {
			t.Errorf("%+v: got %+v", test.wish, findings)
		}
	}
}
