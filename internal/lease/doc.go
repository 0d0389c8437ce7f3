// Package lease decides which process leads. Only the leader writes to Graph;
// every process receives and delivers.
//
// Run contends for the lease for ever and runs a body while it holds it. The
// body's context ends before the lease is released: the body is cancelled,
// waited for, and only then another process may lead.
//
// A lease is no fence at Graph. The store issues a term to each leader and
// refuses writes of an older one, so that a late answer changes nothing.
//
// This version has the lock on a file, for one machine. The package imports
// nothing of this module, and Run owns every goroutine it starts.
package lease
