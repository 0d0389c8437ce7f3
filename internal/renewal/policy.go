package renewal

import "time"

// Policy holds every duration and share that the decisions use. Every duration
// is in Graph's time; Compress shortens them all alike.
type Policy struct {
	// Margin is taken off the maximum lifetime when asking, because Graph
	// counts it by its own clock. It must exceed the clock skew to bear.
	Margin time.Duration
	// RenewEarliest and RenewLatest are the shares of the granted life between
	// which the instant of the renewal is drawn. At the latest a third of the
	// life is left for tries.
	RenewEarliest, RenewLatest float64
	// MinSpacing is the least time between two renewals of one subscription,
	// however little Graph grants.
	MinSpacing time.Duration

	// RetryBase doubles with each failure up to RetryMax; the wait is drawn
	// between half of that and all of it.
	RetryBase, RetryMax time.Duration
	// TriesLeft is how many more tries have to fit before the expiry: a wait
	// is never longer than the remaining life divided by it.
	TriesLeft int
	// ParkBase and ParkMax are the same ladder for what a person has to mend.
	ParkBase, ParkMax time.Duration

	// Grace is how long after our own create a 404 is checked by GETs before
	// it counts; CheckEvery is the first wait between them, which doubles.
	Grace, CheckEvery time.Duration
	// ReauthorizeSpacing is how recent a renewal has to be to answer a
	// reauthorizationRequired by itself.
	ReauthorizeSpacing time.Duration
	// MissedWindow is how far back a missed event may reach: as long as
	// Graph tries to deliver.
	MissedWindow time.Duration
	// SweepEvery is the longest time between two listings of a tenant that
	// nobody asked for.
	SweepEvery time.Duration
	// LimitFloor is asked for when Graph refuses a lifetime without saying
	// which one it would take.
	LimitFloor time.Duration
	// LimitLife is how long a limit that Graph named counts. After it the rule
	// is tried once more, since Graph raises its limits.
	LimitLife time.Duration

	// More than MassFloor deletions and subscriptions made anew in a tenant,
	// and more than MassShare of all that it has, by one reload or within
	// MassWindow, wait for a person.
	MassWindow time.Duration
	MassFloor  int
	MassShare  float64
}

// DefaultPolicy is what production uses. A test holds the inequalities that
// the values have to satisfy.
func DefaultPolicy() Policy {
	return Policy{
		Margin:             5 * time.Minute,
		RenewEarliest:      0.60,
		RenewLatest:        0.66,
		MinSpacing:         2 * time.Minute,
		RetryBase:          15 * time.Second,
		RetryMax:           15 * time.Minute,
		TriesLeft:          4,
		ParkBase:           5 * time.Minute,
		ParkMax:            6 * time.Hour,
		Grace:              time.Minute,
		CheckEvery:         2 * time.Second,
		ReauthorizeSpacing: 10 * time.Minute,
		MissedWindow:       4 * time.Hour,
		SweepEvery:         24 * time.Hour,
		LimitFloor:         time.Hour,
		LimitLife:          30 * 24 * time.Hour,
		MassWindow:         10 * time.Minute,
		MassFloor:          10,
		MassShare:          0.10,
	}
}

// Compress divides every duration by scale, for a simulator whose time runs
// faster. A scale of 1 or less changes nothing.
func (p Policy) Compress(scale float64) Policy {
	if scale <= 1 {
		return p
	}
	for _, d := range []*time.Duration{
		&p.Margin, &p.MinSpacing, &p.RetryBase, &p.RetryMax, &p.ParkBase, &p.ParkMax, &p.Grace,
		&p.CheckEvery, &p.ReauthorizeSpacing, &p.MissedWindow, &p.SweepEvery, &p.LimitFloor, &p.LimitLife, &p.MassWindow,
	} {
		*d = time.Duration(float64(*d) / scale)
	}
	return p
}
