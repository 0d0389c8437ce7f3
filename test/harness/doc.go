// Package harness runs the built graphsubd as processes: the service, and the
// simulator that stands in for Graph. Process tests and benchmark programs use
// it alike, through T; what it starts it also ends, by process id.
package harness
