package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/graphsubd/graphsubd/internal/config"
)

// isTerminal says whether a person reads what is written to w.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// defaultLog is how a command logs that has no configuration.
func defaultLog() config.Log { return config.Log{Level: "info", Format: "auto"} }

// newLogger writes lines for a person to a terminal, or where they are asked
// for, and JSON otherwise. The settings have been checked.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo
	}
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(w) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
