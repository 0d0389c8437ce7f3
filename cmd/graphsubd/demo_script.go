package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// script is what happens on the demo's stage until ctx ends.
func (d *demoStage) script(ctx context.Context) {
	d.scene(ctx, "time", "half an hour of Graph passes in a second; a subscription asks for 6 hours and so lives for 12 s")
	traffic := time.NewTicker(250 * time.Millisecond)
	defer traffic.Stop()
	scenes := []scene{
		{5 * time.Second, d.throttle},
		{9 * time.Second, d.remove},
	}
	told := 0
	began := time.Now()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			d.scene(ctx, "end", "time is up; what was sent may still arrive")
			return
		case <-traffic.C:
		}
		d.send(turn)
		if turn%20 == 19 {
			events := d.sink.events()
			d.scene(ctx, "delivered", fmt.Sprintf("%d events since the last such line, %d in all", events-told, events))
			told = events
		}
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

// scene tells what the demo itself does.
func (d *demoStage) scene(ctx context.Context, what, text string) {
	d.log.InfoContext(ctx, "demo", "scene", what, "text", text)
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
		Header: map[string]string{"Retry-After": "1"},
		Body:   json.RawMessage(`{"error":{"code":"TooManyRequests","message":"Please retry again later.","innerError":{}}}`),
	})
	if err != nil {
		d.log.ErrorContext(ctx, "throttling failed", "error", err.Error())
		return
	}
	d.scene(ctx, "throttling", "Graph will answer the next renewal with 429 and Retry-After: 1")
}

// remove takes one subscription away upstream, behind graphsubd's back.
func (d *demoStage) remove(ctx context.Context) {
	for _, sub := range d.live() {
		if sub.Resource != demoRemoved {
			continue
		}
		if err := d.sim.Remove(sub.ID, false); err != nil {
			d.log.ErrorContext(ctx, "removal failed", "error", err.Error())
			return
		}
		d.scene(ctx, "removal", "Graph drops the subscription to "+sub.Resource+" and tells nobody; the next renewal will find out")
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
			d.log.WarnContext(ctx, "not everything arrived in time",
				"error", fmt.Sprintf("%d events are missing", counts.Acknowledged-d.sink.unique()))
			return
		case <-look.C:
		}
	}
}
