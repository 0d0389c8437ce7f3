package notification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// secretMember is taken out of every stored object, in any case.
const secretMember = "clientstate"

// object reads a JSON object with its names in lower case; nil when it is
// none. Of a name that stands twice the last one counts.
func object(raw []byte) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if len(raw) == 0 || json.Unmarshal(raw, &members) != nil || members == nil {
		return nil
	}
	folded := make(map[string]json.RawMessage, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		folded[strings.ToLower(name)] = members[name]
	}
	return folded
}

// text gives a JSON string's value, "" for anything else.
func text(raw []byte) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// strip compacts a JSON object and takes clientState out of it. Of anything
// else only a description is kept: what is not understood may hold a secret
// where nobody looks for it.
func strip(raw []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return describe(raw)
	}
	for name := range members {
		if strings.EqualFold(name, secretMember) {
			delete(members, name)
		}
	}
	var out bytes.Buffer
	out.Grow(len(raw))
	encoder := json.NewEncoder(&out)
	// Escaping HTML would change the text of URLs and filters for a reader.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return describe(raw)
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

// describe says what valid JSON is without repeating any of it.
func describe(raw []byte) []byte {
	return fmt.Appendf(nil, `{"malformed":%q,"bytes":%d}`, kindOf(raw), len(raw))
}

// kindOf names the JSON type of valid JSON.
func kindOf(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// instant reads Graph's dates: any number of fractional digits, Z or an
// offset. Zero when it is none.
func instant(value string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
