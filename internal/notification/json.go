package notification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// secretMember is taken out of every stored object, in any case.
const secretMember = "clientstate"

// member is one of a JSON object's; all but name is as it came.
type member struct{ name, key, value string }

// object gives the members of a JSON object, nil when it is none. Of a name
// that stands twice the last one counts.
func object(raw gjson.Result) []member {
	if !raw.IsObject() {
		return nil
	}
	members := make([]member, 0, usualMembers)
	raw.ForEach(func(key, value gjson.Result) bool {
		m := member{name: key.String(), key: key.Raw, value: value.Raw}
		at := slices.IndexFunc(members, func(former member) bool { return former.name == m.name })
		if at < 0 {
			members = append(members, m)
		} else {
			members[at] = m
		}
		return true
	})
	return members
}

// usualMembers is how many a change has.
const usualMembers = 8

// find gives the value of a member, whatever the case of its name.
func find(members []member, name string) gjson.Result {
	for _, m := range slices.Backward(members) {
		if strings.EqualFold(m.name, name) {
			return gjson.Parse(m.value)
		}
	}
	return gjson.Result{}
}

// text gives a JSON string's value, "" for anything else.
func text(members []member, name string) string {
	if value := find(members, name); value.Type == gjson.String {
		return value.String()
	}
	return ""
}

// strip compacts a JSON object and takes clientState out of it.
func strip(members []member) []byte {
	size := 1
	for _, m := range members {
		size += len(m.key) + len(m.value) + 2
	}
	text := make([]byte, 0, size)
	for _, m := range members {
		if strings.EqualFold(m.name, secretMember) {
			continue
		}
		text = append(append(append(append(text, ','), m.key...), ':'), m.value...)
	}
	if len(text) == 0 {
		return []byte("{}")
	}
	text[0] = '{'
	text = append(text, '}')
	if !bytes.ContainsAny(text, " \t\r\n") {
		return text
	}
	out := bytes.NewBuffer(make([]byte, 0, len(text)))
	// The whole body was found valid.
	_ = json.Compact(out, text)
	return out.Bytes()
}

// describe says what valid JSON is without repeating any of it.
//
// What is not understood may hold a secret where nobody looks for it.
func describe(raw string) []byte {
	return fmt.Appendf(nil, `{"malformed":%q,"bytes":%d}`, kindOf(raw), len(raw))
}

// kindOf names the JSON type of valid JSON.
func kindOf(raw string) string {
	raw = strings.TrimLeft(raw, " \t\r\n")
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
