package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/graphsubd/graphsubd/internal/config"
)

// Exit codes. Scripts stand on them, so they do not change.
const (
	exitOK          = 0
	exitFailed      = 1 // It failed, or what was waited for is lost.
	exitUsage       = 2 // The command line or the configuration is wrong.
	exitUnreachable = 3 // The instance does not answer.
	exitDenied      = 4 // The caller may not do this.
	exitNotFound    = 5 // There is no such thing.
	exitConflict    = 6 // It does not fit the present state.
)

// What an error means to the caller of the command. A command wraps one of
// these; all other errors are failures.
var (
	errUsage       = errors.New("usage")
	errUnreachable = errors.New("unreachable")
	errDenied      = errors.New("denied")
	errNotFound    = errors.New("not found")
	errConflict    = errors.New("conflict")
)

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	if _, ok := errors.AsType[*config.LoadError](err); ok {
		return exitUsage
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errUnreachable):
		return exitUnreachable
	case errors.Is(err, errDenied):
		return exitDenied
	case errors.Is(err, errNotFound):
		return exitNotFound
	case errors.Is(err, errConflict):
		return exitConflict
	}
	return exitFailed
}

// classedError is an error of one class whose text is its own alone.
type classedError struct {
	error
	class error
}

func (e classedError) Unwrap() []error {
	return []error{e.error, e.class}
}

// usageError marks err as a mistake in the command line.
func usageError(err error) error {
	return classedError{err, errUsage}
}

// printError writes each line of err with the name of the program before it.
func printError(w io.Writer, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(w, "graphsubd: "+line)
	}
}
