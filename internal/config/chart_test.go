package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestChartRestartsForTheRest holds the chart to what a running process takes
// over: a change of anything else has to restart the pods, and of these nothing.
func TestChartRestartsForTheRest(t *testing.T) {
	template, err := os.ReadFile("../../deploy/helm/graphsubd/templates/_config.tpl")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(template), "omit (include \"graphsubd.config\" . | fromYaml) ")
	list, _, _ = strings.Cut(list, "-}}")
	var omitted []string
	for _, name := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list, -1) {
		omitted = append(omitted, name[1])
	}
	slices.Sort(omitted)
	if want := slices.Sorted(slices.Values(taken())); !found || !slices.Equal(omitted, want) {
		t.Errorf("the chart restarts nothing for %q, a process takes over %q", omitted, want)
	}
}
