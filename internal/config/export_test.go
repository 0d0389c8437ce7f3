package config

// Decode fills target from data and returns the faults of the shape alone.
func Decode(file string, data []byte, target any) []Fault {
	doc := newDocument(file, ".")
	decode(doc, data, target)
	return doc.faults
}

// NotAvailable returns the keys this version refuses.
func NotAvailable() []string {
	var keys []string
	for _, l := range notAvailable() {
		keys = append(keys, l.key)
	}
	return keys
}

// Nearest gives tests the suggestion for a mistyped name.
func Nearest(name string, candidates []string) string {
	return nearest(name, candidates)
}
