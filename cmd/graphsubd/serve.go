package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/app"
	"github.com/graphsubd/graphsubd/internal/config"
)

// collectAt has the heap grow to three times what lives before it is collected.
// Little lives, and much comes and goes: a notification is in memory for a
// moment. It takes some 10 MiB under full load, for a tenth of the throughput.
const collectAt = 200

func newServe(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Keep the configured subscriptions alive and hand on what they send",
		Long: `Serve until an interrupt or SIGTERM: keep the subscriptions of the
configuration alive, receive their notifications and deliver them. Logs go to
standard error, for a person on a terminal and as JSON otherwise.

The configuration is read anew when its files change and at SIGHUP. What can
be taken over is, all of it or nothing; a section that only a restart can
change is refused and named, and the former configuration goes on.`,
		Args: noArgs,
	}
	path := configFlag(cmd)
	addresses := cmd.Flags().String("addresses-file", "", "write the addresses that are really listened on to this `file`, as JSON")
	acceptKeys := cmd.Flags().Bool("accept-new-keys", false, "make every subscription anew although no configured signing key is known to the store")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if getenv("GOGC") == "" {
			debug.SetGCPercent(collectAt)
		}
		cfg, err := config.Load(*path, getenv)
		if err != nil {
			return err
		}
		log := newLogger(cmd.ErrOrStderr(), cfg.Log)
		for _, warning := range cfg.Warnings() {
			log.WarnContext(cmd.Context(), "configuration", "warning", warning)
		}
		changed, stop, err := watchFiles(cmd.Context(), *path, cfg.Include, log)
		if err != nil {
			return err
		}
		defer stop()
		built := readVersion()
		process, err := app.New(cmd.Context(), cfg, app.Options{
			Logger: log, Stdout: cmd.OutOrStdout(), Version: built.Version, Commit: built.Commit,
			AcceptKeys: *acceptKeys,
			Changed:    changed, Load: func() (*config.Config, error) { return config.Load(*path, getenv) },
		})
		if err != nil {
			return err
		}
		if *addresses != "" {
			if err := writeAddresses(*addresses, process.Addresses()); err != nil {
				return err
			}
		}
		return process.Run(cmd.Context())
	}
	return cmd
}

// writeAddresses replaces the file at once, so that whoever waits for it reads
// it whole.
func writeAddresses(path string, addresses app.Addresses) error {
	text, err := json.Marshal(addresses)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the addresses: %w", err)
	}
	return os.Rename(path+".new", path)
}
