// Package load sends notifications as Graph does, made for the subscriptions
// that live in a simulator: so many that the simulator itself, which shares the
// machine, would be what is measured.
package load
