package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Why a value could not be read. Each is reported as a Fault with the words of
// the type that was wanted, so the text of these is never seen by a person.
var (
	errNotASize     = errors.New("not a size")
	errNotALifetime = errors.New("not a lifetime")
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// File is the path of the file, as it was given or found.
	File string
	// Line and Column count from 1; both are 0 when the file could not be read.
	Line, Column int
	// Key is the dotted key, such as subscriptions[0].tenant, or empty for the file as a whole.
	Key string
	// Problem says what was found; it never holds the value of a secret.
	Problem string
	// Remedy says what to do.
	Remedy string
}

// String returns the fault as one line: file:line:column: key: problem; remedy.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		b.WriteString(":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column))
	}
	for _, part := range []string{f.Key, f.Problem} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// LoadError is all that is wrong with a configuration: the main file's faults
// first, then those of the included files in the order of their names, each
// file's by position. It has at least one.
type LoadError struct {
	Faults []Fault
}

// Error returns the faults, one a line.
func (e *LoadError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// sortFaults orders the faults of one file by position; of two at the same
// place the one found first stays first.
func sortFaults(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// quote returns text for a person, short enough for one line.
func quote(text string) string {
	const longest = 80
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return strconv.Quote(text)
}
