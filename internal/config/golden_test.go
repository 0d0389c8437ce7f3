package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/graphsubd/graphsubd/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

// keyTree returns each dotted key of a type with the Go type of its value; []
// stands for any entry of a list.
func keyTree(t reflect.Type, path string) map[string]string {
	tree := map[string]string{}
	switch {
	case t.Kind() == reflect.Pointer:
		return keyTree(t.Elem(), path)
	case t.Kind() == reflect.Slice:
		tree[path] = "list"
		maps.Copy(tree, keyTree(t.Elem(), path+"[]"))
	case t == reflect.TypeFor[config.Secret]():
		tree[path] = "secret"
	case t.Kind() == reflect.Struct:
		if path != "" {
			tree[path] = "mapping"
			path += "."
		}
		for f := range t.Fields() {
			if key := f.Tag.Get("yaml"); key != "" {
				maps.Copy(tree, keyTree(f.Type, path+key))
			}
		}
	default:
		tree[path] = strings.TrimPrefix(strings.TrimPrefix(t.String(), "config."), "time.")
	}
	return tree
}

// golden compares got with a committed file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
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
		t.Errorf("%s is not what the code gives; run go test ./internal/config -update and look at the difference", path)
	}
}

func TestKeyTree(t *testing.T) {
	t.Parallel()
	var lines []string
	for key, typ := range keyTree(reflect.TypeFor[config.Config](), "") {
		lines = append(lines, key+" "+typ+"\n")
	}
	slices.Sort(lines)
	golden(t, filepath.Join("testdata", "keys.golden"), []byte(strings.Join(lines, "")))
}

func TestSchema(t *testing.T) {
	t.Parallel()
	schema, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "docs", "config.schema.json"), schema)
	if n := bytes.Count(schema, []byte(`"description"`)); n < len(keyTree(reflect.TypeFor[config.Config](), ""))/2 {
		t.Errorf("only %d descriptions: the comments of the fields did not reach the schema", n)
	}
}

// The chart checks what it is given as the configuration before it replaces a
// pod that runs: its schema is the configuration's own, less what the chart
// decides, which testdata says.
func TestChartValues(t *testing.T) {
	t.Parallel()
	var chart, own map[string]any
	decode := func(text []byte, err error, into *map[string]any) {
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "chart-values.json"))
	decode(text, err, &chart)
	text, err = config.Schema()
	decode(text, err, &own)

	defs := within(t, own, "$defs")
	delete(within(t, defs, "Store", "properties"), "sqlite")
	chart["$defs"] = defs
	decided := within(t, chart, "properties", "config")
	for name, sub := range within(t, own, "properties") {
		rules, isRules := within(t, decided, "properties")[name].(map[string]any)
		described, _ := sub.(map[string]any)
		switch {
		case isRules && rules["type"] == nil:
			maps.Copy(rules, described) // in addition
		case !isRules:
			within(t, decided, "properties")[name] = sub
		}
	}
	decided["additionalProperties"] = false
	merged, err := json.MarshalIndent(chart, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "deploy", "helm", "graphsubd", "values.schema.json"), append(merged, '\n'))
}

// within gives an object within another.
func within(t *testing.T, object map[string]any, path ...string) map[string]any {
	t.Helper()
	for _, name := range path {
		next, ok := object[name].(map[string]any)
		if !ok {
			t.Fatalf("no object %q in %v", name, path)
		}
		object = next
	}
	return object
}

// exampleKeys returns the dotted keys that a decoded YAML value holds.
func exampleKeys(value any, path string, keys map[string]bool) {
	if path != "" {
		keys[path] = true
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			exampleKeys(inner, strings.TrimPrefix(path+"."+key, "."), keys)
		}
	case []any:
		for _, inner := range value {
			exampleKeys(inner, path+"[]", keys)
		}
	}
}

func TestExampleKeysAreInTheTree(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var example map[string]any
	if err := yaml.Unmarshal(data, &example); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	exampleKeys(example, "", keys)
	if len(keys) < 80 {
		t.Errorf("only %d keys found in the example", len(keys))
	}
	tree := keyTree(reflect.TypeFor[config.Config](), "")
	for key := range keys {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(key, ".file"), ".env"), "[]")
		if tree[key] == "" && tree[base] != "secret" && tree[base] != "list" {
			t.Errorf("the example's key %s is not known", key)
		}
	}
}

// TestDocumentation holds docs/configuration.md to the keys: each has a row,
// no row is of another key, and the last column says what is not there yet.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| ([^|]*) \\|$").FindAllStringSubmatch(string(page), -1) {
		if rows[row[1]] != "" {
			t.Errorf("%s has two rows", row[1])
		}
		rows[row[1]] = row[2]
	}
	tree := keyTree(reflect.TypeFor[config.Config](), "")
	for key := range tree {
		if strings.HasSuffix(key, "[]") {
			continue // The entry of a list has the list's row.
		}
		want := "yes"
		for _, later := range config.NotAvailable() {
			if key == later || strings.HasPrefix(key, later+".") || strings.HasPrefix(key, later+"[]") {
				want = "not yet"
			}
		}
		if got := rows[key]; got != want {
			t.Errorf("the row of %s says %q about its availability, want %q", key, got, want)
		}
	}
	for key := range rows {
		if tree[key] == "" {
			t.Errorf("%s has a row and is no key", key)
		}
	}
}

// TestDocumentedFileLoads takes the small file of the page at its word.
func TestDocumentedFileLoads(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile("(?s)A small file that works:\n\n```yaml\n(.*?)```").FindSubmatch(page)
	if sample == nil {
		t.Fatal("the page has no small file")
	}
	if _, faults := load(t, map[string]string{"graphsubd.yaml": string(sample[1])}); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}

func TestNotAvailableKeysExist(t *testing.T) {
	t.Parallel()
	tree := keyTree(reflect.TypeFor[config.Config](), "")
	for _, key := range config.NotAvailable() {
		if tree[key] == "" {
			t.Errorf("%s is refused and is no key", key)
		}
	}
}
