package store_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/graphsubd/graphsubd/internal/store"
)

// pastRow stores a notification of a partition, with a delivery in a state.
func pastRow(t *testing.T, conn *pgx.Conn, begin string, n int, state, delivery string) {
	t.Helper()
	id := fmt.Sprintf("%s%016d", begin, n)
	execute(t, conn, `INSERT INTO notification VALUES ($1, $2, 'orders-inbox', 'abcdefghij', '', '', 1, 'change', 'graph', '', '', '', '{}')`, id, state)
	if delivery != "" {
		execute(t, conn, `INSERT INTO delivery (notification_id, sink, key, state, next_at, bytes, created_at, settled_at)
			VALUES ($1, 'orders', '', $2, 0, 2, 1, $3)`, id, delivery, time.Now().UnixMicro())
	}
}

// An old partition goes as a whole, and what is not done with outlives it.
func TestOldPartitionIsDropped(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{PollInterval: time.Millisecond, HoldFor: 200 * 365 * 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	conn := connection(t, where)
	old := time.Now().Add(-10 * 24 * time.Hour)
	name, begin, end := store.Partition(old, old.Add(24*time.Hour))
	execute(t, conn, fmt.Sprintf(`CREATE TABLE %s PARTITION OF notification FOR VALUES FROM ('%s') TO ('%s')`, name, begin, end))
	for n := range 300 {
		pastRow(t, conn, begin, n, "routed", "delivered")
	}
	pastRow(t, conn, begin, 301, "routed", "pending")
	pastRow(t, conn, begin, 302, "routed", "dead")
	pastRow(t, conn, begin, 303, "held", "")
	pastRow(t, conn, begin, 304, "duplicate", "")
	run(t, s)
	eventually(t, "the partition is gone", func() bool {
		return number(t, conn, `SELECT count(*) FROM pg_class WHERE relname = $1 AND relnamespace = current_schema()::regnamespace`, name) == 0
	})
	if n := number(t, conn, `SELECT count(*) FROM notification_default`); n != 3 {
		t.Errorf("%d rows outlive their partition, want 3", n)
	}
	if n := number(t, conn, `SELECT count(*) FROM delivery`); n != 2 {
		t.Errorf("%d deliveries are left, want 2", n)
	}
	claimed, err := s.Claim(t.Context(), "orders", 10, 0)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	execute(t, conn, `UPDATE delivery SET state = 'delivered'`)
	eventually(t, "what is done with goes too", func() bool {
		return number(t, conn, `SELECT count(*) FROM notification_default`) == 1
	})
}

// New rows have a partition of their span from the first moment on.
func TestPartitionsAreAhead(t *testing.T) {
	where := database(t)
	replica(t, where, store.Config{RetainDelivered: 72 * time.Hour})
	conn := connection(t, where)
	if n := number(t, conn, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'notification'::regclass`); n < 4 {
		t.Errorf("%d partitions", n)
	}
	// Another replica with another retention goes on behind them.
	other := replica(t, where, store.Config{RetainDelivered: 800 * time.Hour})
	seed(t, other)
	if err := other.Append(t.Context(), rowsOf(1)); err != nil {
		t.Fatal(err)
	}
	if n := number(t, conn, `SELECT count(*) FROM notification_default`); n != 0 {
		t.Error("a new row is in the default partition")
	}
}

// A dump reads every partition for hours. What changes partitions gives way to
// it, since all additions would wait behind.
func TestPartitionsGiveWayToAReader(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{})
	seed(t, s)
	conn := connection(t, where)
	newest := func() (name string) {
		if err := conn.QueryRow(t.Context(), `SELECT max(relname) FROM pg_class WHERE relname LIKE 'notification\_0%'
			AND relkind = 'r' AND relnamespace = current_schema()::regnamespace`).Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	gone := newest()
	execute(t, conn, `DROP TABLE `+gone)
	dump := connection(t, where)
	execute(t, dump, `BEGIN; LOCK TABLE notification_default IN ACCESS SHARE MODE`)
	ended := make(chan error, 1)
	go func() { ended <- store.Retain(t.Context(), s) }()
	for waits := true; waits; {
		began := time.Now()
		if err := s.Append(t.Context(), rowsOf(1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("an addition took %v", took)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			waits = false
		default:
		}
	}
	if newest() == gone {
		t.Fatal("the partition was made beside the reader, so this shows nothing")
	}
	execute(t, dump, `COMMIT`)
	if err := store.Retain(t.Context(), s); err != nil || newest() != gone {
		t.Errorf("the newest partition is %s, %v", newest(), err)
	}
}

// fillPartition makes an old partition with so many notifications, among which
// some are still to be delivered.
func fillPartition(t *testing.T, conn *pgx.Conn, total, pending int) (name string) {
	t.Helper()
	old := time.Now().Add(-10 * 24 * time.Hour)
	name, begin, end := store.Partition(old, old.Add(24*time.Hour))
	execute(t, conn, fmt.Sprintf(`CREATE TABLE %s PARTITION OF notification FOR VALUES FROM ('%s') TO ('%s')`, name, begin, end))
	execute(t, conn, fmt.Sprintf(`INSERT INTO notification SELECT '%s' || lpad(n::text, 16, '0'), 'routed', 'orders-inbox', 'abcdefghij',
		'', '', 1, 'change', 'graph', 'updated', '', '', '{}' FROM generate_series(1, %d) n`, begin, total))
	execute(t, conn, fmt.Sprintf(`INSERT INTO delivery (notification_id, sink, key, state, next_at, bytes, created_at, settled_at)
		SELECT '%s' || lpad(n::text, 16, '0'), 'orders', '', CASE WHEN (n::bigint * %d) %% %d < %d THEN 'pending' ELSE 'delivered' END, 1, 2, 1, 0
		FROM generate_series(1, %d) n`, begin, pending, total, pending, total))
	execute(t, conn, `ANALYZE`)
	return name
}

// A retention that is shorter than a partition has single rows looked at. What
// waits for a sink among them is not walked over all the time.
func TestShortRetentionIsPaced(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{RetainDelivered: 30 * time.Minute})
	fillPartition(t, connection(t, where), 100_000, 60_000)
	var took [2]time.Duration
	for i := range took {
		began := time.Now()
		if err := store.Retain(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	if took[1]*5 > took[0] {
		t.Errorf("the first pass took %v, and the next one %v", took[0], took[1])
	}
}

// A sink that was down for longer than the retention leaves many that outlive
// it. Looking for them is quick, so that nothing waits for it.
func TestRetentionOfALongBacklogIsQuick(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{})
	conn := connection(t, where)
	fillPartition(t, conn, 300_000, 200_000)
	began := time.Now()
	if err := store.Retain(t.Context(), s); err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	if n := number(t, conn, `SELECT count(*) FROM delivery`); n != 200_000 {
		t.Errorf("%d deliveries are left", n)
	}
	// It is looked at again later, not at once.
	began = time.Now()
	if err := store.Retain(t.Context(), s); err != nil || time.Since(began) > 2*time.Second {
		t.Errorf("the next pass took %v, %v", time.Since(began), err)
	}
}

// The bound of the store's size is for what graphsubd keeps, and for all of it.
func TestSizeIsThatOfOwnTables(t *testing.T) {
	where := database(t)
	conn := connection(t, where)
	execute(t, conn, `CREATE TABLE somebody_elses AS SELECT repeat('x', 1000) FROM generate_series(1, 10000)`)
	s := replica(t, where, store.Config{})
	fillPartition(t, conn, 1000, 0)
	const all = `SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname <> 'somebody_elses'`
	want := number(t, conn, all)
	store.MeasureSize(t, s)
	totals, err := s.Totals(t.Context())
	if err != nil || totals.Bytes != want {
		t.Errorf("%d bytes, want %d, %v", totals.Bytes, want, err)
	}
}

// Two replicas remove the same old partition.
func TestTwoReplicasDropAPartition(t *testing.T) {
	where := database(t)
	stores := []*store.Store{replica(t, where, store.Config{Owner: "a"}), replica(t, where, store.Config{Owner: "b"})}
	conn := connection(t, where)
	name := fillPartition(t, conn, 200_000, 0)
	ended := make(chan error, len(stores))
	for _, s := range stores {
		go func() { ended <- store.Retain(t.Context(), s) }()
	}
	for range stores {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := number(t, conn, `SELECT count(*) FROM pg_class WHERE relname = $1 AND relnamespace = current_schema()::regnamespace`, name); n != 0 {
		t.Error("the partition is still there")
	}
}

// What every loop of a replica asks each second reads no more than it has to.
func TestCountingReadsIndexes(t *testing.T) {
	where := database(t)
	replica(t, where, store.Config{})
	conn := connection(t, where)
	fillPartition(t, conn, 50_000, 0)
	rows, err := conn.Query(t.Context(), `EXPLAIN `+store.CountUnrouted)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range plan {
		if strings.Contains(line, "Seq Scan on notification_0") && strings.Contains(line, "rows=5") {
			t.Errorf("all rows are read:\n%s", strings.Join(plan, "\n"))
		}
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index") {
		t.Errorf("no index is used:\n%s", text)
	}
}
