package config

import (
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// keySources are the files that declare the keys; their comments are the
// descriptions in the schema.
//
//go:embed config.go listen.go admin.go store.go lease.go app.go certificate.go subscription.go sink.go secret.go
var keySources embed.FS

// Schema returns the JSON Schema, draft 2020-12, of the main configuration
// file, indented, with the same bytes each time.
func Schema() ([]byte, error) {
	comments, err := keyComments()
	if err != nil {
		return nil, err
	}
	reflector := &jsonschema.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true,
		Mapper:                     scalarSchema,
		LookupComment: func(t reflect.Type, fieldName string) string {
			return comments[t.Name()+"."+fieldName]
		},
	}
	schema := reflector.Reflect(&Config{})
	schema.Title = "graphsubd configuration"
	if secret := schema.Definitions["Secret"]; secret != nil {
		one := uint64(1)
		secret.MinProperties, secret.MaxProperties = &one, &one
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(text, '\n'), nil
}

// scalarSchema describes the types that are written as one word, and leaves
// all others to the reflector.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case reflect.TypeFor[Lifetime]():
		return &jsonschema.Schema{Type: "string", Pattern: "^max$|" + durationPattern}
	case reflect.TypeFor[Bytes]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^[0-9]+(B|KiB|MiB|GiB|TiB)?$`},
			{Type: "integer", Minimum: "0"},
		}}
	}
	return nil
}

const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// keyComments returns the comment of each type as Type. and of each field as
// Type.Field.
func keyComments() (map[string]string, error) {
	comments := map[string]string{}
	files, err := keySources.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("read key sources: %w", err)
	}
	for _, file := range files {
		source, err := keySources.ReadFile(file.Name())
		if err != nil {
			return nil, fmt.Errorf("read key sources: %w", err)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file.Name(), source, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse key sources: %w", err)
		}
		for _, declaration := range tree.Decls {
			addComments(comments, declaration)
		}
	}
	return comments, nil
}

func addComments(comments map[string]string, declaration ast.Decl) {
	general, ok := declaration.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range general.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		comments[named.Name.Name+"."] = oneLine(general.Doc)
		structure, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range structure.Fields.List {
			for _, name := range f.Names {
				comments[named.Name.Name+"."+name.Name] = oneLine(f.Doc)
			}
		}
	}
}

func oneLine(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}
