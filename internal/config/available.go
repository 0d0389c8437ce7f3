package config

import (
	"reflect"
	"strings"
)

// later is a key this version reads and does not act on yet, and what to write
// in its place. A value that says "off", such as false, 0s or [], is allowed.
type later struct {
	key, instead string
}

// notAvailable is the one list of what this version does not have. [] stands
// for any entry of a list.
func notAvailable() []later {
	return []later{
		{"certificates", "remove it"},
		{"subscriptions[].resourceData", "remove it"},
		{"sinks[].ordered", "remove it"},
		{"sinks[].filter", "remove it and name the sink in the subscriptions"},
		{"sinks[].kafka", "use file or webhook"},
		{"sinks[].nats", "use file or webhook"},
		{"admin.oidc", "use tokens"},
		{"metrics.perSubscription", "remove it"},
	}
}

// checkAvailable faults every key of the document that this version does not
// act on.
func checkAvailable(d *document) {
	instead := map[string]string{}
	for _, l := range notAvailable() {
		instead[l.key] = l.instead
	}
	for _, f := range d.fields {
		if remedy, ok := instead[withoutIndexes(f.path)]; ok && !isOff(f.value) {
			d.faultAt(f.path, f.at, "not available in this version", remedy)
		}
	}
}

// isOff tells whether a value turns nothing on.
func isOff(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// withoutIndexes turns sinks[3].file into sinks[].file.
func withoutIndexes(path string) string {
	var b strings.Builder
	inside := false
	for _, r := range path {
		switch {
		case r == '[':
			inside = true
			b.WriteString("[]")
		case r == ']':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	return b.String()
}
