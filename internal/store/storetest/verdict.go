package storetest

import (
	"sync"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// verdicts counts what the router tells.
type verdicts struct {
	mu     sync.Mutex
	counts map[string]int
}

func (v *verdicts) add(verdict string, reason notification.Reason, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.counts == nil {
		v.counts = map[string]int{}
	}
	v.counts[verdict+"/"+string(reason)] += n
}

func (v *verdicts) of(verdict string, reason notification.Reason) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.counts[verdict+"/"+string(reason)]
}
