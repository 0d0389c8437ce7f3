package main

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/admin"
)

// whatIsHeld is --approve without an id.
const whatIsHeld = "held"

func newPlan(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a running instance is about to do, and release what it holds",
		Long: `Show what the leader of a running instance is about to do at Graph. When more
subscriptions of a tenant would be deleted or made anew at once than is done
unasked, all of these changes are held until somebody has looked at them and
releases them by --approve. Renewals go on meanwhile.

--approve=ID releases what a plan has shown under that id, and nothing when
that has changed since. --approve alone releases whatever is held now, and says
on standard error what that is. Both take a token with the role operator.`,
		Args: noArgs,
	}
	flags := clientFlagsOf(cmd, getenv)
	output := outputFlag(cmd, "table", "json", "yaml")
	limit := cmd.Flags().Int("limit", 100, "how many `steps` to show at most, up to 1000")
	approve := cmd.Flags().String("approve", "", "release what is held, as the plan with this `id` shows it")
	cmd.Flags().Lookup("approve").NoOptDefVal = whatIsHeld
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.client()
		if err != nil {
			return err
		}
		if *approve != "" {
			return c.approve(cmd, *approve, output)
		}
		var plan admin.Plan
		if err := c.get(cmd.Context(), "/api/v1/plan", url.Values{"limit": {fmt.Sprint(*limit)}}, &plan); err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), plan, func(w io.Writer) error { return printPlan(w, time.Now(), &plan) })
	}
	return cmd
}

func (c *client) approve(cmd *cobra.Command, id string, output *outputFormat) error {
	if id == whatIsHeld {
		var plan admin.Plan
		if err := c.get(cmd.Context(), "/api/v1/plan", url.Values{"limit": {"1"}}, &plan); err != nil {
			return err
		}
		if plan.Hold == nil {
			return classedError{fmt.Errorf("%s: nothing is held", c.base), errConflict}
		}
		id = plan.Hold.ID
		if err := printHold(cmd.ErrOrStderr(), plan.Hold); err != nil {
			return err
		}
	}
	var approval admin.Approval
	if err := c.post(cmd.Context(), "/api/v1/plan/approval", map[string]string{"id": id}, &approval); err != nil {
		return err
	}
	return output.write(cmd.OutOrStdout(), approval, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, approval.Result)
		return err
	})
}

func printPlan(w io.Writer, now time.Time, plan *admin.Plan) error {
	if hold := plan.Hold; hold != nil {
		if err := printHold(w, hold); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "Correct the configuration, or release what is held: graphsubd plan --approve=%s\n\n", hold.ID)
		if err != nil {
			return err
		}
	}
	if len(plan.Items) == 0 {
		_, err := fmt.Fprintln(w, "nothing to do")
		return err
	}
	table := [][]string{{"ACTION", "WHEN", "NAME", "TENANT", "RESOURCE"}}
	for i := range plan.Items {
		s := &plan.Items[i]
		due := "now"
		switch {
		case s.Held:
			due = "held"
		case s.At.After(now):
			due = when(now, &s.At, "")
		}
		table = append(table, []string{s.Action, due, s.Name, s.Tenant, s.Resource})
	}
	if err := rows(w, table); err != nil || plan.More == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %d more\n", plan.More)
	return err
}

// printHold says what is held, all of it in a few lines.
func printHold(w io.Writer, hold *admin.Hold) error {
	if _, err := fmt.Fprintf(w, "%s held:\n", howMany(hold.Count)); err != nil {
		return err
	}
	for _, group := range hold.Groups {
		if _, err := fmt.Fprintf(w, "  %s: %s %d\n", group.Tenant, group.Action, group.Count); err != nil {
			return err
		}
	}
	return nil
}

func howMany(n int64) string {
	if n == 1 {
		return "1 change is"
	}
	return fmt.Sprintf("%d changes are", n)
}
