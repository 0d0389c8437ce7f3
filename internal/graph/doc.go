// Package graph is the port to Microsoft Graph in plain Go: what a subscription
// is, how a call can fail, and what may be asked of which resource. It holds
// no client; package msgraph below it does the calls.
//
// It is also the vocabulary that the renewal and the store share without
// importing each other: a wish is one desired subscription, a record is what
// the store knows of it, live is what Graph says, and a gap is a span in which
// changes may have been lost.
//
// The package imports nothing of this module and nothing beyond the standard
// library, starts no goroutine and does no I/O, so it is cheap to depend on.
package graph
