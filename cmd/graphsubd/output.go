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

// outputFormat is the value of -o, one of the formats a command has.
type outputFormat struct {
	value   string
	allowed []string
}

// outputFlag adds -o with the formats of the command, the default first.
func outputFlag(cmd *cobra.Command, allowed ...string) *outputFormat {
	format := &outputFormat{value: allowed[0], allowed: allowed}
	cmd.Flags().VarP(format, "output", "o", "output `format`: "+strings.Join(allowed, ", "))
	return format
}

// String returns the chosen format.
func (f *outputFormat) String() string { return f.value }

// Type names the value for the help text.
func (*outputFormat) Type() string { return "format" }

// Set chooses a format.
func (f *outputFormat) Set(value string) error {
	if !slices.Contains(f.allowed, value) {
		return fmt.Errorf("not one of %s", strings.Join(f.allowed, ", "))
	}
	f.value = value
	return nil
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
