package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

const (
	// A partition spans a part of the retention, so that what is kept too long
	// is no more than that part of it.
	spansKept        = 8
	minSpan, maxSpan = time.Hour, 24 * time.Hour
	// spansAhead is how far ahead partitions are made: rows come whether or not
	// this process is there to make more.
	spansAhead = 3
	// boundDigits are the digits of an id that say when.
	boundDigits = 10
	// partitionPrefix begins the name of each; both bounds follow.
	partitionPrefix = "notification_"
)

// partition is a span of notifications, from an id up to another. Its name says
// both.
type partition struct{ from, to string }

func (p partition) name() string {
	return partitionPrefix + strings.ToLower(p.from) + "_" + strings.ToLower(p.to)
}

// partitionOf reads a name; ok is false for the default partition, and for what
// a person made.
func partitionOf(name string) (p partition, ok bool) {
	bounds, ours := strings.CutPrefix(name, partitionPrefix)
	from, to, two := strings.Cut(bounds, "_")
	p = partition{strings.ToUpper(from), strings.ToUpper(to)}
	return p, ours && two && len(from) == boundDigits && len(to) == boundDigits
}

// bound is where ids of an instant begin.
func bound(t time.Time) string { return firstID(t)[:boundDigits] }

// boundTime is the inverse of bound.
func boundTime(bound string) (time.Time, error) {
	id, err := ulid.ParseStrict(bound + strings.Repeat("0", ulid.EncodedSize-boundDigits))
	if err != nil {
		return time.Time{}, fmt.Errorf("partition bound %q: %w", bound, err)
	}
	return ulid.Time(id.Time()), nil
}

// span is how long a partition is for a retention.
func span(retain time.Duration) time.Duration { return min(max(retain/spansKept, minSpan), maxSpan) }

// missing gives the partitions to make, each after the one before, so that the
// spans of processes with different settings do not overlap.
func missing(existing []partition, now time.Time, length time.Duration) ([]partition, error) {
	end := now.Truncate(length)
	if len(existing) > 0 {
		newest, err := boundTime(existing[len(existing)-1].to)
		if err != nil {
			return nil, err
		}
		if newest.After(end) {
			end = newest
		}
	}
	var list []partition
	for until := now.Add(spansAhead * length); end.Before(until); end = end.Add(length) {
		list = append(list, partition{bound(end), bound(end.Add(length))})
	}
	return list, nil
}

// partitions gives those there are, the oldest first.
func partitions(ctx context.Context, q querier) ([]partition, error) {
	var list []partition
	err := q.query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'notification'::regclass`, func(row cursor) error {
		var name string
		err := row.Scan(&name)
		if p, ok := partitionOf(name); ok {
			list = append(list, p)
		}
		return err
	})
	slices.SortFunc(list, func(a, b partition) int { return strings.Compare(a.from, b.from) })
	return list, err
}

// addPartitions makes those that will be needed soon. Until one is there its
// rows go to the default partition, and then it cannot be made: that span is
// left out.
func (e *postgres) addPartitions(ctx context.Context) error {
	needed := func(q querier, now time.Time) ([]partition, error) {
		existing, err := partitions(ctx, q)
		if err != nil {
			return nil, err
		}
		return missing(existing, now, span(e.store.cfg.RetainDelivered))
	}
	if list, err := needed(e, e.now()); err != nil || len(list) == 0 {
		return err
	}
	_, err := write(ctx, e, laneRetention, "add partitions", func(ctx context.Context, t *transaction) (int, error) {
		if _, err := lock(ctx, t, lockRetention, true); err != nil {
			return 0, err
		}
		// A new partition waits for all that read the default one, such as a dump.
		if err := beImpatient(ctx, t); err != nil {
			return 0, err
		}
		list, err := needed(t, t.now()) // another process may have made them
		for i := 0; i < len(list) && err == nil; i++ {
			err = addPartition(ctx, t, list[i])
		}
		return len(list), err
	})
	return unlessLocked(err) // partitions are made long before they are needed
}

func addPartition(ctx context.Context, t *transaction, p partition) error {
	var taken bool
	if _, err := t.row(ctx, `SELECT EXISTS (SELECT 1 FROM notification_default WHERE id >= ? AND id < ?)`,
		[]any{p.from, p.to}, &taken); err != nil || taken {
		return err
	}
	// The names and bounds are digits of our own making.
	_, err := t.exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF notification FOR VALUES FROM ('%s') TO ('%s')`,
		p.name(), p.from, p.to))
	return err
}
