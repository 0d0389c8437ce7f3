package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestResources(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runCommand(t, "resources")
	if code != exitOK || stderr != "" {
		t.Fatalf("got %d, %q", code, stderr)
	}
	rows := regexp.MustCompile(` {2,}`).ReplaceAllString(stdout, "|")
	for _, want := range []string{
		"TYPE|RESOURCE|LONGEST|CHANGES|DATA|PERMISSION\n",
		"\nmessage|users/{id}/mailFolders('{id}')/messages|10080m|created, updated, deleted|yes|Mail.Read\n",
		"\nconversation|groups/{id}/conversations|4230m|?|no|for signed-in users only\n",
		"\napproval|solutions/approval/approvalItems|43200m|?|no|?\n",
	} {
		if !strings.Contains(rows, want) {
			t.Errorf("%q is not in\n%s", want, rows)
		}
	}
}

func TestResourcesOfOne(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runCommand(t, "resources", "me/todo/lists/1/tasks")
	want := `TYPE        todoTask
RESOURCE    users/{id}/todo/lists/{id}/tasks
LONGEST     4230m
CHANGES     ?
DATA        no
DELTA       yes
PERMISSION  Tasks.ReadWrite.All
CLOUDS      global
NOTE        The documented path begins with me; an application writes users/{id}.
CAUTION     is documented for application permissions where a subscription is created, and not where it is renewed; watch its renewals; they may be refused
SOURCE      https://learn.microsoft.com/en-us/graph/change-notifications-overview
`
	got, table, _ := strings.Cut(stdout, "TABLE")
	if code != exitOK || stderr != "" || got != want || !regexp.MustCompile(`^ +\d{4}-\d\d-\d\d\n$`).MatchString(table) {
		t.Errorf("got %d, %q and\n%s\nwant\n%s", code, stderr, stdout, want)
	}
	code, stdout, stderr = runCommand(t, "resources", "users/1/manager")
	if code != exitNotFound || stdout != "" || stderr != "graphsubd: resource \"users/1/manager\" is of no known kind; graphsubd resources lists the known ones\n" {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

func TestResourcesEncoded(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runCommand(t, "resources", "-o", "json", "users/1/events")
	var got resourceTable
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("%d, %q, %v: %s", code, stderr, err, stdout)
	}
	if got.Version == "" || len(got.Rules) != 1 || got.Rules[0].Type != "event" || got.Rules[0].MaxLifetime.Hours() != 168 {
		t.Errorf("got %+v", got)
	}
}
