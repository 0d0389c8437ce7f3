// Command cmd is make crash: it kills graphsubd 100 times on SQLite and 100
// times on PostgreSQL, and ends with a line that says what was lost.
package main

import (
	"fmt"
	"os"

	"github.com/graphsubd/graphsubd/test/crash"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// kills is how many there are on each kind of store.
const kills = 100

func main() { os.Exit(harness.Main(run)) }

func run(t harness.T) {
	server, err := postgres.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	one, two := crash.SQLite(t, kills), crash.Postgres(t, server, kills)
	fmt.Printf("crash_lost %d crash_kills %d crash_duplicates %d\n", one.Lost+two.Lost, one.Kills+two.Kills, one.Duplicates+two.Duplicates)
	if lost := one.Lost + two.Lost; lost > 0 {
		t.Fatalf("%d of %d acknowledged notifications are lost", lost, one.Acknowledged+two.Acknowledged)
	}
}
