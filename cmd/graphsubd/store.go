package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/app"
	"github.com/graphsubd/graphsubd/internal/config"
)

func newStore(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look after the store",
		Args:  knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError(fmt.Errorf("no command given; run %q for the list", cmd.CommandPath()+" --help"))
		},
	}
	cmd.AddCommand(newStoreBackup(getenv))
	return cmd
}

func newStoreBackup(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Copy the SQLite store into a new file, also while it is in use",
		Long: `Copy the SQLite store of the configuration into a new file: all that was
committed when the command began, also while serve runs. The copy is checked
and synced. A file that exists is not overwritten.

To restore, stop serve, put the copy in the place of the store's file and
remove the files beside it that end in -wal and -shm. PostgreSQL has tools of
its own: pg_dump, or the backup of the server.`,
		Args: noArgs,
	}
	path := configFlag(cmd)
	to := cmd.Flags().String("to", "", "the new `file`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *to == "" {
			return usageError(errors.New("--to is missing: name the new file"))
		}
		cfg, err := config.Load(*path, getenv)
		if err != nil {
			return err
		}
		err = app.Backup(cmd.Context(), cfg, *to)
		if errors.Is(err, fs.ErrExist) {
			return classedError{fmt.Errorf("%s exists and is not overwritten: name another file", *to), errConflict}
		}
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", *to)
		}
		return err
	}
	return cmd
}
