package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker for a release, as in
// -X main.version=1.2.3.
var version, commit string

// buildVersion is what this binary was built from.
type buildVersion struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  noArgs,
	}
	output := outputFlag(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := readVersion()
		return output.write(cmd.OutOrStdout(), v, v.table)
	}
	return cmd
}

// readVersion joins what the linker set and what the Go command recorded. The
// commit is "unknown" in a binary built outside a repository.
func readVersion() buildVersion {
	v := buildVersion{
		Version:  version,
		Commit:   cmp.Or(commit, "unknown"),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if ok && v.Version == "" {
		v.Version = info.Main.Version
	}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	if !ok {
		return v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value // the whole hash, where the linker has it shortened
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

func (v buildVersion) table(w io.Writer) error {
	commit := v.Commit
	if v.Modified {
		commit += " with changes"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"VERSION", v.Version},
		{"COMMIT", commit},
		{"GO", v.Go},
		{"PLATFORM", v.Platform},
	} {
		if _, err := fmt.Fprintf(t, "%s\t%s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return t.Flush()
}
