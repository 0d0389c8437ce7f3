// Package renewal keeps subscriptions alive. It observes what is wished for
// and what is recorded, decides what to do, applies it under the limits of the
// service, and stores the result.
//
// The decisions are pure functions over values: DecideOne says what to do with
// one record and when to look again, and the settling functions say what a
// record becomes by an answer. A Manager drives them for one term of
// leadership: a heap of due times, no tick, calls in parallel but never two
// for one record.
//
// What always holds:
//   - No error ends the renewal of anything. It is classified, backed off with
//     jitter, stored with its reason, and tried again.
//   - A create is announced to the store before it is sent, so that an answer
//     that never came is found again by a listing and not made twice.
//   - A listing proves presence, never absence.
//   - With the store away, what is held in memory is renewed and written back
//     later; nothing is created or deleted.
//
// The package knows neither HTTP nor the lease nor flags. It declares the
// small interfaces it needs, so it would keep any expiring external resource
// alive. All its goroutines are started and joined by Manager.Run.
package renewal
