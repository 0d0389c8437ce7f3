package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal ends ctx; from then on a signal has its usual effect.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run carries out one command line and returns the exit code. What was asked
// for goes to stdout, what went wrong to stderr.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	root := newRoot(getenv) //nolint:contextcheck // Commands get theirs from cobra, which ExecuteContext gives it.
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// What fails before the command itself begins is a fault of the command line.
	begun := false
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	err := root.ExecuteContext(ctx)
	if err != nil && !begun {
		err = usageError(err)
	}
	printError(stderr, err)
	return exitCode(err)
}
