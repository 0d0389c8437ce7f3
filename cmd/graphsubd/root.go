package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the whole command line. Subcommands get what they need as
// arguments; none reads the environment by itself.
func newRoot(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use:           "graphsubd",
		Short:         "Keep Microsoft Graph subscriptions alive and lose nothing they send",
		SilenceErrors: true,
		SilenceUsage:  true,
		// Two letters apart is near enough to be suggested.
		SuggestionsMinimumDistance: 2,
		Args:                       knownCommand,
		RunE:                       noCommand,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; run %q for the flags", err, cmd.CommandPath()+" --help")
	})
	root.AddCommand(
		newServe(getenv),
		newDemo(getenv),
		newSimulate(),
		newCheck(getenv),
		newPlan(getenv),
		newStatus(getenv),
		newSubscriptions(getenv),
		newResources(),
		newStore(getenv),
		newVersion(),
	)
	return root
}

// noCommand is what a command that only has subcommands does.
func noCommand(cmd *cobra.Command, _ []string) error {
	return usageError(fmt.Errorf("no command given; run %q for the list", cmd.CommandPath()+" --help"))
}

// knownCommand refuses what is left over when no subcommand was found.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	remedy := fmt.Sprintf("run %q for the list", cmd.CommandPath()+" --help")
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q; %s", args[0], remedy)
}

// noArgs refuses arguments of a command that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments, found %q", cmd.CommandPath(), args[0])
}

// oneName takes one argument, the name of a thing.
func oneName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s takes one name, found none", cmd.CommandPath())
	case len(args) > 1 || args[0] == "":
		return fmt.Errorf("%s takes one name, found %q", cmd.CommandPath(), args)
	}
	return nil
}

// configFlag adds --config and returns where its value will be.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "graphsubd.yaml", "configuration `file`")
}
