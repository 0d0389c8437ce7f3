package config

import (
	"reflect"
	"strconv"
	"strings"
)

// position is a place in a file; both numbers count from 1.
type position struct {
	line, column int
}

// field is one key that stands in a file.
type field struct {
	path  string
	at    position
	value reflect.Value
}

// document is one file, decoded, with the places of what stands in it.
type document struct {
	// file is the path shown in faults; dir is what relative paths in it stand on.
	file, dir string
	// fields are the keys and list entries in the order of the file.
	fields []field
	// places finds a field's position by its path.
	places map[string]position
	// spoiled are the paths that have a fault from decoding. What the rules
	// say about them would only be its echo.
	spoiled map[string]bool
	faults  []Fault
}

func newDocument(file, dir string) *document {
	return &document{file: file, dir: dir, places: map[string]position{}, spoiled: map[string]bool{}}
}

func (d *document) add(path string, at position, value reflect.Value) {
	d.fields = append(d.fields, field{path, at, value})
	d.places[path] = at
}

// spoil records a fault of decoding: path can not be judged further.
func (d *document) spoil(path string, at position, problem, remedy string) {
	d.spoiled[path] = true
	d.faultAt(path, at, problem, remedy)
}

func (d *document) faultAt(path string, at position, problem, remedy string) {
	d.faults = append(d.faults, Fault{d.file, at.line, at.column, path, problem, remedy})
}

// root is the place of the whole document.
func (d *document) root() place {
	return place{doc: d}
}

// place is a key of a document, present or not.
type place struct {
	doc  *document
	path string
}

func (p place) key(name string) place {
	return place{p.doc, joinKey(p.path, name)}
}

func (p place) index(i int) place {
	return place{p.doc, joinIndex(p.path, i)}
}

// position is where the key stands, or else the nearest key around it.
func (p place) position() position {
	for path := p.path; path != ""; path = parent(path) {
		if at, ok := p.doc.places[path]; ok {
			return at
		}
	}
	return position{1, 1}
}

// spoiled tells whether decoding found a fault at the key or around it.
func (p place) spoiled() bool {
	for path := p.path; ; path = parent(path) {
		if p.doc.spoiled[path] {
			return true
		}
		if path == "" {
			return false
		}
	}
}

// fault records that a rule is broken, unless decoding found a fault there.
func (p place) fault(problem, remedy string) {
	if !p.spoiled() {
		p.doc.faultAt(p.path, p.position(), problem, remedy)
	}
}

// String returns file:line:column.
func (p place) String() string {
	at := p.position()
	return p.doc.file + ":" + strconv.Itoa(at.line) + ":" + strconv.Itoa(at.column)
}

func joinKey(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func joinIndex(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// parent drops the last key or index of a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
