package config

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// minSigningKeyBytes is the length of the HMAC's hash, below which a key is
// the weakest part.
const minSigningKeyBytes = 32

// loader is the work of one Load.
type loader struct {
	config *Config
	// main is the main file; all holds it first, then the included ones.
	main *source
	all  []*source
	// partial is set when an included file could not even be found.
	partial bool
}

// source is one file: its places, what was read from it and what of that
// every file may hold.
type source struct {
	*decoder
	fragment *fragment
}

// Load reads the configuration file at path and the files it includes. It
// fills in defaults, applies all rules, and, when the shape is right, reads
// the secrets. getenv looks up environment variables: those that hold secrets,
// and KUBERNETES_SERVICE_HOST, which is set inside a cluster.
//
// A configuration that may not be used is a *LoadError with all its faults.
func Load(path string, getenv func(string) string) (*Config, error) {
	rules, err := graph.LoadRules()
	if err != nil {
		return nil, err
	}
	l := &loader{config: &Config{}}
	n := newNames(rules)
	for _, step := range []func(){
		func() {
			l.read(path)
			l.check(n, getenv("KUBERNETES_SERVICE_HOST") != "")
		},
		func() { l.readSecrets(getenv) },
		l.checkSecrets,
	} {
		step()
		if faults := l.faults(); len(faults) > 0 {
			return nil, &LoadError{Faults: faults}
		}
	}
	l.merge()
	l.config.warnings = append(l.config.warnings, n.warnings()...)
	return l.config, nil
}

// faults returns those of all files, each file's by position.
func (l *loader) faults() []Fault {
	var all []Fault
	for _, s := range l.all {
		sortFaults(s.doc.faults)
		all = append(all, s.doc.faults...)
	}
	return all
}

// open decodes one file into target.
func (l *loader) open(path string, target any) *source {
	doc := newDocument(path, filepath.Dir(path))
	s := &source{}
	l.all = append(l.all, s)
	data, err := readFile(path, maxFileBytes)
	if err != nil {
		doc.spoiled[""] = true
		doc.faults = append(doc.faults, Fault{
			File: path, Problem: plainCause(err), Remedy: "name a file that this process may read",
		})
	}
	s.decoder = decode(doc, data, target)
	return s
}

func (l *loader) read(path string) {
	l.main = l.open(path, l.config)
	c := l.config
	l.main.fragment = &fragment{c.Apps, c.Tenants, c.Subscriptions, c.Sinks}
	seen := map[string]bool{filepath.Clean(path): true}
	for i, pattern := range c.Include {
		for _, file := range l.matches(l.main.doc.root().key("include").index(i), pattern) {
			if seen[file] {
				continue
			}
			seen[file] = true
			f := &fragment{}
			l.open(file, f).fragment = f
		}
	}
	slices.SortStableFunc(l.all[1:], func(a, b *source) int { return strings.Compare(a.doc.file, b.doc.file) })
}

// matches returns the files of one include pattern. Wildcards may stand in the
// file name only: then a directory that cannot be read is seen, and is not
// taken for one without files, which would end the subscriptions in it.
func (l *loader) matches(a place, pattern string) []string {
	if a.spoiled() {
		l.partial = true
		return nil
	}
	full := pattern
	if !filepath.IsAbs(full) {
		full = filepath.Join(l.main.doc.dir, pattern)
	}
	dir, base := filepath.Split(full)
	const wildcards = `*?[\`
	if _, err := filepath.Match(base, ""); err != nil || base == "" || strings.ContainsAny(filepath.Dir(pattern), wildcards) {
		l.partial = true
		a.fault(quote(pattern)+" is not a pattern for files of one directory", "write one such as subscriptions.d/*.yaml")
		return nil
	}
	if !strings.ContainsAny(base, wildcards) {
		return []string{full}
	}
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		l.partial = true
		a.fault("directory "+filepath.Clean(dir)+": "+plainCause(err), "create it, readable for this process, or remove the pattern")
		return nil
	}
	var files []string
	for _, entry := range entries {
		// As in a shell, a wildcard does not find hidden files.
		matched, err := filepath.Match(base, entry.Name())
		if err == nil && matched && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	if len(files) == 0 {
		l.config.warnings = append(l.config.warnings, a.String()+": pattern "+quote(pattern)+" finds no file")
	}
	return files
}

// check applies the rules that need no secret. Names are declared first, from
// all files, since a reference may go from any file to any other.
func (l *loader) check(n *names, inKubernetes bool) {
	for _, s := range l.all {
		n.declare(s.doc.root(), s.fragment)
	}
	n.allowMissing(l.partial || l.main.doc.root().key("include").spoiled())
	l.config.check(l.main.doc.root(), n, inKubernetes)
	for _, s := range l.all {
		s.fragment.check(s.doc.root(), n)
		checkAvailable(s.doc)
	}
}

func (l *loader) readSecrets(getenv func(string) string) {
	for _, s := range l.all {
		for _, one := range s.secrets {
			one.secret.value = one.secret.read(one.place, getenv)
		}
		for _, one := range s.caFiles {
			checkCAFile(one)
		}
	}
}

// checkSecrets applies the rules that need the values of secrets.
func (l *loader) checkSecrets() {
	root, c := l.main.doc.root(), l.config
	seen := map[string]int{}
	for i, key := range c.SigningKeys {
		a, text := root.key("signingKeys").index(i), key.Text()
		if len(text) < minSigningKeyBytes {
			a.fault("the key in "+key.Source()+" has "+strconv.Itoa(len(text))+" bytes",
				"use 32 or more random bytes; one line break at the end does not count")
		}
		if first, twice := seen[text]; twice {
			a.fault("is the same key as signingKeys["+strconv.Itoa(first)+"]", "remove one")
			continue
		}
		seen[text] = i
	}
	c.Admin.checkSecrets(root.key("admin"))
	for _, s := range l.all {
		for i := range s.fragment.Sinks {
			s.fragment.Sinks[i].checkSecrets(s.doc.root().key("sinks").index(i))
		}
	}
}

// checkCAFile reads a file of authorities to see now what would fail later.
func checkCAFile(a caFile) {
	data, err := readFile(a.path, maxSecretBytes)
	switch {
	case err != nil:
		a.place.fault("file "+a.path+": "+plainCause(err), "name a file that this process may read")
	case !x509.NewCertPool().AppendCertsFromPEM(data):
		a.place.fault("file "+a.path+" holds no certificate in PEM", "name a file with BEGIN CERTIFICATE in it")
	}
}

// merge adds what the included files hold.
func (l *loader) merge() {
	c := l.config
	for _, s := range l.all[1:] {
		c.Apps = append(c.Apps, s.fragment.Apps...)
		c.Tenants = append(c.Tenants, s.fragment.Tenants...)
		c.Subscriptions = append(c.Subscriptions, s.fragment.Subscriptions...)
		c.Sinks = append(c.Sinks, s.fragment.Sinks...)
	}
}

// warnings are about what is odd, and what is declared and not used.
func (n *names) warnings() []string {
	return slices.Concat(
		n.odd,
		n.apps.unused("has no tenant"),
		n.sinks.unused("gets no events: no subscription names it"),
	)
}
