package renewal

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

const (
	// outageBatch is how many gaps are stored in one transaction.
	outageBatch = 500
	// outageAgain is when to try again what the store did not take.
	outageAgain = 10 * time.Second
)

// tellOutages has the store make gaps of the stretches for which nobody could
// accept notifications and Graph had stopped to try: what changed then was
// lost, and nobody else would tell.
func (t *term) tellOutages(ctx context.Context) {
	if t.outageBusy || !t.loaded {
		t.outageAt = time.Now().Add(outageAgain)
		return
	}
	t.outageBusy, t.outageAt = true, time.Time{}
	t.job(ctx, func() func(time.Time) error {
		told, err := t.m.cfg.Store.TellOutages(ctx, t.id, outageBatch)
		return func(now time.Time) error {
			t.outageBusy = false
			if err != nil {
				t.outageAt = now.Add(outageAgain)
				t.log.WarnContext(ctx, "outage not recorded, trying again", "error", err.Error())
				return fatal(err)
			}
			if len(told) == outageBatch {
				t.outageAt = now
			}
			t.reportOutages(ctx, told)
			return nil
		}
	})
}

// reportOutages says once for each outage how many subscriptions it concerns.
func (t *term) reportOutages(ctx context.Context, told []graph.Gap) {
	torn := map[time.Time][]graph.Gap{} // by the end, which is the same for all
	for _, gap := range told {
		torn[gap.To] = append(torn[gap.To], gap)
	}
	for end, gaps := range torn {
		begin := gaps[0].From
		for _, gap := range gaps {
			begin = earlier(begin, gap.From)
		}
		t.log.WarnContext(ctx, "changes were lost while no notification could be accepted", "cause", string(graph.GapOutage),
			"lost_since", begin, "lost_until", end, "count", len(gaps),
			"remedy", "read again what changed in that time; `gaps` and the gap events name the subscriptions")
	}
}
