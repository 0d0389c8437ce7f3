// Package storetest is the conformance suite of the store: what every
// database below it has to do. It uses the exported methods only.
package storetest
