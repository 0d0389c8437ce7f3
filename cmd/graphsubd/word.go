package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// span is a duration for a person, in its two largest units.
func span(d time.Duration) string {
	d = d.Abs().Round(time.Second)
	text := ""
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		n := d / unit.length
		d %= unit.length
		first := text == ""
		if n > 0 {
			text += fmt.Sprintf("%d%s", n, unit.name)
		}
		if !first {
			break
		}
	}
	return cmp.Or(text, "0s")
}

// when is an instant and how far from now it is; none stands for none.
func when(now time.Time, at *time.Time, none string) string {
	if at == nil {
		return none
	}
	distance := span(at.Sub(now)) + " ago"
	if at.After(now) {
		distance = "in " + span(at.Sub(now))
	}
	return fmt.Sprintf("%s (%s)", at.UTC().Format(time.RFC3339), distance)
}

// oneLine keeps text from elsewhere from breaking a table or a terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// size is a number of bytes for a person.
func size(bytes int64) string {
	const step = 1024
	value, unit := float64(bytes), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		value, unit = value/step, larger
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// rows prints cells in columns.
func rows(w io.Writer, lines [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for i, cell := range cells {
			cells[i] = oneLine(cell)
		}
		if _, err := fmt.Fprintln(t, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}
