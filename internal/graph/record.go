package graph

import "time"

// State is where a record stands.
type State string

// The states of a record.
const (
	// StatePending: no subscription is known to exist yet.
	StatePending State = "pending"
	// StateActive: the subscription exists and is renewed.
	StateActive State = "active"
	// StateRecreating: it is gone; a new one is being made.
	StateRecreating State = "recreating"
	// StateParked: Graph refuses it for a reason that a person has to mend;
	// it is tried again at NextAt, more and more rarely.
	StateParked State = "parked"
	// StateDeleting: nobody wishes for it any more, and it is being deleted.
	StateDeleting State = "deleting"
)

// States lists every state.
func States() []State {
	return []State{StatePending, StateActive, StateRecreating, StateParked, StateDeleting}
}

// Record is what the store knows of one subscription: one for each name and
// gen. All instants are of this process's clock.
type Record struct {
	Name     string
	Gen      string
	Tenant   string // name in the configuration
	Resource string
	ID       string // Graph's id, "" while there is none

	State  State
	Reason Reason // why it is not simply active, "" when it is
	Detail string // Graph's words on the last failure, free of secrets

	CreatedAt time.Time // our own 201; a young record has a grace time
	GrantedAt time.Time // the last create or renewal
	ExpiresAt time.Time // as Graph returned it
	RenewAt   time.Time // drawn once when ExpiresAt became known

	Attempt int       // failures in a row
	NextAt  time.Time // not before, after a failure
	// Ambiguous says that a create was sent whose outcome is not known, so
	// that a listing has to come before another.
	Ambiguous bool
	// Held says that what would be done next waits for a person, as part of a
	// mass change. Reason may tell of something else that stands in the way.
	Held bool
	// What follows is not stored: after a restart the next call asks anew.
	//
	// Checks counts the GETs that a doubt about its existence has asked for.
	Checks int
	// ConflictID is the subscription that a 409 named, to be looked at.
	ConflictID string
	// FormerID is the one that was found gone; where Graph then refuses a new
	// one for its quota, it may have the former one again. Sought says that
	// it was looked for since the last try.
	FormerID string
	Sought   bool

	// LostAt is when changes may have begun to be lost: set when the
	// subscription is found gone, cleared by the next create, zero otherwise.
	LostAt time.Time
	// LostCause is the cause of the gap that LostAt begins.
	LostCause GapCause

	Term int64 // the term that wrote it last
}

// TwinMark stands in the gen of a duplicate's record between the gen that is in
// its URL and its id.
const TwinMark = "~"

// Key names a record.
type Key struct{ Name, Gen string }

// Key gives the record's key.
func (r Record) Key() Key { return Key{r.Name, r.Gen} }
