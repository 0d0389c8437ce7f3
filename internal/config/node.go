package config

import (
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// foundKind says what a node is, for a person.
func foundKind(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	case ast.NullType:
		return "nothing"
	default:
		return "something else"
	}
}

// wanted says what v holds and how to write it.
func wanted(v reflect.Value) (want, remedy string) {
	switch v.Interface().(type) {
	case time.Duration:
		return "a duration", "write a number with a unit: 1500ms, 90s, 15m or 24h"
	case Bytes:
		return "a size", "write a whole number with a unit: 64KiB, 8MiB or 20GiB"
	case Lifetime:
		return "a lifetime", "write max, or a duration above zero such as 24h"
	}
	switch v.Kind() {
	case reflect.Struct:
		return "a mapping", "write its keys, indented below it or as {key: value}"
	case reflect.Slice:
		return "a list", "write [a, b], or one entry a line after \"- \""
	case reflect.String:
		return "text", "put it in quotes"
	case reflect.Bool:
		return "true or false", "write true or false, without quotes"
	case reflect.Int, reflect.Int64:
		return "a whole number", "write a whole number, without quotes"
	default:
		return "a number", "write a number, without quotes"
	}
}

func keyText(key ast.MapKeyNode) string {
	if text, ok := key.(*ast.StringNode); ok {
		return text.Value
	}
	return key.GetToken().Value
}

func tokenPosition(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// nodePosition is where a node begins. A mapping in block style begins at its
// first key; its own token is a colon.
func nodePosition(n ast.Node) position {
	if mapping, ok := n.(*ast.MappingNode); ok && !mapping.IsFlowStyle && len(mapping.Values) > 0 {
		return tokenPosition(mapping.Values[0].Key.GetToken())
	}
	if one, ok := n.(*ast.MappingValueNode); ok {
		return tokenPosition(one.Key.GetToken())
	}
	return tokenPosition(n.GetToken())
}
