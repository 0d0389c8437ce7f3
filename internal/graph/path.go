package graph

import "strings"

// resourcePath is the text of a resource, taken apart. Segments keep their
// case; a key in parentheses is a segment of its own, as users('a') is another
// spelling of users/a, and keeps its quotes. A path that begins with me has
// users before it.
type resourcePath struct {
	segments []string
	query    string
}

// parsePath reads a resource in one pass. Slashes at the ends do not count.
func parsePath(resource string) resourcePath {
	var (
		p        resourcePath
		at       separator
		start    int
		end      = len(resource)
		afterKey bool
	)
	for i := range len(resource) {
		c := resource[i]
		if !at.here(c) {
			continue
		}
		if !afterKey || i > start { // Nothing stands between a key and the slash after it.
			p.segments = append(p.segments, resource[start:i])
		}
		start, afterKey = i+1, c == ')'
		if c == '?' {
			start, end, p.query = i, i, resource[i+1:]
			break
		}
	}
	p.segments = append(p.segments, resource[start:end])
	for len(p.segments) > 0 && p.segments[0] == "" {
		p.segments = p.segments[1:]
	}
	for n := len(p.segments); n > 0 && p.segments[n-1] == ""; n-- {
		p.segments = p.segments[:n-1]
	}
	if p.first("me") {
		p.segments = append([]string{"users"}, p.segments...)
	}
	return p
}

// separator finds where a segment ends. What is in the quotes of a key is part
// of the key, whatever it is.
type separator struct{ inKey, inQuote bool }

func (s *separator) here(c byte) bool {
	switch {
	case s.inKey && c == '\'':
		s.inQuote = !s.inQuote
	case s.inQuote:
	case s.inKey:
		s.inKey = c != ')'
		return !s.inKey
	default:
		s.inKey = c == '('
		return s.inKey || c == '/' || c == '?'
	}
	return false
}

func (p resourcePath) first(name string) bool {
	return len(p.segments) > 0 && strings.EqualFold(p.segments[0], name)
}

// pattern is the shape of a documented path. An empty segment stands for any
// one segment that is not empty.
type pattern struct {
	segments []string
	rule     int
}

// newPattern reads a path as documented: what has braces in it is a wildcard.
func newPattern(path string, rule int) pattern {
	p := pattern{segments: parsePath(path).segments, rule: rule}
	for i, segment := range p.segments {
		if strings.Contains(segment, "{") {
			p.segments[i] = ""
		}
	}
	return p
}

func (p pattern) matches(segments []string) bool {
	if len(p.segments) != len(segments) {
		return false
	}
	for i, want := range p.segments {
		got := segments[i]
		if want == "" && (got == "" || got == "''") || want != "" && !strings.EqualFold(want, got) {
			return false
		}
	}
	return true
}

// compare orders patterns so that of two that match a path the more literal
// one comes first. Patterns that match the same paths are equal.
func (p pattern) compare(q pattern) int {
	for i := range min(len(p.segments), len(q.segments)) {
		a, b := strings.ToLower(p.segments[i]), strings.ToLower(q.segments[i])
		if a == b {
			continue
		}
		if a == "" || b != "" && a > b {
			return 1
		}
		return -1
	}
	return len(p.segments) - len(q.segments)
}
