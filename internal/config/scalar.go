package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// isScalar tells whether v is written as one word.
func isScalar(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Pointer:
		return false
	}
	return true
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	if n.Type() == ast.NullType {
		d.doc.spoil(path, nodePosition(n), "has no value", "write one, or remove the key")
		return
	}
	if !setScalar(n, v) {
		d.wrongType(n, v, path)
	}
}

// setScalar stores one word in v and tells whether it fits.
func setScalar(n ast.Node, v reflect.Value) bool {
	raw, ok := scalarValue(n)
	if !ok {
		return false
	}
	if target, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return target.UnmarshalText([]byte(fmt.Sprint(raw))) == nil
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		duration, err := time.ParseDuration(fmt.Sprint(raw))
		v.SetInt(int64(duration))
		return err == nil
	}
	value := reflect.ValueOf(raw)
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		ok = value.CanInt() || value.CanUint() && value.Uint() <= math.MaxInt64
	case reflect.Float64:
		ok = value.CanFloat() || value.CanInt() || value.CanUint()
	default:
		ok = value.Kind() == v.Kind()
	}
	if ok {
		v.Set(value.Convert(v.Type()))
	}
	return ok
}

// scalarValue returns a string, bool, int64, uint64 or float64.
func scalarValue(n ast.Node) (any, bool) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode:
		return n.Value, true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.BoolNode:
		return n.Value, true
	}
	return nil, false
}

// wrongType records that a node does not fit. The text is shown only where one
// word was wanted: in place of a list or a mapping it may be anything.
func (d *decoder) wrongType(n ast.Node, v reflect.Value, path string) {
	want, remedy := wanted(v)
	found := foundKind(n)
	if _, ok := scalarValue(n); ok && isScalar(v) {
		found += " " + quote(n.GetToken().Value)
	}
	d.doc.spoil(path, nodePosition(n), "found "+found+", not "+want, remedy)
}
