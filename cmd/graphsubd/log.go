package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// isTerminal says whether a person reads what is written to w.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) //nolint:gosec // A file descriptor fits an int.
}

// newLogger writes lines for a person, in colour where they go to a terminal.
func newLogger(w io.Writer, level slog.Level, colour bool) *slog.Logger {
	return slog.New(tint.NewHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !colour}))
}
