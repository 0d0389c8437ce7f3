package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// slowly answers posts, each after the same time.
func (r *rig) slowly(t *testing.T, posts int, took time.Duration) {
	t.Helper()
	r.inbox.append = func(context.Context, []notification.Row) error {
		time.Sleep(took)
		return nil
	}
	for range posts {
		r.accept(t, r.path(), collection(r.item(t, nil)))
	}
}

// said counts log lines with a text.
func (r *rig) said(text string) int { return strings.Count(r.log.String(), text) }

// A person is told at half of Graph's mark, and again at the mark; ten minutes
// later all is well.
func TestSlowAnswers(t *testing.T) {
	const (
		near = "answers come close to what graph calls slow"
		slow = "answers are so slow that graph delays notifications"
		drop = "answers are so slow that graph drops notifications"
		good = "answers are fast again"
	)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *httpapi.Config) {
			c.AppendTimeout = time.Minute
			c.Marks = httpapi.DefaultMarks()
		})
		expect := func(ratio float64, nears, slows, drops, goods int) {
			t.Helper()
			if got := r.metric(t, "graphsubd_endpoint_slow_ratio"); got < ratio-0.001 || got > ratio+0.001 {
				t.Errorf("ratio %v, want %v", got, ratio)
			}
			if n, s, d, g := r.said(near), r.said(slow), r.said(drop), r.said(good); n != nears || s != slows || d != drops || g != goods {
				t.Errorf("said near %d, slow %d, drop %d, good %d; want %d, %d, %d, %d", n, s, d, g, nears, slows, drops, goods)
			}
		}
		expect(0, 0, 0, 0, 0)
		r.slowly(t, 95, time.Second)
		r.slowly(t, 5, 3*time.Second+time.Millisecond)
		expect(0.05, 0, 0, 0, 0) // half of the mark is not above it
		r.slowly(t, 1, 4*time.Second)
		expect(6.0/101, 1, 0, 0, 0)
		r.slowly(t, 5, 4*time.Second)
		expect(11.0/106, 1, 1, 0, 0)
		r.slowly(t, 18, 11*time.Second)
		expect(29.0/124, 1, 1, 0, 0)
		r.slowly(t, 2, 11*time.Second)
		expect(31.0/126, 1, 1, 1, 0)
		time.Sleep(10 * time.Minute)
		expect(0, 1, 1, 1, 0)
		r.slowly(t, 1, 0)
		expect(0, 1, 1, 1, 1)
	})
}

// A few slow answers are no sign, whatever their share.
func TestFewSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *httpapi.Config) { c.AppendTimeout = time.Minute })
		r.slowly(t, 99, 4*time.Second)
		if r.said("answers") != 0 {
			t.Errorf("a person is told of too few answers:\n%s", r.log.String())
		}
	})
}

// The marks are settings: Graph has moved them before.
func TestOtherMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *httpapi.Config) {
			c.AppendTimeout = time.Minute
			c.Marks = httpapi.Marks{SlowAfter: time.Second, SlowRatio: 0.5, DropAfter: time.Minute, DropRatio: 0.9}
		})
		r.slowly(t, 70, 0)
		r.slowly(t, 30, 2*time.Second)
		if got := r.metric(t, "graphsubd_endpoint_slow_ratio"); got != 0.3 || r.said("come close") != 1 {
			t.Errorf("ratio %v, log:\n%s", got, r.log.String())
		}
	})
}
