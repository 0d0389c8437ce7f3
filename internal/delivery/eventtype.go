package delivery

import (
	"slices"
	"strings"

	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	// typePrefix begins the type of every event that Graph caused.
	typePrefix = "Microsoft.Graph."
	// typeUnknown is the type of a change whose kind cannot be told.
	typeUnknown = typePrefix + "Change"
	// graphNamespace begins every @odata.type of Graph, in lower case.
	graphNamespace = "microsoft.graph."
	// maxTypeName is well above the longest name of a type of Graph.
	maxTypeName = 64
)

// TypeOf names the event of a change as Azure Event Grid names it:
// Microsoft.Graph.<Type><ChangeType>. The type is that of resourceData, or
// else follows from the resource; where neither tells, or the change is of an
// unknown kind, it is Microsoft.Graph.Change.
func TypeOf(item *notification.Item) string {
	name := typeOfOData(item.ODataType)
	if name == "" {
		name = typeOfResource(item.Resource)
	}
	if name == "" {
		return typeUnknown
	}
	switch strings.ToLower(item.ChangeType) {
	case "created":
		return typePrefix + name + "Created"
	case "updated":
		return typePrefix + name + "Updated"
	case "deleted":
		return typePrefix + name + "Deleted"
	}
	return typeUnknown
}

// typeOfOData reads names such as "#Microsoft.Graph.Message" and
// "microsoft.graph.chatMessage"; "" when it is none of Graph's.
func typeOfOData(odata string) string {
	name := strings.TrimPrefix(odata, "#")
	if !strings.HasPrefix(strings.ToLower(name), graphNamespace) {
		return ""
	}
	name = name[strings.LastIndex(name, ".")+1:]
	if name == "" || len(name) > maxTypeName || strings.ContainsFunc(name, notAlphanumeric) {
		return ""
	}
	// Graph's own casing varies, and the inner capitals cannot be guessed.
	switch strings.ToLower(name) {
	case "chatmessage":
		return typeChatMessage
	case "driveitem":
		return "DriveItem"
	case "callrecord":
		return "CallRecord"
	case "todotask":
		return "TodoTask"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func notAlphanumeric(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
}

const (
	typeMessage     = "Message"
	typeChatMessage = "ChatMessage"
)

// typeOfCollection gives the type of what a collection holds. A drive's
// notification names its root, whose type is driveItem; a SharePoint list's
// names the list and no item of it, so its type is List.
func typeOfCollection(name string) string {
	switch name {
	case "messages":
		return typeMessage
	case "replies":
		return typeChatMessage
	case "events":
		return "Event"
	case "contacts":
		return "Contact"
	case "users":
		return "User"
	case "groups":
		return "Group"
	case "root":
		return "DriveItem"
	case "lists":
		return "List"
	case "presences":
		return "Presence"
	case "callrecords":
		return "CallRecord"
	case "chats":
		return "Chat"
	case "teams":
		return "Team"
	case "channels":
		return "Channel"
	case "tasks":
		return "TodoTask"
	}
	return ""
}

// keyed ends a segment whose key was taken out.
const keyed = "()"

// typeOfResource reads paths in both of Graph's styles, Users/u/Messages/m and
// users('u')/messages('m'), and with or without the last id. Only the last
// collection counts: a member of a chat is no chat.
func typeOfResource(resource string) string {
	path, _, _ := strings.Cut(strings.ToLower(resource), "?")
	segments := strings.Split(strings.Trim(withoutKeys(path), "/"), "/")
	last := segments[len(segments)-1]
	name := typeOfCollection(strings.TrimSuffix(last, keyed))
	if name == "" && len(segments) > 1 && !strings.HasSuffix(last, keyed) {
		// The last segment is an id, or a collection that is not known after
		// one; then the one before it is the id and no collection.
		name = typeOfCollection(segments[len(segments)-2])
	}
	if name == typeMessage && slices.ContainsFunc(segments, ofTeams) {
		return typeChatMessage
	}
	return name
}

func ofTeams(segment string) bool {
	name := strings.TrimSuffix(segment, keyed)
	return name == "teams" || name == "chats"
}

// withoutKeys empties every ('…'). A key may hold a slash.
func withoutKeys(path string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(path, "('")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(keyed)
		_, path, _ = strings.Cut(rest, "')")
	}
}
