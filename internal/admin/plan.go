package admin

import "time"

// Plan is what the leader is about to do.
type Plan struct {
	At     time.Time        `json:"at" doc:"When the plan was made."`
	Hold   *Hold            `json:"hold,omitempty" doc:"What waits for a person. Left out when nothing does."`
	Counts map[string]int64 `json:"counts" doc:"Number of steps by action. Each action is there, also at 0."`
	Items  []PlanStep       `json:"items" nullable:"false" doc:"Steps: what is held first, then in the order of their time."`
	More   int64            `json:"more" doc:"How many further steps there are, beyond the limit."`
}

// Hold is a set of changes that wait for a person.
type Hold struct {
	ID    string `json:"id" doc:"Names this set of changes; it is what an approval has to send."`
	Count int64  `json:"count" doc:"How many changes are held."`
	// A set may be larger than what a plan shows of it.
	Groups []HoldGroup `json:"groups" doc:"What they are, all of them, by tenant and action."`
}

// HoldGroup is a part of what is held.
type HoldGroup struct {
	Tenant string `json:"tenant" doc:"Name of the tenant in the configuration."`
	Action string `json:"action" doc:"What would be done."`
	Count  int64  `json:"count" doc:"How many times."`
}

// PlanStep is what comes next for one subscription.
type PlanStep struct {
	Name     string    `json:"name"`
	Gen      string    `json:"gen" doc:"The gen that it is about."`
	Tenant   string    `json:"tenant" doc:"Name of the tenant in the configuration."`
	Resource string    `json:"resource" doc:"What is watched."`
	Action   string    `json:"action" enum:"create,recreate,replace,renew,delete,check"`
	At       time.Time `json:"at" doc:"When it is due, not counting budgets."`
	Held     bool      `json:"held" doc:"Whether it waits for a person."`
}

// PlanActions lists the actions of a plan.
func PlanActions() []string {
	return []string{"create", "recreate", "replace", "renew", "delete", "check"}
}

// Approval is how the release of what is held went.
type Approval struct {
	State  string `json:"state" enum:"done,pending" doc:"pending: the leader has not answered yet, and carries it out when it does."`
	Result string `json:"result" doc:"What was done, for a person."`
}
