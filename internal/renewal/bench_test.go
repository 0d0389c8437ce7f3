package renewal_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// planned makes n wishes with resources of 120 bytes, and a record of each
// that is due somewhere in the next days.
func planned(n int) ([]graph.Wish, []graph.Record) {
	now := time.Now()
	wishes, records := make([]graph.Wish, n), make([]graph.Record, n)
	for i := range n {
		name := fmt.Sprintf("mailbox-%06d", i)
		resource := fmt.Sprintf("users/%08d-0683-4862-9de4-f2ec83c2bd98/mailFolders('inbox')/messages?$select=subject,from,receivedDateTime&x=", i)
		resource += strings.Repeat("y", 120-len(resource))
		wishes[i] = graph.Wish{
			Name: name, Gen: "abcdefghij", Tenant: "contoso", Resource: resource,
			ChangeTypes: []graph.ChangeType{graph.Created}, Sinks: []string{"x"},
		}
		records[i] = graph.Record{
			Name: name, Gen: "abcdefghij", Tenant: "contoso", Resource: resource,
			ID: fmt.Sprintf("%08d-1111-4111-8111-111111111111", i), State: graph.StateActive,
			CreatedAt: now, GrantedAt: now, RenewAt: now.Add(time.Duration(i) * time.Second), ExpiresAt: now.Add(week),
		}
	}
	return wishes, records
}

// BenchmarkPlan decides about 100,000 records at once, and weighs them with
// all that the loop keeps of them.
func BenchmarkPlan(b *testing.B) {
	const n = 100_000
	wishes, records := planned(n)
	now := time.Now().Add(12 * time.Hour)
	situations := make([]renewal.Situation, n)
	for i := range records {
		situations[i] = renewal.Situation{Wish: &wishes[i], Record: records[i], MayCreate: true, MayDelete: true}
	}
	due := 0
	b.ResetTimer()
	for range b.N {
		due = 0
		for _, action := range renewal.Decide(now, situations) {
			if action.Verb == renewal.Renew {
				due++
			}
		}
	}
	b.StopTimer()
	if want := 12*3600 + 1; due != want {
		b.Fatalf("%d due, want %d", due, want)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "plan_100k_ms")
	b.ReportMetric(weigh(b, n), "plan_bytes_per_record")
}

// weigh gives the heap that a manager keeps for each of n subscriptions.
func weigh(b *testing.B, n int) float64 {
	b.Helper()
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	before := heap()
	held := renewal.Hold(planned(n))
	after := heap()
	runtime.KeepAlive(held)
	return (after - before) / float64(n)
}
