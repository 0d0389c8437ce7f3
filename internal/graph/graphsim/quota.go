package graphsim

import "strings"

// pool is one quota: subscriptions with the same key share its limit. An empty
// key means that the pool does not count the subscription.
type pool struct {
	limit func(Quotas) int
	key   func(*subscription) string
}

func mailbox() pool {
	return pool{
		func(q Quotas) int { return q.Mailbox },
		func(s *subscription) string { return "mailbox " + s.tenant + " " + s.user() },
	}
}

func directoryPools() []pool {
	return []pool{
		{
			func(q Quotas) int { return q.DirectoryApp },
			func(s *subscription) string { return "directory " + string(s.rule.kind) + " app " + s.app },
		},
		{
			func(q Quotas) int { return q.DirectoryTenant },
			func(s *subscription) string { return "directory " + string(s.rule.kind) + " tenant " + s.tenant },
		},
		{
			func(q Quotas) int { return q.DirectoryAppTenant },
			func(s *subscription) string {
				return "directory " + string(s.rule.kind) + " app " + s.app + " tenant " + s.tenant
			},
		},
	}
}

func organization() pool {
	return pool{
		func(q Quotas) int { return q.Organization },
		func(s *subscription) string { return "organization " + s.tenant },
	}
}

func callRecords() pool {
	return pool{
		func(q Quotas) int { return q.CallRecords },
		func(s *subscription) string { return "callrecords " + s.tenant },
	}
}

func approvals() pool {
	return pool{
		func(q Quotas) int { return q.Approvals },
		func(s *subscription) string { return "approvals " + s.tenant },
	}
}

func perUser() pool {
	return pool{
		func(q Quotas) int { return q.PerUser },
		func(s *subscription) string {
			if s.user() == "" {
				return ""
			}
			return "user " + s.tenant + " " + s.path
		},
	}
}

func perResource() pool {
	return pool{
		func(q Quotas) int { return q.PerResource },
		func(s *subscription) string { return "resource " + s.tenant + " " + s.app + " " + s.path },
	}
}

// user is the user segment of the resource, or "".
func (s *subscription) user() string {
	path := strings.TrimPrefix(s.path, "copilot/")
	if rest, ok := strings.CutPrefix(path, "users/"); ok {
		user, _, _ := strings.Cut(rest, "/")
		return user
	}
	return ""
}

// full says whether a quota leaves no room for one more subscription like it.
// The caller holds the lock.
func (s *Sim) full(sub *subscription) bool {
	for _, p := range sub.rule.pools {
		key, limit := p.key(sub), p.limit(s.cfg.Quotas)
		if key != "" && limit > 0 && s.pools[key] >= limit {
			return true
		}
	}
	return false
}

// count adds n to the pools of a subscription. The caller holds the lock.
func (s *Sim) count(sub *subscription, n int) {
	for _, p := range sub.rule.pools {
		key := p.key(sub)
		if key == "" {
			continue
		}
		if s.pools[key] += n; s.pools[key] == 0 {
			delete(s.pools, key)
		}
	}
}
