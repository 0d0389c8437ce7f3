package storetest

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func retentionCases() map[string]func(*world) {
	return map[string]func(*world){
		"RetentionRemovesWhatIsDone": retentionRemovesWhatIsDone,
		"RetentionKeepsWhatIsYoung":  retentionKeepsWhatIsYoung,
		"RetentionOfBytes":           retentionOfBytes,
	}
}

// mixed leaves one row of each end: delivered to both sinks, dead at one,
// pending at one, a duplicate, and two in the quarantine.
func mixed(w *world) {
	w.t.Helper()
	bad := change(9)
	bad.Reason = notification.ReasonMalformed
	unknown := change(8)
	unknown.Address.Name = "nobody"
	w.append(change(1), change(2), change(3), change(1), bad, unknown)
	w.route()
	a, b := w.claim(sinkA), w.claim(sinkB)
	w.settle(
		notification.Outcome{DeliveryID: a[0].ID}, notification.Outcome{DeliveryID: b[0].ID},
		notification.Outcome{DeliveryID: a[1].ID}, notification.Outcome{DeliveryID: b[1].ID, Dead: true},
		notification.Outcome{DeliveryID: a[2].ID}, notification.Outcome{DeliveryID: b[2].ID, Next: time.Now()},
	)
}

func retentionRemovesWhatIsDone(w *world) {
	t := w.t
	w.begin(store.Config{
		RetainDelivered: time.Millisecond, RetainDeadLetters: time.Hour, PollInterval: time.Millisecond,
	})
	mixed(w)
	w.run()
	eventually(t, "the delivered one and the duplicate are gone", func() bool {
		stats := w.stats()
		return stats.Routed == 2 && stats.Duplicate == 0
	})
	stats := w.stats()
	equal(t, "dead letters", stats.Dead[sinkB], 1)
	equal(t, "quarantine", stats.Quarantine[notification.ReasonMalformed], 1)
	sameItems(t, w.claim(sinkB), change(3))
}

func retentionKeepsWhatIsYoung(w *world) {
	t := w.t
	w.begin(store.Config{
		RetainDelivered: time.Hour, RetainDeadLetters: time.Millisecond, PollInterval: time.Millisecond,
	})
	mixed(w)
	w.run()
	eventually(t, "dead letters and quarantine are gone", func() bool {
		stats := w.stats()
		return stats.Dead[sinkB] == 0 && stats.Quarantine[notification.ReasonMalformed] == 0 &&
			stats.Quarantine[notification.ReasonUnknownSubscription] == 0
	})
	stats := w.stats()
	equal(t, "routed", stats.Routed, 3)
	equal(t, "duplicates", stats.Duplicate, 1)
	w.append(change(1))
	eventually(t, "the repeat is still known", func() bool { return w.stats().Duplicate == 2 })
}

func retentionOfBytes(w *world) {
	t := w.t
	w.begin(store.Config{MaxBytes: 1, RetainDelivered: time.Hour, PollInterval: time.Millisecond})
	mixed(w)
	w.run()
	eventually(t, "the bound removes what is done", func() bool {
		stats := w.stats()
		return stats.Routed == 2 && stats.Duplicate == 0
	})
	sameItems(t, w.claim(sinkB), change(3))
}
