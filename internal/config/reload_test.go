package config_test

import (
	"slices"
	"strings"
	"testing"
)

func TestNeedRestart(t *testing.T) {
	t.Parallel()
	before, faults := load(t, map[string]string{"graphsubd.yaml": valid})
	if len(faults) > 0 {
		t.Fatal(strings.Join(faults, "\n"))
	}
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"instance", "instance: prod", "instance: test", []string{"instance"}},
		{"a resource", "resource: ", "resource: groups/g/members #", nil},
		{"log and instance", "instance: prod", "instance: test\nlog: {level: debug}", []string{"instance", "log"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			after, faults := load(t, map[string]string{"graphsubd.yaml": strings.Replace(valid, test.old, test.new, 1)})
			if len(faults) > 0 {
				t.Fatal(strings.Join(faults, "\n"))
			}
			after.Store, after.Lease, after.SigningKeys = before.Store, before.Lease, before.SigningKeys // other temporary paths
			if got := before.NeedRestart(after); !slices.Equal(got, test.want) {
				t.Errorf("NeedRestart gives %v, want %v", got, test.want)
			}
		})
	}
}
