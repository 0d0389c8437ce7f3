package config

import (
	"reflect"
	"slices"
	"strings"
)

// taken are the sections that a running process takes over from a changed
// file. All others need a restart: they are bound to sockets, to the store, or
// to URLs that Graph holds.
func taken() []string {
	return []string{"apps", "tenants", "subscriptions", "sinks", "include", "admin"}
}

// NeedRestart names the sections in which next differs from c and that a
// running process cannot change, in the order of the file. Secrets count by
// their place and their value.
func (c *Config) NeedRestart(next *Config) []string {
	var sections []string
	// A listener reads its key pair anew by itself.
	former, latter := *c, *next
	former.Listen, latter.Listen = former.Listen.places(), latter.Listen.places()
	// A connection to the database reads the user and the password anew.
	former.Store, latter.Store = former.Store.place(), latter.Store.place()
	was, is := reflect.ValueOf(former), reflect.ValueOf(latter)
	for i := range was.NumField() {
		field := was.Type().Field(i)
		if !field.IsExported() || slices.Contains(taken(), sectionOf(field)) {
			continue
		}
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			sections = append(sections, sectionOf(field))
		}
	}
	return sections
}

func sectionOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
	return name
}
