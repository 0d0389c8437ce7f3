package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/config"
)

// checkReport is what check prints about a configuration without faults.
type checkReport struct {
	Config        string   `json:"config"`
	Instance      string   `json:"instance"`
	PublicURL     string   `json:"publicURL"`
	Tenants       []string `json:"tenants"`
	Subscriptions int      `json:"subscriptions"`
	Sinks         []string `json:"sinks"`
	Warnings      []string `json:"warnings"`
}

func newCheck(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the configuration is right, without starting anything",
		Long: `Read the configuration, the files it includes and the secrets it names, and
print every fault with its place and what to do, or a summary when there is
none. Nothing is started, written or asked over the network.`,
		Args: noArgs,
	}
	path := configFlag(cmd)
	output := outputFlag(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(*path, getenv)
		if err != nil {
			return err
		}
		report := newCheckReport(*path, c)
		return output.write(cmd.OutOrStdout(), report, report.table)
	}
	return cmd
}

func newCheckReport(path string, c *config.Config) checkReport {
	report := checkReport{
		Config:        path,
		Instance:      c.Instance,
		PublicURL:     c.PublicURL,
		Tenants:       []string{},
		Subscriptions: len(c.Subscriptions),
		Sinks:         []string{},
		Warnings:      append([]string{}, c.Warnings()...),
	}
	for _, tenant := range c.Tenants {
		report.Tenants = append(report.Tenants, tenant.Name)
	}
	for _, sink := range c.Sinks {
		report.Sinks = append(report.Sinks, sink.Name)
	}
	return report
}

func (r checkReport) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]any{
		{"CONFIG", r.Config + " is valid"},
		{"INSTANCE", r.Instance},
		{"PUBLIC URL", r.PublicURL},
		{"TENANTS", counted(r.Tenants)},
		{"SUBSCRIPTIONS", r.Subscriptions},
		{"SINKS", counted(r.Sinks)},
	} {
		if _, err := fmt.Fprintf(t, "%s\t%v\n", row[0], row[1]); err != nil {
			return err
		}
	}
	for _, warning := range r.Warnings {
		if _, err := fmt.Fprintf(t, "WARNING\t%s\n", warning); err != nil {
			return err
		}
	}
	return t.Flush()
}

// counted returns the number of names and as many of them as a line holds.
func counted(names []string) string {
	const shown = 8
	text := fmt.Sprint(len(names))
	switch {
	case len(names) == 0:
		return text
	case len(names) > shown:
		return text + ": " + strings.Join(names[:shown], ", ") + ", …"
	}
	return text + ": " + strings.Join(names, ", ")
}
