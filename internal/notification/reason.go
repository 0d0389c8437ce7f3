package notification

// Reason says why an item was not forwarded. The set is closed: it is the
// label of the metric and the word in the log, the API and the quarantine.
type Reason string

// Reasons about an item.
const (
	ReasonBadClientState      Reason = "bad_client_state"
	ReasonUnknownSubscription Reason = "unknown_subscription"
	ReasonWrongTenant         Reason = "wrong_tenant"
	ReasonMalformed           Reason = "malformed"
	ReasonNoValidationToken   Reason = "no_validation_token"
	ReasonBadValidationToken  Reason = "bad_validation_token"
	ReasonUnknownKey          Reason = "unknown_key"
	ReasonUndecryptable       Reason = "undecryptable"
	ReasonDuplicate           Reason = "duplicate"
	ReasonProbe               Reason = "probe"
	ReasonNotDesired          Reason = "not_desired"
)

// Reasons lists the closed set, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{
		ReasonBadClientState, ReasonUnknownSubscription, ReasonWrongTenant, ReasonMalformed,
		ReasonNoValidationToken, ReasonBadValidationToken, ReasonUnknownKey, ReasonUndecryptable,
		ReasonDuplicate, ReasonProbe, ReasonNotDesired,
	}
}
