package graph

import "time"

// GapCause says why changes may have been lost.
type GapCause string

// The causes of a gap.
const (
	GapRecreated GapCause = "recreated" // found gone, then made anew
	GapRemoved   GapCause = "removed"   // Graph said that it removed it
	GapMissed    GapCause = "missed"    // Graph said that it dropped some
	GapLapsed    GapCause = "lapsed"    // expired before it could be renewed
	GapPaused    GapCause = "paused"    // a person paused it
	GapOutage    GapCause = "outage"    // we were away for longer than Graph retries
)

// GapCauses lists every cause.
func GapCauses() []GapCause {
	return []GapCause{GapRecreated, GapRemoved, GapMissed, GapLapsed, GapPaused, GapOutage}
}

// Gap is a span in which changes of a subscription may have been lost. To is
// zero while it is open. A closed gap still has to be recovered by reading the
// resource anew; a consumer learns of it by an event.
type Gap struct {
	Name  string
	From  time.Time
	To    time.Time
	Cause GapCause
}

// Event is what the sinks are told of the gap, as one of the two events of gaps.
func (g Gap) Event(kind EventType, at time.Time) Event {
	return Event{Type: kind, At: at, Name: g.Name, From: g.From, To: g.To, Cause: g.Cause}
}

// Opening is the gap as it was while it was open.
func (g Gap) Opening() Gap {
	g.To = time.Time{}
	return g
}
