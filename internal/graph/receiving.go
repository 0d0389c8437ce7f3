package graph

import "time"

// Receiving says when notifications could be accepted, by any replica.
type Receiving struct {
	// Since is when the present stretch began: short breaks, such as a
	// restart's, do not end one. Zero when nobody ever accepted any.
	Since time.Time
	// At is when that was noted last.
	At time.Time
}

// ReceivingBreak is the longest time without a note that is still of one
// stretch. It exceeds what a restart takes and several of the notes.
const ReceivingBreak = 5 * time.Minute

// Now says whether notifications can be accepted.
func (r Receiving) Now(now time.Time) bool {
	return !r.At.IsZero() && now.Sub(r.At) <= ReceivingBreak
}

// SilentSince gives the instant since when nothing came for a subscription that
// lives, with last as the last change that came, and whether that is longer than
// its wish takes for well. Only time counts in which it existed and we could
// accept what is sent. It is pure.
func (r Receiving) SilentSince(now time.Time, w *Wish, record Record, last time.Time) (since time.Time, silent bool) {
	if w == nil || w.SilentAfter <= 0 || w.Paused || record.Gen != w.Gen || record.ID == "" || !r.Now(now) {
		return time.Time{}, false
	}
	since = record.CreatedAt
	if since.IsZero() {
		since = record.GrantedAt // found in a listing: how old it is nobody knows
	}
	for _, later := range []time.Time{last, r.Since} {
		if later.After(since) {
			since = later
		}
	}
	return since, now.Sub(since) >= w.SilentAfter
}
