package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// benchRow is an ordinary change of about the size that Graph sends.
func benchRow(n int64) notification.Row {
	item := notification.Item{
		ID: fmt.Sprintf("id-%d", n), ChangeType: "created", Resource: fmt.Sprintf("Users/u1/Messages/AAMkAD%d", n), ETag: `W/"1"`,
	}
	return notification.Row{
		Address:        notification.Address{Name: "orders-inbox", Gen: "abcdefghij"},
		SubscriptionID: "11111111-1111-4111-8111-111111111111",
		TenantID:       "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
		ReceivedAt:     time.Now(),
		Kind:           notification.KindChange, Origin: notification.OriginGraph,
		Evidence: notification.EvidenceOf("orders-inbox", &item),
		Item: fmt.Appendf(nil, `{"id":"id-%d","subscriptionId":"11111111-1111-4111-8111-111111111111",`+
			`"subscriptionExpirationDateTime":"2030-01-02T03:04:05.6789012Z","tenantId":"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",`+
			`"changeType":"created","resource":"Users/u1/Messages/AAMkAD%d","resourceData":{"@odata.type":"#Microsoft.Graph.Message",`+
			`"@odata.id":"Users/u1/Messages/AAMkAD%d","@odata.etag":"W/\"1\"","id":"AAMkAD%d"}}`, n, n, n, n),
	}
}

// BenchmarkAppend measures rows that are durable, from callers that store one
// row each and wait for it.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := open(b, store.Config{})
			var next atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if err := s.Append(b.Context(), []notification.Row{benchRow(n)}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkRoute measures rows routed to two sinks.
func BenchmarkRoute(b *testing.B) {
	s := open(b, store.Config{})
	seed(b, s)
	for n := 0; n < b.N; n += 1000 {
		rows := make([]notification.Row, min(1000, b.N-n))
		for i := range rows {
			rows[i] = benchRow(int64(n + i))
		}
		if err := s.Append(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for routed := 0; routed < b.N; {
		n, err := s.Route(b.Context(), 500)
		if err != nil || n == 0 {
			b.Fatal(n, err)
		}
		routed += n
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
