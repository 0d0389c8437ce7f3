package notification

import "strings"

// Address is whom a URL says that a POST is for.
type Address struct{ Name, Gen string }

// Verdict is what becomes of one item. Reason is "" when it is accepted; Drop
// says that it is counted and not even quarantined.
type Verdict struct {
	Address Address
	Reason  Reason
	Drop    bool
}

// probePrefix begins the changeType of the pseudo-notification that Graph
// sends to a new target to see whether it can be reached.
const probePrefix = "validation: testing client application reachability"

// Owner finds whom a subscription id belongs to or belonged to; found is false
// for an id that was never ours. An error means that the store gave no answer.
type Owner func(subscriptionID string) (a Address, found bool, err error)

// Judge gives the verdict on an item that came to the URL of to. An item that
// fails against the URL's name is tried against the name that its id belongs
// to, since Graph may batch items of several subscriptions into one POST. The
// error is the owner look-up's; the POST must then not be acknowledged.
func (k *Keys) Judge(to Address, item *Item, owner Owner) (Verdict, error) {
	if strings.HasPrefix(item.ChangeType, probePrefix) {
		return Verdict{Address: to, Reason: ReasonProbe, Drop: true}, nil
	}
	if k.CheckClientState(to.Name, to.Gen, item.ClientState) {
		return Verdict{Address: to}, nil
	}
	belongs, found, err := owner(item.SubscriptionID)
	if err != nil {
		return Verdict{}, err
	}
	if found && k.CheckClientState(belongs.Name, belongs.Gen, item.ClientState) {
		return Verdict{Address: belongs}, nil
	}
	return Verdict{Address: to, Reason: ReasonBadClientState}, nil
}

// TenantMatches says whether an item may come from the tenant it names. An
// item without a tenant, as personal accounts send it, is only good for a
// wish that names none.
func TenantMatches(wished, got string) bool { return strings.EqualFold(wished, got) }
