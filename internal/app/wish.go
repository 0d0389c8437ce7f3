package app

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/config"
	"github.com/graphsubd/graphsubd/internal/graph"
)

// wishes reads the desired subscriptions out of a configuration, whose
// references have been checked.
func wishes(cfg *config.Config, signingKeyID string) []graph.Wish {
	tenantIDs := map[string]string{}
	for _, tenant := range cfg.Tenants {
		tenantIDs[tenant.Name] = tenant.TenantID
	}
	list := make([]graph.Wish, 0, len(cfg.Subscriptions))
	for i := range cfg.Subscriptions {
		s := &cfg.Subscriptions[i]
		wish := graph.Wish{
			Name: s.Name, Source: graph.SourceFile, Tenant: s.Tenant, TenantID: tenantIDs[s.Tenant],
			Resource: s.Resource, Lifetime: time.Duration(s.Lifetime), ImmutableIDs: s.ImmutableIDs,
			Rotation: s.Rotation, Paused: s.Paused, SilentAfter: s.SilentAfter, Sinks: s.Sinks,
		}
		for _, word := range s.ChangeTypes {
			wish.ChangeTypes = append(wish.ChangeTypes, graph.ChangeType(word))
		}
		wish.Gen = graph.GenOf(wish, cfg.PublicURL, signingKeyID)
		list = append(list, wish)
	}
	return list
}
