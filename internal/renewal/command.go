package renewal

import (
	"context"
	"fmt"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// result is what came of a command.
type result struct {
	state graph.CommandState
	text  string
}

// obey carries out commands and tells the store how that went. One whose result
// is not stored is read again, and gets the same one.
func (t *term) obey(ctx context.Context, now time.Time, commands []graph.Command) {
	for _, c := range commands {
		r, known := t.results[c.ID]
		if !known {
			r.state, r.text = t.carryOut(now, c)
			t.results[c.ID] = r
			t.log.InfoContext(ctx, "command carried out", "command", c.Action, "caller", c.By, "result", r.text)
		}
		t.job(ctx, func() func(time.Time) error {
			err := t.m.cfg.Store.SettleCommand(ctx, t.id, c.ID, r.state, r.text)
			return func(now time.Time) error {
				if err != nil {
					t.lifecycleAt = now.Add(lifecycleAgain)
				}
				return fatal(err)
			}
		})
	}
}

func (t *term) carryOut(now time.Time, c graph.Command) (graph.CommandState, string) {
	if c.Action != graph.CommandApprove {
		return graph.CommandConflict, fmt.Sprintf("this version knows no command %q", c.Action)
	}
	released, ok := t.approve(now, c.Argument)
	if !ok {
		return graph.CommandConflict, "what is held is not what was seen: look at it again"
	}
	return graph.CommandDone, fmt.Sprintf("%d changes released", released)
}
