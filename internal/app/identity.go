package app

import (
	"strings"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// identity gives the renewal what proves a subscription to be ours.
type identity struct {
	keys *notification.Keys
	base string // publicURL
	// appIDs gives the client ids by the tenants' names, as they are now.
	appIDs func() map[string]string
}

// NotificationURL is where Graph sends what changed.
func (i identity) NotificationURL(name, gen string) string {
	return i.base + i.keys.Path(notification.PurposeNotifications, name, gen)
}

// LifecycleURL is where Graph sends what it has to say of the subscription.
func (i identity) LifecycleURL(name, gen string) string {
	return i.base + i.keys.Path(notification.PurposeLifecycle, name, gen)
}

// ClientState is the secret that Graph returns with every item.
func (i identity) ClientState(name, gen string) string { return i.keys.ClientState(name, gen) }

// Ours says whose a listed subscription is.
func (i identity) Ours(tenant string, sub graph.Subscription) (graph.Key, bool) {
	if !strings.EqualFold(sub.ApplicationID, i.appIDs()[tenant]) {
		return graph.Key{}, false
	}
	name, gen, ok := i.keys.ParseURL(i.base, sub.NotificationURL)
	return graph.Key{Name: name, Gen: gen}, ok
}
