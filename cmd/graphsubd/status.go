package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph"
)

func newStatus(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how a running instance is",
		Long: `Ask a running instance who leads, how its subscriptions are, what waits to be
delivered, what was not forwarded, and what fails with what to do about it.`,
		Args: noArgs,
	}
	flags := clientFlagsOf(cmd, getenv)
	output := outputFlag(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.client()
		if err != nil {
			return err
		}
		var status admin.Status
		if err := c.get(cmd.Context(), "/api/v1/status", nil, &status); err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), status, func(w io.Writer) error {
			return rows(w, statusTable(time.Now(), &status))
		})
	}
	return cmd
}

func statusTable(now time.Time, s *admin.Status) [][]string {
	table := [][]string{
		{"INSTANCE", fmt.Sprintf("%s, version %s", s.Instance, s.Version)},
		{"PROCESS", fmt.Sprintf("%s, started %s", s.Holder, when(now, &s.StartedAt, ""))},
		{"LEADER", leaderOf(now, s)},
		{"SUBSCRIPTIONS", states(s.Subscriptions)},
		{"FIRST EXPIRY", when(now, s.EarliestExpiry, "none: no subscription lives")},
		{"BACKLOG", counts(s.Backlog) + unrouted(s.Unrouted)},
		{"DEAD LETTERS", counts(s.DeadLetters)},
		{"QUARANTINE", counts(s.Quarantine)},
		{"OPEN GAPS", fmt.Sprint(s.OpenGaps)},
		{"STORE", size(s.Store.Bytes)},
	}
	if len(s.Problems) == 0 {
		return append(table, []string{"PROBLEMS", "none"})
	}
	for _, p := range s.Problems {
		table = append(table,
			[]string{"PROBLEM", fmt.Sprintf("%s: %s", p.Subject, p.Reason)},
			[]string{"", p.Text},
			[]string{"", "To do: " + p.Remedy},
		)
	}
	return table
}

func leaderOf(now time.Time, s *admin.Status) string {
	switch {
	case s.Leading:
		return fmt.Sprintf("this process, term %d, since %s", s.Term, when(now, s.Leader.Since, "now"))
	case s.Leader.Term == 0:
		return "none so far"
	}
	return fmt.Sprintf("not this process; the last was %s, term %d, since %s", s.Leader.Holder, s.Leader.Term, when(now, s.Leader.Since, "unknown"))
}

// states lists the states that occur, in the order of a subscription's life.
func states(byState map[string]int64) string {
	var total int64
	var parts []string
	for _, state := range graph.States() {
		if n := byState[string(state)]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if total == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(parts, ", "))
}

// counts lists what is above zero, by name.
func counts(byName map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if n := byName[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	if len(parts) == 0 {
		return "empty"
	}
	return strings.Join(parts, ", ")
}

func unrouted(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d not handed to the sinks yet", n)
}
