package graph_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
)

var update = flag.Bool("update", false, "write docs/resources.md")

const pageHead = `# Resources

<!-- Written by go generate from internal/graph/rules.json; change that file. -->

What Microsoft documents about the resources that a subscription can watch, as the table of %s in graphsubd has it. Graph changes these
numbers now and then. A limit that Graph itself names in an answer overrides the table for that tenant. It is remembered for 30 days;
then the table is tried once more, since Graph raises its limits.

` + "`graphsubd resources`" + ` prints the table, and ` + "`graphsubd resources users/ID/messages`" + ` all that is known of one resource.

- **Paths** are compared without regard to case and to a slash at either end. ` + "`users('ID')`" + ` and ` + "`users/ID`" + ` are the same. The query, from the
  question mark on, is sent to Graph as it is written.
- **Longest** is in minutes. graphsubd asks for some minutes less, since Graph counts by its own clock, and goes by what it is granted.
  What is asked for below 45 minutes Graph raises to 45. *With data* is the longest life with resource data, where that differs.
- **Data** says whether Graph can send the changed item along, **delta** whether a delta query finds what was missed.
- **Permission** is an application permission, the least one first. graphsubd has no signed-in user.
- *?* means that no page says it.
- Above an hour of life a lifecycle URL is needed for %s. graphsubd always sends one.
- A resource that is not here is asked to live for an hour at most, and gets a warning.
- Beyond a quota Graph answers 403.

`

const pageRules = `## What check says

` + "`graphsubd check`" + ` holds each subscription against this table. It names the rule and the date of the table.

| Rule | | What it finds |
| --- | --- | --- |
`

// ruleMeanings says what each rule finds.
func ruleMeanings() [][3]string {
	return [][3]string{
		{graph.RuleResourcePrefix, "error", "the address or the version of Graph before the path"},
		{graph.RuleResourceText, "error", "no text, a space at an end, a control character"},
		{graph.RuleDelegatedOnly, "error", "a resource that is there for signed-in users only"},
		{graph.RuleCloud, "error", "a resource that the cloud of the tenant's app does not have"},
		{graph.RuleChangeTypes, "error", "a change type that the resource does not have; a warning where the pages disagree"},
		{graph.RuleResourceData, "error", "resource data that Graph does not send; a warning where no page says"},
		{graph.RuleSelect, "error", "Outlook with resource data and no `$select`, or with `body` or `uniqueBody` in it"},
		{graph.RuleQueryOptions, "error", "Outlook with resource data and `$top`, `$skip`, `$orderby` or `$expand`, but for extended properties; a warning without resource data, and for what needs options that this version does not send"},
		{graph.RuleUnknownResource, "warning", "a path that is not in the table"},
		{graph.RuleMe, "warning", "a path that begins with `me`"},
		{graph.RuleUserName, "warning", "an apostrophe in the name of a user"},
		{graph.RuleLifetime, "warning", "below 45 minutes, above the longest, or a longest that no page names"},
		{graph.RuleQueryText, "warning", "percent-encoding in the query, or an odd number of quotes"},
		{graph.RuleImmutableIDs, "warning", "immutable ids for what is not of Outlook"},
		{"permission", "warning", "pages that disagree about the application permission"},
		{"beta", "warning", "a resource that is documented for the beta of Graph only"},
	}
}

// resourcesPage renders docs/resources.md.
func resourcesPage(rules *graph.Rules) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, pageHead, rules.Version, strings.Join(needLifecycleURL(rules), ", "))
	family := ""
	var remarks remarks
	flush := func() {
		page.WriteString("\n" + remarks.String())
		remarks = nil
	}
	for _, r := range rules.All() {
		if r.Family != family {
			if family != "" {
				flush()
			}
			family = r.Family
			page.WriteString("## " + family + "\n\n| Type | Resource | Longest | With data | Changes | Data | Delta | Permission |\n" +
				"| --- | --- | ---: | ---: | --- | --- | --- | --- |\n")
		}
		rich := ""
		if r.RichLifetime > 0 {
			rich = fmt.Sprint(r.RichLifetime.Minutes())
		}
		fmt.Fprintf(&page, "| [%s](%s) | `%s` | %v | %s | %s | %s | %s | %s |\n", r.Type, r.Source, strings.Join(r.Paths, "`<br>`"),
			r.MaxLifetime.Minutes(), rich, orUnknown(changes(r.ChangeTypes)),
			orUnknown(string(r.Rich)), orUnknown(string(r.Delta)), permission(r))
		remarks.add(r)
	}
	flush()
	page.WriteString(pageRules)
	for _, rule := range ruleMeanings() {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", rule[0], rule[1], rule[2])
	}
	return page.Bytes()
}

func orUnknown(text string) string {
	if text == "" {
		return "?"
	}
	return text
}

func permission(r graph.Rule) string {
	if r.DelegatedOnly {
		return "none: for signed-in users only"
	}
	if len(r.Permissions) == 0 {
		return "?"
	}
	return "`" + strings.Join(r.Permissions, "`<br>`") + "`"
}

func changes(types []graph.ChangeType) string {
	var list []string
	for _, word := range types {
		list = append(list, string(word))
	}
	return strings.Join(list, ", ")
}

// needLifecycleURL lists types in the order of the table.
func needLifecycleURL(rules *graph.Rules) []string {
	var list []string
	for _, r := range rules.All() {
		if r.LifecycleURL && !slices.Contains(list, r.Type) {
			list = append(list, r.Type)
		}
	}
	return list
}

// remarks are what does not fit into the table: a text, and the paths it is
// about.
type remarks []struct {
	text  string
	paths []string
}

func (m *remarks) add(r graph.Rule) {
	var parts []string
	if len(r.Quotas) > 0 {
		parts = append(parts, "At most "+strings.Join(r.Quotas, "; ")+".")
	}
	if len(r.Clouds) > 0 {
		parts = append(parts, "Only in the cloud "+strings.Join(r.Clouds, ", ")+".")
	}
	parts = append(parts, r.Notes...)
	for _, caution := range r.Cautions {
		parts = append(parts, "It "+caution.Text+".")
	}
	text := strings.Join(parts, " ")
	for i := range *m {
		if (*m)[i].text == text {
			(*m)[i].paths = append((*m)[i].paths, r.Paths...)
			return
		}
	}
	*m = append(*m, struct {
		text  string
		paths []string
	}{text, slices.Clone(r.Paths)})
}

func (m *remarks) String() string {
	var list strings.Builder
	for _, one := range *m {
		if one.text != "" {
			list.WriteString("- `" + strings.Join(one.paths, "`, `") + "`: " + one.text + "\n")
		}
	}
	if list.Len() > 0 {
		list.WriteString("\n")
	}
	return list.String()
}

// TestResourcesPage holds docs/resources.md to the table.
func TestResourcesPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "resources.md")
	got := resourcesPage(loadRules(t))
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table gives; run make generate and look at the difference", path)
	}
	described := map[string]bool{}
	for _, rule := range ruleMeanings() {
		described[rule[0]] = true
	}
	for _, rule := range loadRules(t).All() {
		for _, caution := range rule.Cautions {
			if !described[caution.Rule] {
				t.Errorf("the page does not say what the rule %s finds", caution.Rule)
			}
		}
	}
}
