package config_test

import (
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/config"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want config.Bytes
		back string
	}{
		{"0", 0, "0B"},
		{"1000", 1000, "1000B"},
		{"512B", 512, "512B"},
		{"1024", 1 << 10, "1KiB"},
		{"8MiB", 8 << 20, "8MiB"},
		{"20GiB", 20 << 30, "20GiB"},
		{"3TiB", 3 << 40, "3TiB"},
		{"1536KiB", 1536 << 10, "1536KiB"},
	} {
		var got config.Bytes
		if err := got.UnmarshalText([]byte(test.text)); err != nil || got != test.want || got.String() != test.back {
			t.Errorf("%s is %d (%s, %v), want %d (%s)", test.text, got, got, err, test.want, test.back)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "+1", "1.5MiB", "8MB", "8M", "8 MiB", "8mib", "8MiBMiB", "9223372036854775808", "8388608TiB", "0x10"} {
		var got config.Bytes
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %d", text, got)
		}
	}
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	got := config.Lifetime(time.Hour)
	if err := got.UnmarshalText([]byte("max")); err != nil || got != config.LifetimeMax || got.String() != "max" {
		t.Errorf("max is %v (%v)", got, err)
	}
	if err := got.UnmarshalText([]byte("90m")); err != nil || time.Duration(got) != 90*time.Minute || got.String() != "1h30m0s" {
		t.Errorf("90m is %v (%v)", got, err)
	}
	for _, text := range []string{"", "Max", "0", "-1h", "60"} {
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %v", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	candidates := []string{"instance", "publicURL", "sinks", "store", "app"}
	for name, want := range map[string]string{
		"publicUrl": "publicURL",
		"instnace":  "instance",
		"sink":      "sinks",
		"stores":    "store",
		"APP":       "app",
		"xyz":       "",
		"":          "",
		"instant":   "instance",
	} {
		if got := config.Nearest(name, candidates); got != want {
			t.Errorf("near %q is %q, want %q", name, got, want)
		}
	}
}
