package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/admin"
	"github.com/graphsubd/graphsubd/internal/graph"
)

// pageSize is how many subscriptions are asked for at once.
const pageSize = "1000"

func newSubscriptions(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "subscriptions",
		Short: "Show the subscriptions of a running instance",
		Args:  knownCommand,
		RunE:  noCommand,
		// As at the root.
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newSubscriptionsList(getenv), newSubscriptionsGet(getenv))
	return cmd
}

func newSubscriptionsList(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List subscriptions: how they are, when they end, when the last change came",
		Args:  noArgs,
	}
	flags := clientFlagsOf(cmd, getenv)
	output := outputFlag(cmd, "table", "json", "yaml")
	state := &choice{}
	for _, s := range graph.States() {
		state.allowed = append(state.allowed, string(s))
	}
	cmd.Flags().Var(state, "state", "only those in this `state`: "+strings.Join(state.allowed, ", "))
	tenant := cmd.Flags().String("tenant", "", "only those of this `tenant`, by its name in the configuration")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.client()
		if err != nil {
			return err
		}
		list, err := c.subscriptions(cmd.Context(), state.value, *tenant)
		if err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), list, func(w io.Writer) error {
			if len(list.Items) == 0 {
				_, err := fmt.Fprintln(w, nothingFound(state.value, *tenant))
				return err
			}
			return rows(w, listTable(time.Now(), list.Items))
		})
	}
	return cmd
}

// subscriptions reads all pages into one.
func (c *client) subscriptions(ctx context.Context, state, tenant string) (admin.SubscriptionList, error) {
	all := admin.SubscriptionList{Items: []admin.Subscription{}}
	query := url.Values{"limit": {pageSize}}
	for key, value := range map[string]string{"state": state, "tenant": tenant} {
		if value != "" {
			query.Set(key, value)
		}
	}
	for {
		var page admin.SubscriptionList
		if err := c.get(ctx, "/api/v1/subscriptions", query, &page); err != nil {
			return all, err
		}
		all.Items = append(all.Items, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

func nothingFound(state, tenant string) string {
	text := "no subscriptions"
	if state != "" {
		text += " in state " + state
	}
	if tenant != "" {
		text += " of tenant " + tenant
	}
	return text
}

func listTable(now time.Time, items []admin.Subscription) [][]string {
	table := [][]string{{"NAME", "TENANT", "STATE", "EXPIRES", "LAST CHANGE CAME"}}
	for i := range items {
		s := &items[i]
		var expires *time.Time
		if s.Record != nil && s.Record.ID != "" {
			expires = s.Record.ExpiresAt
		}
		table = append(table, []string{s.Name, s.Tenant, stateOf(s), when(now, expires, "-"), when(now, s.LastNotificationAt, "never")})
	}
	return table
}

// stateOf is the state, with why it is not simply active.
func stateOf(s *admin.Subscription) string {
	switch {
	case s.Wish == nil:
		return s.State + " (not desired)"
	case s.Wish.Paused:
		return s.State + " (paused)"
	case s.LastError != nil:
		return fmt.Sprintf("%s (%s)", s.State, s.LastError.Reason)
	}
	return s.State
}

func newSubscriptionsGet(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show all that is known of one subscription",
		Args:  oneName,
	}
	flags := clientFlagsOf(cmd, getenv)
	output := outputFlag(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := flags.client()
		if err != nil {
			return err
		}
		var s admin.Subscription
		if err := c.get(cmd.Context(), "/api/v1/subscriptions/"+url.PathEscape(args[0]), nil, &s); err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), s, func(w io.Writer) error {
			return rows(w, subscriptionTable(time.Now(), &s))
		})
	}
	return cmd
}

func subscriptionTable(now time.Time, s *admin.Subscription) [][]string {
	table := [][]string{{"NAME", s.Name}, {"TENANT", s.Tenant}, {"STATE", stateOf(s)}}
	if s.LastError != nil {
		table = append(table, []string{"", s.LastError.Text}, []string{"", "To do: " + s.LastError.Remedy})
	}
	if s.Wish != nil {
		table = append(table, wishTable(s.Wish)...)
	}
	if s.Record != nil {
		table = append(table, recordTable(now, s.Record)...)
	}
	table = append(table, []string{"LAST CHANGE CAME", when(now, s.LastNotificationAt, "never")})
	for i := range s.Replaces {
		older := &s.Replaces[i]
		table = append(table, []string{"REPLACES", fmt.Sprintf("gen %s, %s, id %s, expires %s", older.Gen, older.State, older.ID, when(now, older.ExpiresAt, "-"))})
	}
	return table
}

func wishTable(w *admin.Wish) [][]string {
	lifetime := "as long as Graph allows"
	if w.Lifetime > 0 {
		lifetime = span(time.Duration(w.Lifetime * float64(time.Second)))
	}
	sinks := strings.Join(w.Sinks, ", ")
	if sinks == "" {
		sinks = "none"
	}
	table := [][]string{
		{"RESOURCE", w.Resource},
		{"CHANGE TYPES", strings.Join(w.ChangeTypes, ", ")},
		{"LIFETIME", lifetime},
		{"SINKS", sinks},
		{"SOURCE", w.Source},
		{"GEN", w.Gen},
	}
	if w.SilentAfter > 0 {
		table = append(table, []string{"SILENT AFTER", span(time.Duration(w.SilentAfter * float64(time.Second)))})
	}
	return table
}

func recordTable(now time.Time, r *admin.Record) [][]string {
	var table [][]string
	if r.ID != "" {
		table = append(table,
			[]string{"ID", r.ID}, []string{"CREATED", when(now, r.CreatedAt, "-")}, []string{"GRANTED", when(now, r.GrantedAt, "-")},
			[]string{"EXPIRES", when(now, r.ExpiresAt, "-")}, []string{"RENEWS", when(now, r.RenewAt, "-")})
	}
	if r.Attempts > 0 {
		table = append(table, []string{"FAILED TRIES", fmt.Sprint(r.Attempts)}, []string{"NEXT TRY", when(now, r.NextTryAt, "-")})
	}
	if r.LostAt != nil {
		table = append(table, []string{"CHANGES LOST SINCE", when(now, r.LostAt, "")})
	}
	return table
}
