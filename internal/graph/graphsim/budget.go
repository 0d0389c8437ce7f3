package graphsim

import "time"

const budgetWindow = 20 * time.Second

// spend takes one request from the budgets of its operation, or refuses it
// until the window has room. Refused requests are spent too.
func (s *Sim) spend(operation string, who caller) error {
	class, perApp, perAppTenant := s.cfg.Budgets.of(operation)
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := max(
		s.take(class+" "+who.app, perApp),
		s.take(class+" "+who.app+" "+who.tenant, perAppTenant),
	)
	if wait == 0 {
		return nil
	}
	if s.cfg.OmitRetryAfter {
		wait = 0
	} else if s.cfg.TimeScale == 1 {
		wait = (wait + time.Second - 1).Truncate(time.Second)
	}
	return throttled(wait)
}

func (b Budgets) of(operation string) (class string, perApp, perAppTenant int) {
	switch operation {
	case "create", "renew", "delete":
		return "write", b.WritesPerApp, b.WritesPerAppTenant
	case "reauthorize":
		return "reauthorize", b.ReauthorizesPerApp, b.ReauthorizesPerAppTenant
	case "list":
		return "list", b.ListsPerApp, b.ListsPerAppTenant
	default:
		return "read", b.ReadsPerApp, b.ReadsPerAppTenant
	}
}

// take notes one request under a key and gives how long until the key has room
// again, 0 where the limit holds. The caller holds the lock.
func (s *Sim) take(key string, limit int) time.Duration {
	if limit <= 0 {
		return 0
	}
	now, window := time.Now(), s.scaled(budgetWindow)
	spent := s.budgets[key]
	for len(spent) > 0 && now.Sub(spent[0]) >= window {
		spent = spent[1:]
	}
	spent = append(spent, now)
	s.budgets[key] = spent
	if len(spent) <= limit {
		return 0
	}
	// Room comes when the request that is limit places back leaves the window.
	return spent[len(spent)-limit].Add(window).Sub(now)
}
