package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/graphsubd/graphsubd/internal/config"
)

func TestSecretShowsAMaskOnly(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret("hunter2")
	if secret.Text() != "hunter2" {
		t.Fatal("the value is lost")
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", secret, "pointer", &secret)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", secret, "pointer", &secret)
	out := []string{log.String()}
	type holder struct {
		Public  config.Secret  `json:"public" yaml:"public"`
		Pointer *config.Secret `json:"pointer" yaml:"pointer"`
		private config.Secret
	}
	h := holder{secret, &secret, secret}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out = append(out, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, &secret), fmt.Sprintf(verb, h), fmt.Sprintf(verb, &h))
	}
	asJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"public":"[secret]","pointer":"[secret]"}`; string(asJSON) != want {
		t.Errorf("JSON is %s, want %s", asJSON, want)
	}
	out = append(out, string(asJSON), string(asYAML), h.private.String())
	for _, text := range out {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("a secret leaks: %s", text)
		}
	}
	if got := strings.Count(log.String(), "[secret]"); got != 4 {
		t.Errorf("%d masks in the log, want 4: %s", got, log.String())
	}
}

func TestSecretSource(t *testing.T) {
	t.Parallel()
	for want, secret := range map[string]config.Secret{
		"file /a":                {File: "/a"},
		"environment variable A": {Env: "A"},
		"memory":                 config.NewSecret("x"),
	} {
		if got := secret.Source(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if text := (config.Secret{File: "/a"}).Text(); text != "" {
		t.Errorf("a secret that was not read has the value %q", text)
	}
}
