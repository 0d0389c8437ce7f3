// Package config owns the configuration file of graphsubd: its keys, their
// defaults and limits, and every rule that one file, or the files it includes,
// can break.
//
// Load reads, decodes, fills in defaults, validates and only then reads the
// secrets the file points at. What it returns is complete and may be used as
// it is; it is never changed afterwards and may be read by many goroutines.
//
// Invariants:
//   - A key that is not known, stands twice or has the wrong type is a fault.
//     A part this version does not have yet is a fault too; nothing is ignored.
//   - All faults of all files are reported together, each with file, line,
//     column, what was found and what to do.
//   - A secret stands in a file or an environment variable, never in the
//     configuration, and its value appears in no fault and no output.
//
// The package writes nothing, listens to nothing, starts no goroutine and does
// not watch the files: to reload is to call Load again.
package config
