package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/delivery/file"
)

func makeEvent(tb testing.TB, id string) event.Event {
	tb.Helper()
	e := event.New()
	e.SetID(id)
	e.SetType("Microsoft.Graph.MessageCreated")
	e.SetSource("/tenants/t/applications/a")
	e.SetDataContentType(event.ApplicationJSON)
	e.DataEncoded = []byte(`{"filter":"a<b&c"}`)
	return e
}

func makeEvents(tb testing.TB, from, n int) []event.Event {
	tb.Helper()
	events := make([]event.Event, n)
	for i := range events {
		events[i] = makeEvent(tb, strconv.Itoa(from+i))
	}
	return events
}

func newSink(tb testing.TB, path string) *file.Sink {
	tb.Helper()
	sink, err := file.New(file.Config{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := sink.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return sink
}

// failures counts the errors of one Send.
func failures(results []error) int {
	n := 0
	for _, err := range results {
		if err != nil {
			n++
		}
	}
	return n
}

func mustSend(t *testing.T, sink *file.Sink, events []event.Event) {
	t.Helper()
	if err := errors.Join(sink.Send(t.Context(), events)...); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// ids reads the file back; every line must be a whole event.
func ids(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		t.Errorf("the file ends in %q", raw)
	}
	var found []string
	for line := range strings.Lines(string(raw)) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("line %q: %v", line, err)
			continue
		}
		found = append(found, e.ID())
	}
	return strings.Join(found, " ")
}

func assertIDs(t *testing.T, path, want string) {
	t.Helper()
	if got := ids(t, path); got != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
}

func TestAppendsInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	sink := newSink(t, path)
	mustSend(t, sink, makeEvents(t, 0, 5))
	mustSend(t, sink, makeEvents(t, 5, 3))
	mustSend(t, sink, nil)
	assertIDs(t, path, "0 1 2 3 4 5 6 7")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(raw, []byte(`"data":{"filter":"a<b&c"}`)) {
		t.Errorf("data is not kept as it came: %s, %v", raw, err)
	}
}

func TestMendsTheEnd(t *testing.T) {
	whole := `{"specversion":"1.0","id":"0","source":"/s","type":"t"}`
	long := `{"specversion":"1.0","id":"9","data":"` + strings.Repeat("x", 200<<10)
	for name, test := range map[string]struct{ before, want string }{
		"empty":                     {"", "1"},
		"whole":                     {whole + "\n", "0 1"},
		"torn":                      {whole + "\n" + whole[:20], "0 1"},
		"torn in the first line":    {whole[:20], "1"},
		"torn and long":             {whole + "\n" + long, "0 1"},
		"only the newline is gone":  {whole + "\n" + whole, "0 0 1"},
		"one line, no newline":      {whole, "0 1"},
		"long, newline is gone":     {long + `","source":"/s","type":"t"}`, "9 1"},
		"zeros after a power cut":   {whole + "\n" + strings.Repeat("\x00", 100), "0 1"},
		"torn line ends in zeros":   {whole + "\n" + whole[:20] + "\x00\x00", "0 1"},
		"newline at a chunk's edge": {whole + "\n" + `{"a":"` + strings.Repeat("x", 64<<10-6), "0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.jsonl")
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			mustSend(t, newSink(t, path), makeEvents(t, 1, 1))
			assertIDs(t, path, test.want)
		})
	}
}

func TestForeignFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	const notes = "first line\nand a second without an end"
	if err := os.WriteFile(path, []byte(notes), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := failures(newSink(t, path).Send(t.Context(), makeEvents(t, 0, 2))); n != 2 {
		t.Errorf("%d of 2 failed", n)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != notes {
		t.Errorf("the file is now %q, %v", raw, err)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, "/dev/null", filepath.Join(dir, "missing", "events.jsonl")} {
		results := newSink(t, path).Send(t.Context(), makeEvents(t, 0, 2))
		if failures(results) != 2 {
			t.Errorf("%s: %v", path, results)
		}
	}
	if _, err := file.New(file.Config{}); err == nil {
		t.Error("no path is accepted")
	}
	if _, err := file.New(file.Config{Path: file.Stdout}); err == nil {
		t.Error("standard output without a writer is accepted")
	}
}

// TestDiskFull limits the size of files, so that the kernel takes part of a
// batch and then refuses, as a full disk does.
func TestDiskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	path := filepath.Join(t.TempDir(), "events.jsonl")
	sink := newSink(t, path)
	mustSend(t, sink, makeEvents(t, 0, 2))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	// Room for one whole event of the next three and a part of another.
	full := syscall.Rlimit{Cur: uint64(info.Size()) * 7 / 4, Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	results := sink.Send(t.Context(), makeEvents(t, 2, 3))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	for i, err := range results {
		if !errors.Is(err, syscall.EFBIG) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	assertIDs(t, path, "0 1")
	mustSend(t, sink, makeEvents(t, 2, 3))
	assertIDs(t, path, "0 1 2 3 4")
}

func TestFailedSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	sink := newSink(t, path)
	broken := errors.New("input/output error")
	opened := file.Watch(sink)
	mustSend(t, sink, makeEvents(t, 0, 2))
	opened.SyncError = broken
	results := sink.Send(t.Context(), makeEvents(t, 2, 2))
	for i, err := range results {
		if !errors.Is(err, broken) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	assertIDs(t, path, "0 1")
	opened.SyncError = nil
	mustSend(t, sink, makeEvents(t, 2, 2))
	assertIDs(t, path, "0 1 2 3")
	if opened.Opens != 2 {
		t.Errorf("opened %d times; a handle is not to be used after a failed sync", opened.Opens)
	}
	if opened.Syncs != 3 {
		t.Errorf("%d syncs for 3 batches", opened.Syncs)
	}
}

func TestFileThatCannotBeCutBackIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	sink := newSink(t, path)
	opened := file.Watch(sink)
	mustSend(t, sink, makeEvents(t, 0, 1))
	opened.WriteLimit, opened.TruncateError = 30, errors.New("input/output error")
	if n := failures(sink.Send(t.Context(), makeEvents(t, 1, 2))); n != 2 {
		t.Errorf("%d of 2 failed", n)
	}
	opened.WriteLimit, opened.TruncateError = 0, nil
	mustSend(t, sink, makeEvents(t, 1, 2))
	assertIDs(t, path, "0 1 2")
}

func TestFileThatWentAwayIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	sink := newSink(t, path)
	mustSend(t, sink, makeEvents(t, 0, 1))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	mustSend(t, sink, makeEvents(t, 1, 1))
	assertIDs(t, path+".1", "0")
	assertIDs(t, path, "1")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustSend(t, sink, makeEvents(t, 2, 1))
	assertIDs(t, path, "2")
}

func TestOneBadEventFailsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	events := makeEvents(t, 0, 3)
	events[1].DataEncoded = []byte("{\n}")
	results := newSink(t, path).Send(t.Context(), events)
	if results[0] != nil || results[1] == nil || results[2] != nil {
		t.Errorf("results %v", results)
	}
	assertIDs(t, path, "0 2")
}

func TestEndedContextWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if results := newSink(t, path).Send(ctx, makeEvents(t, 0, 2)); failures(results) != 2 || !errors.Is(results[0], context.Canceled) {
		t.Errorf("results %v", results)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// shortWriter takes so many bytes of one call and then fails.
type shortWriter struct {
	bytes.Buffer
	limit int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if w.limit > 0 && len(p) > w.limit {
		n, _ := w.Buffer.Write(p[:w.limit])
		return n, errors.New("broken pipe")
	}
	return w.Buffer.Write(p)
}

func TestStandardOutput(t *testing.T) {
	var out shortWriter
	sink, err := file.New(file.Config{Path: file.Stdout, Writer: &out})
	if err != nil {
		t.Fatal(err)
	}
	mustSend(t, sink, makeEvents(t, 0, 2))
	out.limit = 20
	if n := failures(sink.Send(t.Context(), makeEvents(t, 2, 2))); n != 2 {
		t.Errorf("%d of 2 failed", n)
	}
	out.limit = 0
	mustSend(t, sink, makeEvents(t, 2, 1))
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) != 4 || !json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[3])) || json.Valid([]byte(lines[2])) {
		t.Errorf("lines %q, want two, a torn one and a whole one", lines)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}
