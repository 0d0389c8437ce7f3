package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// resourceTable is what resources prints: the rules and their date.
type resourceTable struct {
	Version string       `json:"version"`
	Rules   []graph.Rule `json:"rules"`
}

func newResources() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resources [RESOURCE]",
		Short: "Show what is known of the resources that Graph lets one subscribe to",
		Long: `Print the table that check and the renewal go by: which resources there are,
how long a subscription to each may live, which changes it has, whether Graph
can send the changed item along, and which application permission it needs.
With a resource, such as users/ID/messages, print all that is known of it.
Nothing is read or asked over the network.`,
		Args: atMostOneArg,
	}
	output := outputFlag(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rules, err := graph.LoadRules()
		if err != nil {
			return err
		}
		table := resourceTable{Version: rules.Version, Rules: rules.All()}
		show := table.list
		if len(args) == 1 {
			rule, known := rules.For(args[0])
			if !known {
				return classedError{fmt.Errorf("resource %q is of no known kind; graphsubd resources lists the known ones", args[0]), errNotFound}
			}
			table.Rules = []graph.Rule{rule}
			show = table.detail
		}
		return output.write(cmd.OutOrStdout(), table, show)
	}
	return cmd
}

// atMostOneArg refuses more than one argument.
func atMostOneArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one resource, found %q too", cmd.CommandPath(), args[1])
	}
	return nil
}

// list prints one line for each path.
func (r resourceTable) list(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TYPE\tRESOURCE\tLONGEST\tCHANGES\tDATA\tPERMISSION")
	for _, rule := range r.Rules {
		for _, path := range rule.Paths {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", rule.Type, path, minutes(rule.MaxLifetime), changes(rule), known(string(rule.Rich)), permissions(rule))
		}
	}
	return t.Flush()
}

// detail prints all that is known of the one resource.
func (r resourceTable) detail(w io.Writer) error {
	rule := r.Rules[0]
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := [][2]string{{"TYPE", rule.Type}}
	add := func(label string, texts ...string) {
		for _, text := range texts {
			rows = append(rows, [2]string{label, text})
			label = ""
		}
	}
	add("RESOURCE", rule.Paths...)
	add("LONGEST", minutes(rule.MaxLifetime))
	if rule.RichLifetime > 0 {
		add("WITH DATA", minutes(rule.RichLifetime))
	}
	add("CHANGES", changes(rule))
	add("DATA", known(string(rule.Rich)))
	add("DELTA", known(string(rule.Delta)))
	add("PERMISSION", permissions(rule))
	add("CLOUDS", rule.Clouds...)
	add("QUOTA", rule.Quotas...)
	add("NOTE", rule.Notes...)
	for _, caution := range rule.Cautions {
		add("CAUTION", caution.Text+"; "+caution.Remedy)
	}
	add("SOURCE", rule.Source)
	add("TABLE", r.Version)
	for _, row := range rows {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	return t.Flush()
}

func minutes(d time.Duration) string { return fmt.Sprint(int(d.Minutes())) + "m" }

func changes(rule graph.Rule) string {
	var list []string
	for _, word := range rule.ChangeTypes {
		list = append(list, string(word))
	}
	return known(strings.Join(list, ", "))
}

func permissions(rule graph.Rule) string {
	if rule.DelegatedOnly {
		return "for signed-in users only"
	}
	return known(strings.Join(rule.Permissions, ", "))
}

// known stands in for what no page says.
func known(text string) string {
	if text == "" {
		return "?"
	}
	return text
}
