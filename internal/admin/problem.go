package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// shownNames is how many names a problem lists.
const shownNames = 5

// Problems groups the failures of subscriptions by tenant and reason, in the
// order of the tenants and then of the documentation. What is paused has none:
// that is a person's wish.
func Problems(subscriptions []Subscription) []Problem {
	type group struct{ tenant, reason string }
	failing := map[group][]*Subscription{}
	for i := range subscriptions {
		s := &subscriptions[i]
		if s.LastError == nil || s.Wish != nil && s.Wish.Paused {
			continue
		}
		key := group{s.Tenant, s.LastError.Reason}
		failing[key] = append(failing[key], s)
	}
	var tenants []string
	for key := range failing {
		tenants = append(tenants, key.tenant)
	}
	slices.Sort(tenants)
	problems := []Problem{}
	for _, tenant := range slices.Compact(tenants) {
		for _, reason := range graph.Reasons() {
			if those := failing[group{tenant, string(reason)}]; len(those) > 0 {
				problems = append(problems, Problem{
					Subject: "tenant " + tenant, Reason: string(reason),
					Text: fmt.Sprintf("%s: %s", nameAll(those), those[0].LastError.Text), Remedy: advise(reason).remedy,
				})
			}
		}
	}
	return problems
}

// nameAll counts subscriptions and gives as many names as a line holds.
func nameAll(those []*Subscription) string {
	names := make([]string, 0, shownNames+1)
	for _, s := range those[:min(len(those), shownNames)] {
		names = append(names, s.Name)
	}
	if more := len(those) - shownNames; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	noun := "subscriptions"
	if len(those) == 1 {
		noun = "subscription"
	}
	return fmt.Sprintf("%d %s (%s)", len(those), noun, strings.Join(names, ", "))
}

// advice is what to tell a person of a reason.
type advice struct{ text, remedy string }

// advise has words for each reason of the closed set.
func advise(reason graph.Reason) advice {
	switch reason {
	case graph.ReasonTransient:
		return advice{"Graph did not answer or answered with a passing fault", "wait, it is tried again by itself; if it lasts, check the network and Microsoft's service health"}
	case graph.ReasonThrottled:
		return advice{"Graph asks for fewer calls", "wait, it is tried again by itself; if it lasts, lower quotaShare of the app or find out who else uses its registration"}
	case graph.ReasonUnauthorized:
		return advice{"Graph or its token service does not accept the app", "check the credential of the app that the tenant names, and that the app is known in that tenant"}
	case graph.ReasonForbidden:
		return advice{"the app may not read the resource", "grant the app the application permission that the resource needs, with admin consent in the tenant"}
	case graph.ReasonQuota:
		return advice{"Graph has no room for another subscription", "delete subscriptions that nobody needs, also those of other instances: Graph counts them by app, tenant and resource"}
	case graph.ReasonGone:
		return advice{"Graph no longer knows the subscription", "nothing, it is being made anew; read the resource again for the time of the gap"}
	case graph.ReasonConflict:
		return advice{"Graph says that there is such a subscription already", "wait, one of our own is found and taken over; if it lasts, delete the one that another instance of the same app has made"}
	case graph.ReasonInvalid:
		return advice{"Graph refuses what it was asked for", "correct resource, changeTypes or lifetime of the subscription"}
	case graph.ReasonHandshakeFailed:
		return advice{"Graph's handshake got no right answer", "make publicURL answer from the internet within 10 seconds: check its name, certificate, firewall and what is in front of the public listener"}
	case graph.ReasonExpiryLimited:
		return advice{"Graph grants a shorter life than was asked for", "nothing, the next try asks for less"}
	case graph.ReasonLeaseLost, graph.ReasonTermLost, graph.ReasonStoreUnavailable,
		graph.ReasonMassChangeHeld, graph.ReasonSilent, graph.ReasonUnknown:
	}
	return adviseOnUs(reason)
}

// adviseOnUs is for the reasons that lie on this side of Graph, and for what
// is not known.
func adviseOnUs(reason graph.Reason) advice {
	switch reason {
	case graph.ReasonLeaseLost, graph.ReasonTermLost:
		return advice{"this process stopped leading meanwhile", "nothing, the process that leads now goes on"}
	case graph.ReasonStoreUnavailable:
		return advice{"the store did not take the result", "check the disk of the store: its room, its rights and its health"}
	case graph.ReasonMassChangeHeld:
		return advice{"more would change at once than is done unasked", "look at it with graphsubd plan; correct the configuration, or release it with graphsubd plan --approve"}
	case graph.ReasonSilent:
		return advice{"nothing has come for longer than expected", "check that the resource still changes, and that publicURL can be reached from the internet"}
	default:
		return advice{"it failed in a way that is not known", "wait, it is tried again by itself; if it lasts, read the text and report it"}
	}
}
