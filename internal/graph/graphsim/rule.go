package graphsim

import (
	"slices"
	"strings"
	"time"
)

// Kind names what a subscription watches.
type Kind string

// The kinds that the simulator knows.
const (
	Message           Kind = "message"
	Event             Kind = "event"
	Contact           Kind = "contact"
	User              Kind = "user"
	Group             Kind = "group"
	Conversation      Kind = "conversation"
	DriveItem         Kind = "driveItem"
	List              Kind = "list"
	TodoTask          Kind = "todoTask"
	SecurityAlert     Kind = "securityAlert"
	HealthAlert       Kind = "healthMonitoringAlert"
	PrintJob          Kind = "printJob"
	PrintTask         Kind = "printTask"
	CallRecord        Kind = "callRecord"
	Presence          Kind = "presence"
	OnlineMeeting     Kind = "onlineMeeting"
	CallRecording     Kind = "callRecording"
	CallTranscript    Kind = "callTranscript"
	Chat              Kind = "chat"
	ChatMessage       Kind = "chatMessage"
	Member            Kind = "conversationMember"
	Team              Kind = "team"
	Channel           Kind = "channel"
	AppInstallation   Kind = "teamsAppInstallation"
	Shift             Kind = "shift"
	Approval          Kind = "approval"
	CopilotAIActivity Kind = "aiInteraction"
	CopilotAIInsight  Kind = "aiInsight"
)

// rule is what Graph demands of the subscriptions of one kind. Patterns of
// paths are in the form that canonical gives; * stands for one segment. The
// figures are those of the documentation as of September 2026.
type rule struct {
	kind          Kind
	paths         []string
	max           time.Duration
	maxRich       time.Duration // 0: as max
	changeTypes   []string      // nil: created, updated, deleted
	rich          bool
	selectNeeded  bool // a rich resource must carry $select, and only that
	lifecycleURL  bool // needed beyond an hour
	delegatedOnly bool
	queryOptions  bool // notificationQueryOptions is needed
	pools         []pool
}

type ruleTable []rule

func (t ruleTable) byKind(kind Kind) *rule {
	for i := range t {
		if t[i].kind == kind {
			return &t[i]
		}
	}
	return nil
}

// find gives the rule of a resource, or nil. Rules with literal paths stand
// before those whose wildcard would swallow them.
func (t ruleTable) find(resource string) *rule {
	path := canonical(resource)
	for i := range t {
		if slices.ContainsFunc(t[i].paths, func(p string) bool { return matches(p, path) }) {
			return &t[i]
		}
	}
	return nil
}

func matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || w == "*" && g != "" })
}

// canonical reduces the spellings of a resource to one: lower case, no query,
// no leading slash, name('key') as name/key, and me as users/me.
func canonical(resource string) string {
	path := strings.ToLower(strings.Join(segments(resource), "/"))
	if path == "me" || strings.HasPrefix(path, "me/") {
		path = "users/" + path
	}
	return path
}

// segments splits a resource without its query; name('key') is two segments.
func segments(resource string) []string {
	path, _, _ := strings.Cut(resource, "?")
	path = strings.NewReplacer("('", "/", "')", "", "(", "/", ")", "").Replace(strings.Trim(path, "/"))
	return strings.Split(path, "/")
}

func rules() ruleTable {
	return slices.Concat(outlookRules(), directoryRules(), teamsRules(), meetingRules(), otherRules())
}

func outlookRules() ruleTable {
	const week, day = 10080 * time.Minute, 1440 * time.Minute
	outlook := func(kind Kind, paths ...string) rule {
		return rule{kind: kind, paths: paths, max: week, maxRich: day, rich: true, selectNeeded: true, pools: []pool{mailbox()}}
	}
	return ruleTable{
		outlook(Message, "users/*/messages", "users/*/mailfolders/*/messages"),
		outlook(Event, "users/*/events"),
		outlook(Contact, "users/*/contacts", "users/*/contactfolders/*/contacts"),
	}
}

func directoryRules() ruleTable {
	directory := func(kind Kind, paths ...string) rule {
		return rule{
			kind: kind, paths: paths, max: 41760 * time.Minute,
			changeTypes: []string{"updated", "deleted"}, pools: directoryPools(),
		}
	}
	return ruleTable{
		directory(User, "users", "users/*"),
		directory(Group, "groups", "groups/*", "groups/*/owners", "groups/*/members"),
	}
}

func teamsRules() ruleTable {
	teams := func(kind Kind, changeTypes []string, paths ...string) rule {
		return rule{
			kind: kind, paths: paths, max: 4320 * time.Minute, changeTypes: changeTypes, rich: true, lifecycleURL: true,
			pools: []pool{organization(), perUser(), perResource()},
		}
	}
	const installed = "appcatalogs/teamsapps/*/installedtochats"
	shift := teams(Shift, nil, "teams/*/schedule/shifts", "teams/*/schedule/offershiftrequests",
		"teams/*/schedule/openshiftchangerequests", "teams/*/schedule/swapshiftschangerequests",
		"teams/*/schedule/timeoffrequests")
	shift.max, shift.rich, shift.lifecycleURL = 360*time.Minute, false, false
	return ruleTable{
		teams(ChatMessage, nil, "teams/getallmessages", "chats/getallmessages", "users/*/chats/getallmessages",
			"teams/*/channels/*/messages", "chats/*/messages", installed+"/getallmessages"),
		teams(Member, nil, "teams/getallmembers", "chats/getallmembers", "teams/getallchannels/getallmembers",
			"teams/*/channels/getallmembers", "teams/*/members", "chats/*/members", installed+"/getallmembers"),
		teams(Channel, nil, "teams/getallchannels", "teams/*/channels"),
		teams(Chat, []string{"created", "updated"}, "chats", "chats/*", "users/*/chats", installed),
		teams(Team, nil, "teams", "teams/*"),
		teams(AppInstallation, nil, "appcatalogs/teamsapps/*/installations"),
		shift,
	}
}

func meetingRules() ruleTable {
	meeting := func(kind Kind, plural string) rule {
		return rule{
			kind: kind, max: 4320 * time.Minute, rich: true, lifecycleURL: true,
			paths: []string{
				"communications/onlinemeetings/getall" + plural,
				"communications/onlinemeetings/*/" + plural,
				"users/*/onlinemeetings/getall" + plural,
			},
			pools: []pool{organization(), perUser(), perResource()},
		}
	}
	return ruleTable{
		meeting(CallRecording, "recordings"),
		meeting(CallTranscript, "transcripts"),
		{
			kind: OnlineMeeting, paths: []string{"communications/onlinemeetings/*/meetingcallevents"},
			max: 4230 * time.Minute, rich: true, pools: []pool{perResource()},
		},
		{
			kind: CallRecord, paths: []string{"communications/callrecords"},
			max: 4230 * time.Minute, pools: []pool{callRecords()},
		},
		{
			kind: Presence, paths: []string{"communications/presences", "communications/presences/*"},
			max: 60 * time.Minute, changeTypes: []string{"updated"}, rich: true, delegatedOnly: true, pools: []pool{perResource()},
		},
		{
			kind: CopilotAIActivity, max: 4320 * time.Minute, rich: true, lifecycleURL: true,
			paths: []string{
				"copilot/users/*/interactionhistory/getallenterpriseinteractions",
				"copilot/interactionhistory/getallenterpriseinteractions",
			},
			pools: []pool{organization(), perUser(), perResource()},
		},
		{
			kind: CopilotAIInsight, max: 4320 * time.Minute, lifecycleURL: true,
			paths: []string{"copilot/users/*/onlinemeetings/getallaiinsights", "copilot/users/*/onlinemeetings/*/aiinsights"},
			pools: []pool{organization(), perUser(), perResource()},
		},
	}
}

func otherRules() ruleTable {
	updated := []string{"updated"}
	return ruleTable{
		{kind: DriveItem, paths: []string{"drives/*/root", "users/*/drive/root"}, max: 42300 * time.Minute, changeTypes: updated},
		{kind: List, paths: []string{"sites/*/lists/*"}, max: 42300 * time.Minute, changeTypes: updated},
		{kind: Conversation, paths: []string{"groups/*/conversations"}, max: 4230 * time.Minute, delegatedOnly: true},
		{kind: TodoTask, paths: []string{"users/*/todo/lists/*/tasks"}, max: 4230 * time.Minute},
		{kind: SecurityAlert, paths: []string{"security/alerts", "security/alerts/*"}, max: 43200 * time.Minute},
		{
			kind: HealthAlert, paths: []string{"reports/healthmonitoring/alerts", "reports/healthmonitoring/alert"},
			max: 42300 * time.Minute, queryOptions: true,
		},
		{
			kind: PrintJob, paths: []string{"print/printers/*/jobs"},
			max: 4230 * time.Minute, changeTypes: updated, queryOptions: true,
		},
		{
			kind: PrintTask, paths: []string{"print/taskdefinitions/*/tasks", "print/printtaskdefinition/*/tasks"},
			max: 4230 * time.Minute, changeTypes: []string{"created"},
		},
		{
			kind: Approval, paths: []string{"solutions/approval/approvalitems"},
			max: 43200 * time.Minute, pools: []pool{approvals(), perResource()},
		},
	}
}
