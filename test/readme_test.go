package test_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commands lists the lines of the code blocks in a Markdown text, without prompts and remarks.
func commands(markdown string) []string {
	var found []string
	inside := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		command, _, _ := strings.Cut(strings.TrimPrefix(line, "$ "), " #")
		if inside && command != "" {
			found = append(found, strings.TrimSpace(command))
		}
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents lists the Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestReadmeTestsAsCI checks that the test command a newcomer reads is the one that CI runs.
func TestReadmeTestsAsCI(t *testing.T) {
	var onCI string
	for line := range strings.Lines(read(t, "../.ci/run")) {
		if command, ok := strings.CutPrefix(line, "part test "); ok {
			onCI = strings.TrimSpace(command)
		}
	}
	if onCI == "" {
		t.Fatal(".ci/run has no part named test")
	}
	if told := commands(read(t, "../README.md")); !slices.Contains(told, onCI) {
		t.Errorf("CI tests by %q; the README's commands are %q", onCI, told)
	}
}

// TestMakeTargetsExist checks that every make command in a document names a target of the Makefile.
func TestMakeTargetsExist(t *testing.T) {
	targets := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		targets[m[1]] = true
	}
	quoted := regexp.MustCompile("`(?:[A-Z]+=[^ `]+ )*make ([a-z-]+)[^`]*`")
	plain := regexp.MustCompile(`^(?:[A-Z]+=\S+ )*make ([a-z-]+)`)
	named := 0
	for _, document := range documents(t) {
		text := read(t, document)
		used := quoted.FindAllStringSubmatch(text, -1)
		for _, command := range commands(text) {
			used = append(used, plain.FindAllStringSubmatch(command, -1)...)
		}
		for _, m := range used {
			named++
			if !targets[m[1]] {
				t.Errorf("%s names make %s, which does not exist", document, m[1])
			}
		}
	}
	if named == 0 {
		t.Error("no document names a make command")
	}
}

// TestLinksLead checks that every relative link in a document leads to a file.
func TestLinksLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)
	for _, document := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, document), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", document, m[1])
			}
		}
	}
}
