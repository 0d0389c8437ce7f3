package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// script is what happens on the demo's stage until ctx ends.
func (d *demoStage) script(ctx context.Context) {
	d.log.InfoContext(ctx, "demo: half an hour of Graph passes in a second; every subscription asks for 6h, so it lives 12 s")
	traffic := time.NewTicker(250 * time.Millisecond)
	defer traffic.Stop()
	scenes := []scene{
		{5 * time.Second, d.throttle},
		{9 * time.Second, d.remove},
	}
	began := time.Now()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			d.log.Info("demo: time is up, letting arrive what was sent")
			return
		case <-traffic.C:
		}
		d.send(turn)
		for len(scenes) > 0 && time.Since(began) >= scenes[0].at {
			scenes[0].play(ctx)
			scenes = scenes[1:]
		}
	}
}

type scene struct {
	at   time.Duration
	play func(ctx context.Context)
}

// send lets one change happen, in each resource in turn.
func (d *demoStage) send(turn int) {
	live := d.live()
	if len(live) == 0 {
		return // nobody is subscribed at this moment
	}
	// One that expired since would be unknown; the next turn sends again.
	_, _ = d.sim.Notify(graphsim.Notification{SubscriptionID: live[turn%len(live)].ID, Count: 1})
}

func (d *demoStage) live() []graphsim.Subscription {
	return d.sim.State().Subscriptions
}

// throttle answers the next renewal with 429.
func (d *demoStage) throttle(ctx context.Context) {
	err := d.sim.AddFault(graphsim.Fault{
		Match: "PATCH /v1.0/subscriptions/*", Status: http.StatusTooManyRequests, Times: 1,
		Header: http.Header{"Retry-After": {"1"}},
		Body:   `{"error":{"code":"TooManyRequests","message":"Please retry again later.","innerError":{}}}`,
	})
	if err != nil {
		d.log.ErrorContext(ctx, "demo: throttling failed", "error", err.Error())
		return
	}
	d.log.InfoContext(ctx, "demo: Graph will answer the next renewal with 429; graphsubd waits as long as it is told and tries again")
}

// remove takes one subscription away upstream, behind graphsubd's back.
func (d *demoStage) remove(ctx context.Context) {
	for _, sub := range d.live() {
		if sub.Resource != demoRemoved {
			continue
		}
		if err := d.sim.Remove(sub.ID, false); err != nil {
			d.log.ErrorContext(ctx, "demo: removal failed", "error", err.Error())
			return
		}
		d.log.InfoContext(ctx, "demo: Graph drops a subscription and tells nobody; the next renewal will meet a 404",
			"resource", sub.Resource, "subscription_id", sub.ID)
		return
	}
}

// settle waits until everything that was sent has reached the sink, or gives
// up after a while: what is missing then is counted as lost.
func (d *demoStage) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		counts := d.sim.Counts()
		if counts.Queued == 0 && d.sink.unique() >= counts.Acknowledged {
			return
		}
		select {
		case <-ctx.Done():
			d.log.WarnContext(ctx, "demo: not everything arrived in time",
				"missing", fmt.Sprint(counts.Acknowledged-d.sink.unique()))
			return
		case <-look.C:
		}
	}
}
