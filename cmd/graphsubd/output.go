package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// choice is the value of a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

// String returns the chosen word.
func (c *choice) String() string { return c.value }

// Type names the value for the help text.
func (*choice) Type() string { return "word" }

// Set chooses a word.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("not one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = value
	return nil
}

// outputFormat is the value of -o, one of the formats a command has.
type outputFormat struct{ choice }

// outputFlag adds -o with the formats of the command, the default first.
func outputFlag(cmd *cobra.Command, allowed ...string) *outputFormat {
	format := &outputFormat{choice{value: allowed[0], allowed: allowed}}
	cmd.Flags().VarP(format, "output", "o", "output `format`: "+strings.Join(allowed, ", "))
	return format
}

// write prints value as JSON or YAML, or else what table prints.
func (f *outputFormat) write(w io.Writer, value any, table func(io.Writer) error) error {
	switch f.value {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	case "yaml":
		text, err := yaml.MarshalWithOptions(value, yaml.UseJSONMarshaler())
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return table(w)
}
