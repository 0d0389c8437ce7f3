// Package lease decides which process leads. Only the leader writes to Graph;
// every process receives and delivers.
//
// There are two kinds of election: File, a lock on a file, for processes of
// one machine; and Kubernetes, a Lease object, for the replicas of a cluster.
// Run contends for the lease for ever and runs a body while it holds it.
//
// What always holds:
//   - Two bodies never run at once, unless somebody takes the Lease object
//     itself out of the election: deletes it, or writes into it.
//   - The body's context ends before the lease is released: the body is
//     cancelled, waited for, and only then another process may lead.
//   - In doubt nobody leads. A Lease that is missing is never created, and any
//     failure of the API is a reason not to begin.
//   - A body that stays longer than the lease could last ends the process.
//
// A lease is no fence at Graph: a request that is on its way cannot be called
// back. Left tells how long the lease lasts at least, so that no write begins
// that could outlive it. The store, besides, issues a term to each leader and
// refuses writes of an older one.
//
// The package imports nothing of this module, it is the only one to import
// Kubernetes, and Run owns every goroutine it starts.
package lease
