package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphsubd/graphsubd/internal/app"
	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// The demo's clock: half an hour of Graph passes in a second, so a subscription
// of six hours lives for twelve seconds.
const (
	demoScale    = 1800
	demoLifetime = 6 * time.Hour
)

func newDemo(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole job against a simulated Graph, with nothing to set up",
		Long: `Run a simulator of Microsoft Graph and graphsubd with a SQLite store and a
console sink in one process. Time is compressed: a subscription of six hours
lives for twelve seconds. Three subscriptions are made, renewed and delivered;
one is removed upstream behind graphsubd's back and made anew, and one renewal
is throttled. No account and no network is needed, and nothing is left behind.

It ends after --for, or at an interrupt, with the counts of each side. Exit
code 1: they disagree, something was lost, fewer than 30 notifications were
accepted, or nothing was renewed or recreated.`,
		Args: noArgs,
	}
	length := cmd.Flags().Duration("for", 0, "end after this `time`, such as 30s (default: at an interrupt)")
	output := outputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *length < 0 {
			return usageError(errors.New("--for has to be a positive time, such as 30s"))
		}
		story := cmd.OutOrStdout()
		if output.value == "json" {
			story = io.Discard
		}
		summary, err := runDemo(cmd.Context(), story, *length, getenv)
		if err != nil {
			return err
		}
		if err := output.write(cmd.OutOrStdout(), summary, summary.table); err != nil {
			return err
		}
		return summary.verdict()
	}
	return cmd
}

// runDemo plays the demo and counts it. The story goes to out as it happens.
func runDemo(ctx context.Context, out io.Writer, length time.Duration, getenv func(string) string) (s demoSummary, err error) {
	dir, err := os.MkdirTemp("", "graphsubd-demo-")
	if err != nil {
		return s, fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	stage, err := newDemoStage(ctx, dir, slog.New(newDemoStory(out)), getenv)
	if err != nil {
		return s, err
	}
	play := ctx
	if length > 0 {
		var end context.CancelFunc
		play, end = context.WithTimeout(ctx, length)
		defer end()
	}
	err = stage.perform(play)
	return stage.summary(), err
}

// demoStage is everything that runs in a demo.
type demoStage struct {
	log  *slog.Logger
	sim  *graphsim.Sim
	peer *graphsim.Server
	app  *app.App
	sink *demoSink
}

func newDemoStage(ctx context.Context, dir string, log *slog.Logger, getenv func(string) string) (*demoStage, error) {
	sim, err := graphsim.New(graphsim.Config{TimeScale: demoScale, Tenants: []string{demoTenantID}, Clients: demoClients()})
	if err != nil {
		return nil, err
	}
	files := demoFiles{dir: dir}
	peer, err := graphsim.Listen(ctx, sim, graphsim.ServerConfig{CAFile: files.path("ca.pem")})
	if err != nil {
		return nil, err
	}
	public, err := listenLoopback(ctx)
	if err != nil {
		return nil, err
	}
	if err := files.write(peer.StartLine(), public.Addr().String()); err != nil {
		return nil, errors.Join(err, public.Close())
	}
	cfg, err := config.Load(files.path("graphsubd.yaml"), getenv)
	if err != nil {
		return nil, errors.Join(err, public.Close())
	}
	sink := newDemoSink()
	built := readVersion()
	process, err := app.New(ctx, cfg, app.Options{
		Logger: log, Stdout: sink, Version: built.Version, Commit: built.Commit, Public: public,
	})
	if err != nil {
		return nil, err
	}
	return &demoStage{log: log, sim: sim, peer: peer, app: process, sink: sink}, nil
}

// perform plays until ctx ends, then lets what was sent arrive, and stops both
// sides. Nothing moves any more when it returns.
func (d *demoStage) perform(ctx context.Context) error {
	simulator, stopSimulator := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSimulator()
	process, stopProcess := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProcess()
	simDone, appDone := make(chan error, 1), make(chan error, 1)
	go func() { simDone <- d.peer.Run(simulator) }()
	go func() { appDone <- d.app.Run(process) }()

	d.script(ctx)
	d.settle(context.WithoutCancel(ctx))
	stopProcess()
	err := <-appDone
	stopSimulator()
	return errors.Join(err, <-simDone)
}
