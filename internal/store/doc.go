// Package store is the durable state of graphsubd: wishes and records, what
// was received, and what is on its way to the sinks. It is one logical model;
// this is its SQLite form, for one process.
//
// # What holds
//
//   - A nil from Append means committed and synced. Whatever is killed after
//     it, the rows are there at the next Open.
//   - Received rows go through two stages. Append writes them blind, many
//     callers in one transaction with one sync. The router then looks at them
//     in batches and, in one transaction each, drops evident duplicates, holds
//     or quarantines what may not go on, and makes one delivery for each sink.
//   - Nothing is dropped: a row ends as delivered, as a dead letter, as a
//     counted duplicate, or in the quarantine with a reason.
//   - A leader's write carries its term. When the store has issued a newer one
//     the write changes nothing and gives graph.ErrTermLost.
//   - A failure of the database gives graph.ErrStoreUnavailable. The connection
//     that saw it is closed and opened anew; its transaction is never retried
//     here.
//   - Deadlines are by the database's clock. On PostgreSQL nothing is kept in a
//     session beyond a transaction, and no position is taken for "everything
//     before is done": ids are committed out of order.
//
// # What it refuses
//
// A second process on the same SQLite file, a network file system below it, a
// PostgreSQL server that does not sync, a schema of a newer major version, and
// rows beyond the bound of the backlog. It takes no secrets: what it is given
// is stored as it is.
//
// # Goroutines
//
// On SQLite Open starts one, the writer, which owns the one connection that
// writes and takes all writes by priority: appends, the leader's, the sinks',
// the router's, retention's. On PostgreSQL it starts the flushers, which store
// what callers append in groups, by connections of their own; other writes run
// in their callers. Close ends and joins them. Run has the loops of the router,
// of retention and, on PostgreSQL, of what other processes did, and joins them.
// Readers have connections of their own and hold no cursor after a method has
// returned.
//
// All methods of a Store are safe for concurrent use.
package store
