// Package webhook is the sink that posts each event to an HTTP endpoint, as a
// CloudEvent in structured mode, signed as Standard Webhooks says.
//
// One request carries one event: its body is the event, webhook-id its id,
// which stays the same however often it is sent, webhook-timestamp the second
// of this try, and webhook-signature one signature for each secret. A 2xx says
// that the consumer has the event. Every other answer is a failure of that
// event alone, and is tried again until the event is too old: a consumer that
// answers 400 or 410 today may be one that was put up wrongly, and to lose
// events for that would be worse than to send one in vain for days.
//
// The end of trying comes early for a whole batch in two cases, since nothing
// would get through: a destination that cannot be reached, and 429. The events
// that were not sent then share the error.
//
// Nothing but the configured URL is ever asked: a redirect is a failure. An
// error holds a status or the fault of the connection, and never the URL, a
// secret or a word of the answer, which may repeat what was sent.
//
// Secrets are read again once a minute, and after a 401 or 403. One that
// cannot be read leaves those before it in use.
//
// Send runs up to the configured number of requests at once and joins them.
package webhook
