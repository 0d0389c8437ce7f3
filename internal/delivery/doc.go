// Package delivery brings stored notifications to their destinations. It
// claims batches from a queue, makes CloudEvents of them, hands them to a sink
// and settles how each one ended: delivered, to be tried again, or dead.
//
// What it owns: the names and attributes of events, and the retry ladder. It
// stores nothing, knows no wire protocol (each sink is a package below it) and
// decides nothing about who gets what.
//
// Invariants: an event is settled as delivered only after its sink said that
// it has it; every other end leaves it in the queue or among the dead letters.
// Delivery is at least once, with an id that stays the same. One sink's
// trouble holds no other: each has a worker of its own, which shares nothing
// with the rest but the queue and the metrics.
//
// Run starts one goroutine for each sink and joins them all.
package delivery
