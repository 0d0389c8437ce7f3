// Package app is the one place that knows every part and puts them together,
// the same in a test, in the demo and in a pod. It holds no rule of its own.
//
// New builds everything and binds the listeners; Run starts the parts in order
// and, when its context ends, stops them in order, each within its own time:
// leading and the HTTP listeners first and side by side, then the delivery,
// then the store. What was acknowledged is in the store by then.
package app
