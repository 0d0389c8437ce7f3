package test_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// section gives the words under a heading of the list of pinned names.
func section(t *testing.T, heading string) []string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, "testdata/names.txt"), "\n# "+heading+"\n")
	if !found {
		t.Fatalf("testdata/names.txt has no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n# ")
	return strings.Fields(text)
}

func words[T ~string](list []T) []string {
	var out []string
	for _, word := range list {
		out = append(out, string(word))
	}
	return out
}

// TestPinnedNames holds the names on which users, alerts and stored data
// stand. A name may be added at the end; to change one takes a decision record
// and a changelog entry.
func TestPinnedNames(t *testing.T) {
	for heading, got := range map[string][]string{
		"reasons of subscriptions": words(graph.Reasons()),
		"reasons of items":         words(notification.Reasons()),
		"operational events":       words(graph.EventTypes()),
		"causes of gaps":           words(graph.GapCauses()),
		"states":                   words(graph.States()),
		"origins": words([]notification.Origin{
			notification.OriginGraph, notification.OriginDelta, notification.OriginReplay,
			notification.OriginPoll, notification.OriginGraphsubd,
		}),
	} {
		if want := section(t, heading); !slices.Equal(got, want) {
			t.Errorf("%s are\n%v, pinned are\n%v", heading, got, want)
		}
	}
}

// TestMetricsPage compares the page on metrics with the pinned names: each has
// a row, and each row is pinned.
func TestMetricsPage(t *testing.T) {
	var page []string
	for _, row := range metricRows(t) {
		name := row.name
		if len(row.labels) > 0 {
			name += "{" + strings.Join(row.labels, ",") + "}"
		}
		page = append(page, name)
	}
	slices.Sort(page)
	pinned := section(t, "metrics")
	slices.Sort(pinned)
	if !slices.Equal(page, pinned) {
		t.Error(difference("docs/metrics.md", page, "testdata/names.txt", pinned))
	}
}

// metricRow is a row of the table in docs/metrics.md.
type metricRow struct {
	name   string
	labels []string
}

func metricRows(t *testing.T) []metricRow {
	t.Helper()
	var rows []metricRow
	pattern := regexp.MustCompile("(?m)^\\| `graphsubd_([a-z_]+)` \\| [a-z]+ \\|([^|]*)\\|")
	for _, match := range pattern.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		row := metricRow{name: match[1]}
		row.labels = regexp.MustCompile("[a-z_]+").FindAllString(match[2], -1)
		rows = append(rows, row)
	}
	return rows
}

func difference(nameA string, a []string, nameB string, b []string) string {
	var text strings.Builder
	for _, word := range a {
		if !slices.Contains(b, word) {
			fmt.Fprintf(&text, "only in %s: %s\n", nameA, word)
		}
	}
	for _, word := range b {
		if !slices.Contains(a, word) {
			fmt.Fprintf(&text, "only in %s: %s\n", nameB, word)
		}
	}
	return text.String()
}
