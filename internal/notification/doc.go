// Package notification is the wire between Microsoft Graph and graphsubd on
// the receiving side: lenient decoding of what Graph posts, the identity that
// URL tokens and clientState prove, and the verdict on each item.
//
// It is also the vocabulary that the receiver, the store and the delivery
// share without importing each other: an Item is what arrived, a Row is what
// is stored of it, and a Delivery is a stored row on its way to one sink.
//
// The package imports nothing of this module, does no I/O, starts no
// goroutine, and every function of it is safe for concurrent use. ClientState
// is a secret: it is compared in constant time, is taken out of an item's JSON
// while decoding, and never appears in an error.
package notification
