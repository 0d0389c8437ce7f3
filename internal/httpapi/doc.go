// Package httpapi is what graphsubd serves over HTTP: the public receiver,
// which Graph calls, the admin interface, which people and their programs call,
// and the health and metrics of the telemetry port.
//
// The receiver decides nothing that needs more than the signing keys and one
// look-up: it checks the URL, answers handshakes, judges each item, stores all
// items of a POST in one call and only then answers 202. What it cannot store
// it refuses with 503, so that Graph sends it again. A handshake touches
// neither the body nor the store. Decryption, de-duplication and delivery are
// others' work.
//
// The admin interface shows nothing without a token, not even its schema. It
// reads; what it answers is made by package admin, which holds no secret.
//
// Invariants: a 2xx to a notification means that the inbox called it durable;
// no log line, metric, answer or error holds a URL's path or query, a body or
// a clientState; memory held for bodies is bounded over all requests. A panic
// is recovered at this edge only, counted, and answered 500.
//
// The package starts no goroutine; the caller serves the handlers and ends
// them. Receiver, Admin and Readiness are safe for concurrent use.
package httpapi
