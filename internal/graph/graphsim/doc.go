// Package graphsim simulates Microsoft Graph's change notifications and its
// token service: strict, seeded, and faulty where it is told to be.
//
// It owns the other side of the wire. It checks requests harder than Graph
// does, answers with the statuses, codes and texts that Graph is known to use,
// calls the notification endpoints as Graph does, and encrypts and signs by
// itself, so that it cannot share a mistake with the code it tests. It imports
// no other package of this module.
//
// It refuses to guess what the documentation leaves open: where two behaviours
// are known, a Config field chooses. It simulates application permissions only
// and does not check which of them a token carries. It has no $batch, no delta,
// no Event Hubs, Event Grid or Web Push targets.
//
// Invariants:
//   - A subscription exists only after both handshakes of its create call.
//   - Expired and removed subscriptions answer 404 and get nothing new.
//   - Only the tenant and application of a token see a subscription.
//   - The same seed and the same calls give the same subscription ids and
//     items, whatever the scheduling; only keys and ciphertexts differ.
//   - No mutex is held across a wait, and no socket is needed: the handlers and
//     Transport work inside a testing/synctest bubble. Make the Sim inside it.
//
// Time: every duration of Graph's own (lifetimes, the 45-minute minimum, retry
// window and back-off, slow windows, token life, budget windows, latency) is
// divided by Config.TimeScale. Time-outs of the network (handshake, delivery)
// are real. Instants on the wire are those of the wall clock, moved by
// SetClockOffset. Texts name Graph's unscaled minutes.
//
// It fails loudly: a bad Config stops New, what a caller asks wrongly is an
// error, and the seed to repeat a run with is always there (Sim.Seed, State).
//
// Goroutines: Sim.Run owns the deliveries, Server.Run the listeners; both join
// what they start before they return. A create call runs its two handshakes in
// goroutines that it joins.
package graphsim
