package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run a simulated Microsoft Graph and token service, for tests",
		Long: `Serve a strict, seeded simulator of Microsoft Graph's subscriptions and of its
token service over TLS, and a control API over plain HTTP on loopback. One line
of JSON on standard output says where, once it is ready:

  {"graph":…,"login":…,"control":…,"caFile":…,"timeScale":…,"seed":…}

It knows every tenant and every application, and takes any secret. Nothing that
is sent to it leaves this machine.`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	listen := flags.String("listen", "127.0.0.1:0", "`address` of Graph and of the token service")
	control := flags.String("control", "127.0.0.1:0", "`address` of the control API, on loopback")
	caFile := flags.String("ca-file", "", "where to write the certificate to trust (default: a file in a temporary directory)")
	scale := flags.Float64("time-scale", 1, "how much faster Graph's time runs, at least 1")
	seed := flags.Uint64("seed", 0, "seed of everything that is drawn (default: drawn, and printed)")
	budgets := flags.Bool("throttle", false, "answer 429 beyond Graph's documented limits")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if *scale < 1 {
			return usageError(errors.New("--time-scale has to be at least 1"))
		}
		cfg := graphsim.Config{Seed: *seed, TimeScale: *scale, Logger: newLogger(cmd.ErrOrStderr(), defaultLog())}
		if *budgets {
			cfg.Budgets = graphsim.DocumentedBudgets()
		}
		sim, err := graphsim.New(cfg)
		if err != nil {
			return usageError(err)
		}
		if *caFile == "" {
			dir, err := os.MkdirTemp("", "graphsubd-simulate-")
			if err != nil {
				return fmt.Errorf("make a directory for the certificate: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			*caFile = filepath.Join(dir, "ca.pem")
		}
		server, err := graphsim.Listen(cmd.Context(), sim, graphsim.ServerConfig{Graph: *listen, Control: *control, CAFile: *caFile})
		if err != nil {
			return err
		}
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(server.StartLine()); err != nil {
			return err
		}
		return server.Run(cmd.Context())
	}
	return cmd
}
