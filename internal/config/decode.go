package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// decoder fills Go values from the syntax tree that go-yaml parses. Its own
// decoder ends at the first fault and quotes the source, which may hold a
// secret that was written where it does not belong; this one goes on, and
// shows a value only where no secret can be meant.
type decoder struct {
	doc *document
	// secrets and caFiles are what the document points at, for reading later.
	secrets []secretAt
	caFiles []caFile
}

type secretAt struct {
	place  place
	secret *Secret
}

type caFile struct {
	place place
	path  string
}

// defaulter is a struct of the configuration with defaults that are not zero.
type defaulter interface {
	setDefaults()
}

// decode fills target, a pointer to a struct, from the text of a file, with
// defaults where the text says nothing.
func decode(doc *document, data []byte, target any) *decoder {
	d := &decoder{doc: doc}
	v := reflect.ValueOf(target).Elem()
	setDefaults(v)
	if body := d.parse(data); body != nil {
		d.value(body, v, "")
	}
	return d
}

// parse returns the root of the one document in data, or nil when it is empty
// or has a fault.
func (d *decoder) parse(data []byte) ast.Node {
	if !utf8.Valid(data) {
		d.doc.spoil("", position{1, 1}, "is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // Some editors begin UTF-8 text with a byte order mark.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, problem := position{1, 1}, "cannot be read as YAML"
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			at, problem = tokenPosition(syntax.Token), "is not YAML: "+syntax.Message
		}
		d.doc.spoil("", at, problem, "correct the syntax at or before this place")
		return nil
	}
	var body ast.Node
	for _, one := range file.Docs {
		switch {
		case one.Body == nil || one.Body.Type() == ast.DirectiveType:
		case body == nil:
			body = one.Body
		default:
			d.doc.faultAt("", nodePosition(one.Body), "holds a second document", "keep one document in a file")
		}
	}
	return body
}

// value decodes one node. It records a fault and leaves v as it is when the
// node does not fit.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.TagType, ast.MergeKeyType:
		d.doc.spoil(path, nodePosition(n), "anchors, aliases and tags are not read", "write the value out")
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[Secret]():
		d.secret(n, v, path)
	case v.Kind() == reflect.Pointer:
		d.pointer(n, v, path)
	case isScalar(v):
		d.scalar(n, v, path)
	case n.Type() == ast.NullType && path == "":
	case n.Type() == ast.NullType && (v.Kind() == reflect.Slice || v.Kind() == reflect.Struct):
		// A section whose entries are all commented out says nothing.
	case v.Kind() == reflect.Slice:
		d.list(n, v, path)
	default:
		d.mapping(n, v, path)
	}
}

// pointer decodes a part that is on when it is written, so a part without a
// value is a fault: it must not be taken for off.
func (d *decoder) pointer(n ast.Node, v reflect.Value, path string) {
	if n.Type() == ast.NullType {
		d.doc.spoil(path, nodePosition(n), "has no value", "write its keys, {} for none of them, or remove it")
		return
	}
	target := reflect.New(v.Type().Elem())
	setDefaults(target.Elem())
	d.value(n, target.Elem(), path)
	v.Set(target)
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, v, path)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(sequence.Values), len(sequence.Values)))
	for i, entry := range sequence.Values {
		entryPath := joinIndex(path, i)
		d.doc.add(entryPath, nodePosition(entry), v.Index(i))
		setDefaults(v.Index(i))
		if entry.Type() == ast.NullType {
			d.doc.spoil(entryPath, nodePosition(entry), "has no value", "write one, or remove the entry")
			continue
		}
		d.value(entry, v.Index(i), entryPath)
	}
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	node, ok := n.(ast.MapNode)
	if !ok {
		d.wrongType(n, v, path)
		return
	}
	known := structKeys(v.Type())
	first := map[string]position{}
	for entries := node.MapRange(); entries.Next(); {
		key, at := keyText(entries.Key()), nodePosition(entries.Key())
		i := slices.Index(known, key)
		keyPath := joinKey(path, key)
		switch before, twice := first[key]; {
		case i < 0:
			d.unknownKey(v.Type(), path, key, at, known)
			continue
		case twice:
			d.doc.spoil(keyPath, at, fmt.Sprintf("stands twice, first in line %d", before.line), "keep one")
			continue
		}
		first[key] = at
		d.doc.add(keyPath, nodePosition(entries.Value()), v.Field(i))
		d.value(entries.Value(), v.Field(i), keyPath)
		d.path(v.Type().Field(i), v.Field(i), keyPath)
	}
}

// path makes the text of a path key absolute or relative to the working
// directory, so that it no longer matters which file it stood in.
func (d *decoder) path(f reflect.StructField, v reflect.Value, path string) {
	use := f.Tag.Get("config")
	if use == "" || v.String() == "" {
		return
	}
	if text := v.String(); text != "-" && !filepath.IsAbs(text) {
		v.SetString(filepath.Join(d.doc.dir, text))
	}
	if use == "ca" {
		d.caFiles = append(d.caFiles, caFile{place{d.doc, path}, v.String()})
	}
}

func (d *decoder) unknownKey(t reflect.Type, path, key string, at position, known []string) {
	if t == reflect.TypeFor[Secret]() {
		// What was written may be the secret itself, so it is not repeated.
		d.doc.spoil(path, at, "a secret has no key but file and env", "write {file: PATH} or {env: NAME}")
		return
	}
	problem, remedy := "unknown key "+quote(key), "remove it; known here are "+strings.Join(known, ", ")
	near := nearest(key, known)
	switch {
	case len(known) == 0:
		remedy = "remove it; no keys are known here"
	case near != "":
		remedy = "did you mean " + near + "?"
		d.doc.spoiled[joinKey(path, near)] = true
	case t == reflect.TypeFor[fragment]() && slices.Contains(structKeys(reflect.TypeFor[Config]()), key):
		problem = "key " + quote(key) + " is not for an included file"
		remedy = "move it to the main file; here go " + strings.Join(known, ", ")
	}
	d.doc.faultAt(path, at, problem, remedy)
}

func (d *decoder) secret(n ast.Node, v reflect.Value, path string) {
	if n.Type() == ast.NullType {
		d.doc.spoil(path, nodePosition(n), "has no value", "write {file: PATH} or {env: NAME}")
		return
	}
	if _, ok := n.(ast.MapNode); !ok {
		d.doc.spoil(path, nodePosition(n), "is a secret and does not stand in the configuration",
			"put it in a file or an environment variable and write {file: PATH} or {env: NAME}")
		return
	}
	d.mapping(n, v, path)
	secret, ok := reflect.TypeAssert[*Secret](v.Addr())
	if !ok {
		return
	}
	at := place{d.doc, path}
	secret.check(at)
	d.secrets = append(d.secrets, secretAt{at, secret})
}

func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			setDefaults(v.Field(i))
		}
	}
	if target, ok := reflect.TypeAssert[defaulter](v.Addr()); ok {
		target.setDefaults()
	}
}

// structKeys returns the keys of a struct in the order of its fields. Fields
// that are no keys come last in every struct, so an index here is one there.
func structKeys(t reflect.Type) []string {
	keys := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
