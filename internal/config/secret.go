package config

import (
	"fmt"
	"log/slog"
	"strings"
)

// secretMask is all that is ever shown of a secret.
const secretMask = "[secret]"

// Secret is a value that does not stand in the configuration but in a file or
// an environment variable. Exactly one of File and Env is set. However it is
// printed, logged or encoded, a fixed mask is all that comes out.
type Secret struct {
	// A file that holds the value; one line break at its end is not part of it.
	File string `yaml:"file" config:"path"`
	// An environment variable that holds the value.
	Env string `yaml:"env"`

	// value is behind a pointer so that package fmt, which reaches into
	// unexported fields without asking their methods, finds an address only.
	value *string
}

// NewSecret returns a secret with a value of its own, for a configuration that
// is built and not read.
func NewSecret(value string) Secret {
	return Secret{value: &value}
}

// Text returns the value. It is empty before the secret was read.
func (s Secret) Text() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Current reads the value anew where it stands in a file, so that one that was
// replaced is picked up without a restart. The error names the place and never
// the value.
func (s Secret) Current() (string, error) {
	if s.File == "" {
		return s.Text(), nil
	}
	data, err := s.CurrentBytes()
	if err != nil {
		return "", err
	}
	text := trimLineBreak(string(data))
	if text == "" {
		return "", fmt.Errorf("%s is empty", s.Source())
	}
	return text, nil
}

// CurrentBytes is Current for a value that is no text: nothing is trimmed.
func (s Secret) CurrentBytes() ([]byte, error) {
	if s.File == "" {
		return []byte(s.Text()), nil
	}
	data, err := readFile(s.File, maxSecretBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", s.Source(), plainCause(err))
	}
	return data, nil
}

func trimLineBreak(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// Source says where the value is, for messages.
func (s Secret) Source() string {
	switch {
	case s.File != "":
		return "file " + s.File
	case s.Env != "":
		return "environment variable " + s.Env
	}
	return "memory"
}

// String returns the mask.
func (Secret) String() string { return secretMask }

// GoString returns the mask.
func (Secret) GoString() string { return secretMask }

// LogValue returns the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(secretMask) }

// MarshalJSON returns the mask.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + secretMask + `"`), nil }

// MarshalYAML returns the mask.
func (Secret) MarshalYAML() (any, error) { return secretMask, nil }

// checkSet faults a secret that must be there and is not.
func (s Secret) checkSet(a place) {
	if s.File == "" && s.Env == "" {
		a.fault("is missing", "write {file: PATH} or {env: NAME}")
	}
}

// check spoils a secret that does not name exactly one source.
func (s Secret) check(a place) {
	var problem string
	remedy := "write {file: PATH} or {env: NAME}"
	switch {
	case s.File != "" && s.Env != "":
		problem, remedy = "names a file and an environment variable", "keep one of file and env"
	case s.File == "" && s.Env == "":
		problem = "names neither a file nor an environment variable"
	case s.Env != "" && !isVariable(s.Env):
		// What was written may be the secret itself, so it is not repeated.
		problem, remedy = "env is not the name of an environment variable", "write {env: NAME}, the name and not the value"
	default:
		return
	}
	if !a.spoiled() {
		a.doc.spoil(a.path, a.position(), problem, remedy)
	}
}

// read fetches the value. It returns nil after a fault.
func (s Secret) read(a place, getenv func(string) string) *string {
	text, problem := s.fetch(getenv)
	text = trimLineBreak(text)
	if problem == "" && text == "" {
		problem = s.Source() + " is empty"
	}
	if problem != "" {
		a.fault(problem, "put the secret there, readable for this process, or name another place")
		return nil
	}
	return &text
}

func (s Secret) fetch(getenv func(string) string) (text, problem string) {
	if s.File == "" {
		text = getenv(s.Env)
		if text == "" {
			return "", s.Source() + " is not set or empty"
		}
		return text, ""
	}
	data, err := readFile(s.File, maxSecretBytes)
	if err != nil {
		return "", s.Source() + ": " + plainCause(err)
	}
	return string(data), ""
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
