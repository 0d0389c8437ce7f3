// Package admin holds the answers of the admin interface: their schema, which
// the REST handlers send, the commands print and other programs read, and the
// pure functions that make them of what the store knows.
//
// The schema is a contract. Names may be added; to rename or remove one takes
// a decision record and a changelog entry, and docs/openapi.json shows the
// difference. Names are in lowerCamelCase, instants are in UTC, durations in
// seconds. What is not known is left out, never sent as a zero instant.
//
// The package does no I/O, starts no goroutine and knows no HTTP. It holds no
// secret and no URL, so that no answer can show one.
package admin
