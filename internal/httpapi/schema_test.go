package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// description is the part of an OpenAPI document that the tests look at.
type description struct {
	OpenAPI    string `json:"openapi"`
	Components struct {
		Schemas map[string]*schemaNode `json:"schemas"`
	} `json:"components"`
}

type schemaNode struct {
	Ref         string                 `json:"$ref"`
	Description string                 `json:"description"`
	Properties  map[string]*schemaNode `json:"properties"`
	Items       *schemaNode            `json:"items"`
}

func (d *desk) describe() (text []byte, doc description) {
	d.t.Helper()
	text = d.ask(http.MethodGet, "/openapi.json", "Bearer "+watcherToken).Body.Bytes()
	if err := json.Unmarshal(text, &doc); err != nil {
		d.t.Fatal(err)
	}
	return text, doc
}

// TestOpenAPI holds the schema to the committed one; -update writes it anew.
// A name that goes from it breaks its readers.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	const path = "../../docs/openapi.json"
	d := newDesk(t)
	text, doc := d.describe()
	var got bytes.Buffer
	if err := json.Indent(&got, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("docs/openapi.json differs: run go test ./internal/httpapi -run TestOpenAPI -update and look at the difference")
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("OpenAPI %q", doc.OpenAPI)
	}
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal(d.ask(http.MethodGet, "/openapi.yaml", "Bearer "+watcherToken).Body.Bytes(), &fromYAML); err != nil {
		t.Error(err)
	}
	if err := yaml.Unmarshal(text, &fromJSON); err != nil {
		t.Error(err)
	}
	a, errA := json.Marshal(fromYAML)
	b, errB := json.Marshal(fromJSON)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Error("the YAML says something else than the JSON")
	}
}

// TestExampleFillsEveryField compares the answers about a world in which all is
// known with the schema: what it documents is sent, and what is sent it
// documents.
func TestExampleFillsEveryField(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, doc := d.describe()
	for target, schema := range map[string]string{
		"/api/v1/status":                     "Status",
		"/api/v1/subscriptions/orders-inbox": "Subscription",
		"/api/v1/subscriptions?limit=1":      "SubscriptionList",
		"/api/v1/plan":                       "Plan",
	} {
		var answer any
		d.get(target, &answer)
		for _, fault := range doc.compare(schema, &schemaNode{Ref: "#/components/schemas/" + schema}, answer) {
			t.Errorf("%s: %s", target, fault)
		}
	}
}

// compare lists where a value and its schema differ in their fields.
func (doc *description) compare(at string, node *schemaNode, value any) (faults []string) {
	if name, ok := strings.CutPrefix(node.Ref, "#/components/schemas/"); ok {
		node = doc.Components.Schemas[name]
	}
	if items, isList := value.([]any); isList {
		if len(items) == 0 {
			return []string{at + " is empty"}
		}
		return doc.compare(at+"[]", node.Items, items[0])
	}
	object, isObject := value.(map[string]any)
	if !isObject || len(node.Properties) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(node.Properties)) {
		field, sent := object[key]
		if !sent {
			faults = append(faults, at+"."+key+" is documented and not sent")
			continue
		}
		faults = append(faults, doc.compare(at+"."+key, node.Properties[key], field)...)
	}
	for key := range object {
		if node.Properties[key] == nil {
			faults = append(faults, at+"."+key+" is sent and not documented")
		}
	}
	return faults
}
