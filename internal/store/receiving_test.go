package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/store"
)

func note(t *testing.T, s *store.Store) graph.Receiving {
	t.Helper()
	if err := s.NoteReceiving(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Receiving(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tell(t *testing.T, s *store.Store, term int64) []graph.Gap {
	t.Helper()
	told, err := s.TellOutages(t.Context(), term, 100)
	if err != nil {
		t.Fatal(err)
	}
	return told
}

// Only a stretch for which Graph does not try again loses anything, and a
// restart does not begin the counting of silence anew.
func TestOutageBegins(t *testing.T) {
	for name, test := range map[string]struct {
		away          time.Duration
		anew, torn    bool
		clockSetAhead time.Duration // by so much it was ahead, and is right again
	}{
		"a restart":                  {away: 4 * time.Minute},
		"a repair":                   {away: 3 * time.Hour, anew: true},
		"as long as Graph tries":     {away: 4 * time.Hour, anew: true},
		"longer than Graph tries":    {away: 4*time.Hour + time.Second, anew: true, torn: true},
		"a weekend":                  {away: 63 * time.Hour, anew: true, torn: true},
		"a clock that was set back":  {away: time.Minute, clockSetAhead: 24 * time.Hour, anew: true},
		"a clock a little too early": {away: time.Minute, clockSetAhead: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, store.Config{})
				term := seed(t, s)
				time.Sleep(time.Hour)
				before := note(t, s)
				time.Sleep(3 * time.Minute)
				before.At = note(t, s).At
				if ahead := test.clockSetAhead; ahead > 0 {
					column := "at"
					if test.anew {
						column = "since = since + ?1, at"
					}
					if err := store.Exec(t.Context(), s, `UPDATE receiving SET `+column+` = at + ?1`, ahead.Microseconds()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(test.away)
				after := note(t, s)
				if !after.At.Equal(time.Now()) {
					t.Errorf("noted at %v, want %v", after.At, time.Now())
				}
				if anew := !after.Since.Equal(before.Since); anew != test.anew || after.Since.After(time.Now()) {
					t.Errorf("since %v, before it was %v", after.Since, before.Since)
				}
				told := tell(t, s, term)
				if torn := len(told) == 1 && told[0].From.Equal(before.At) && told[0].To.Equal(after.At); torn != test.torn {
					t.Errorf("told %v", told)
				}
				// Whatever the clock did, the next outage is found.
				time.Sleep(5 * time.Hour)
				next := note(t, s)
				if told := tell(t, s, term); len(told) != 1 || !told[0].From.Equal(after.At) || !told[0].To.Equal(next.At) {
					t.Errorf("told of the next one %v", told)
				}
			})
		})
	}
}

// One replica that could accept is enough, and of two that come back one notes
// the outage.
func TestOutageOfReplicas(t *testing.T) {
	where := database(t)
	a, b := replica(t, where, store.Config{Owner: "a"}), replica(t, where, store.Config{Owner: "b"})
	conn := connection(t, where)
	term := seed(t, a)
	note(t, a)
	execute(t, conn, `UPDATE subscription_id SET "from" = 1`)
	age := func(by time.Duration) { execute(t, conn, `UPDATE receiving SET at = at - $1`, by.Microseconds()) }
	age(3 * time.Hour)
	note(t, b)
	age(3 * time.Hour)
	note(t, a)
	if told := tell(t, a, term); len(told) != 0 {
		t.Errorf("told %v, while b was up", told)
	}
	age(5 * time.Hour)
	failed := make(chan error, 2)
	for _, s := range []*store.Store{a, b} {
		go func() { failed <- s.NoteReceiving(t.Context()) }()
	}
	for range 2 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	if n := number(t, conn, `SELECT count(*) FROM outage`); n != 1 {
		t.Errorf("%d outages, want 1", n)
	}
	if told := tell(t, b, term); len(told) != 1 || told[0].To.Sub(told[0].From) < 5*time.Hour {
		t.Errorf("told %v", told)
	}
}

// Two replicas that note at once take turns: the later sees what the earlier
// has noted.
func TestNotesOfReplicasTakeTurns(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{})
	seed(t, s)
	note(t, s)
	conn, other := connection(t, where), connection(t, where)
	execute(t, conn, `UPDATE receiving SET at = at - $1`, (5 * time.Hour).Microseconds())
	execute(t, conn, `BEGIN`)
	execute(t, conn, `UPDATE receiving SET at = at + $1`, (5 * time.Hour).Microseconds())
	noted := make(chan error, 1)
	go func() { noted <- s.NoteReceiving(t.Context()) }()
	eventually(t, "the note waits", func() bool { return waiting(t, other) == 1 })
	execute(t, conn, `COMMIT`)
	if err := <-noted; err != nil {
		t.Fatal(err)
	}
	if n := number(t, conn, `SELECT count(*) FROM outage`); n != 0 {
		t.Errorf("%d outages, want none: another replica had noted", n)
	}
}
