package delivery

import "time"

// ladder says when a failed delivery is tried again: after base, then twice as
// long each time, never more than top, and each time a random share of it.
type ladder struct {
	base, top, maxAge time.Duration
}

// next gives the time of the next try after one that failed at now; share, in
// [0,1), is the jitter, and floor the shortest wait that the destination asked
// for. The last try is made as the delivery reaches its maximum age, counted
// from when it was received, whatever the floor; a failure then is its end.
func (l ladder) next(now, received time.Time, attempts int, share float64, floor time.Duration) (at time.Time, dead bool) {
	end := received.Add(l.maxAge)
	if !now.Before(end) {
		return time.Time{}, true
	}
	wait := l.base
	for range attempts {
		if wait *= 2; wait >= l.top {
			break
		}
	}
	at = now.Add(max(time.Duration(share*float64(min(wait, l.top))), floor))
	if at.After(end) {
		return end, false
	}
	return at, false
}
