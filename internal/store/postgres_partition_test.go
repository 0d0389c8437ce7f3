package store

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPartitionNames(t *testing.T) {
	from := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	p := partition{bound(from), bound(from.Add(time.Hour))}
	if got, ok := partitionOf(p.name()); !ok || got != p {
		t.Errorf("%s is %v, %v", p.name(), got, ok)
	}
	if at, err := boundTime(p.from); err != nil || !at.Equal(from) {
		t.Errorf("bound %s is at %v, %v", p.from, at, err)
	}
	for _, name := range []string{"notification_default", "notification", "other_" + p.from + "_" + p.to, "notification_a_b_c"} {
		if _, ok := partitionOf(name); ok {
			t.Errorf("%s is taken for a partition", name)
		}
	}
	ids := newIDSource()
	before, err := ids.next(from.Add(-time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	after, err := ids.next(from)
	if err != nil {
		t.Fatal(err)
	}
	if before >= p.from || after < p.from {
		t.Errorf("ids %s, %s around the bound %s", before, after, p.from)
	}
}

// The chain has no hole, whatever made its older links, and reaches far enough.
func TestMissingPartitions(t *testing.T) {
	now := time.Date(2026, 12, 1, 3, 30, 0, 0, time.UTC)
	hours := func(spans ...int) (list []partition) {
		at := now.Truncate(time.Hour).Add(-2 * time.Hour)
		for _, n := range spans {
			next := at.Add(time.Duration(n) * time.Hour)
			list = append(list, partition{bound(at), bound(next)})
			at = next
		}
		return list
	}
	for name, existing := range map[string][]partition{
		"none": nil, "one that has ended": hours(1), "the current one": hours(3), "of another span": hours(1, 2), "all": hours(3, 3),
	} {
		t.Run(name, func(t *testing.T) {
			added, err := missing(existing, now, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			chain := slices.Concat(existing, added)
			current := slices.IndexFunc(chain, func(p partition) bool { return p.from <= bound(now) && bound(now) < p.to })
			if current < 0 {
				t.Fatalf("no partition for now in %v", chain)
			}
			for i := current + 1; i < len(chain); i++ {
				if chain[i].from != chain[i-1].to {
					t.Errorf("a hole or an overlap in %v", chain)
				}
			}
			if last := chain[len(chain)-1]; last.to < bound(now.Add(spansAhead*time.Hour)) {
				t.Errorf("it ends too soon: %v", last)
			}
		})
	}
	if _, err := missing([]partition{{from: "x", to: strings.Repeat("u", boundDigits)}}, now, time.Hour); err == nil {
		t.Error("a name that is no time is taken for one")
	}
}
