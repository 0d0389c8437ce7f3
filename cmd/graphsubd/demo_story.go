package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

// demoStory is a slog.Handler that tells a person what the log says, one short
// line for each step, with the reason for it. What it has no words for is told
// as it is when it is a warning, and left out otherwise.
type demoStory struct {
	out   *lockedWriter
	began time.Time
	attrs map[string]any
}

// lockedWriter keeps lines whole.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func newDemoStory(w io.Writer) *demoStory {
	return &demoStory{out: &lockedWriter{w: w}, began: time.Now(), attrs: map[string]any{}}
}

// Enabled is true from Info on.
func (s *demoStory) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs keeps what a logger was given for all its lines.
func (s *demoStory) WithAttrs(attrs []slog.Attr) slog.Handler {
	merged := maps.Clone(s.attrs)
	for _, attr := range attrs {
		merged[attr.Key] = attr.Value.Any()
	}
	return &demoStory{out: s.out, began: s.began, attrs: merged}
}

// WithGroup is not used by anything in the demo.
func (s *demoStory) WithGroup(string) slog.Handler { return s }

// Handle writes one line.
func (s *demoStory) Handle(_ context.Context, record slog.Record) error {
	said := maps.Clone(s.attrs)
	record.Attrs(func(attr slog.Attr) bool {
		said[attr.Key] = attr.Value.Resolve().Any()
		return true
	})
	what, why := tell(record, said)
	if what == "" {
		return nil
	}
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	_, err := fmt.Fprintf(s.out.w, "%6.1fs  %-10s  %-14v  %s\n", record.Time.Sub(s.began).Seconds(), what, nameOf(said), why)
	return err
}

func nameOf(said map[string]any) any {
	if name, ok := said["subscription"]; ok {
		return name
	}
	return ""
}

// tell gives the verb and the explanation of a line of the log.
func tell(record slog.Record, said map[string]any) (what, why string) {
	lives := func() string {
		expires, _ := said["expires_at"].(time.Time)
		renew, _ := said["renew_at"].(time.Time)
		return fmt.Sprintf("lives %s, to be renewed in %s", graphTime(expires.Sub(record.Time)), graphTime(renew.Sub(record.Time)))
	}
	switch record.Message {
	case "started":
		return "started", fmt.Sprintf("receives at %v, leads as %v", said["public_address"], said["holder"])
	case "leading":
		return "leads", fmt.Sprintf("term %v: %v subscriptions wanted, %v known", said["term"], said["wishes"], said["records"])
	case "subscription created":
		return "created", "both URLs answered Graph's handshake; " + lives()
	case "subscription adopted":
		return "adopted", "it was there already; " + lives()
	case "subscription renewed":
		return "renewed", lives()
	case "subscription lost":
		return "lost", "Graph answered 404 to the renewal: gone, never to be patched again; a gap is opened"
	case "subscription recreated":
		return "recreated", fmt.Sprintf("the gap of %v is closed and told to the sinks; %s",
			graphTime(time.Duration(number(said["gap_seconds"])*float64(time.Second))), lives())
	case "call failed, trying again":
		retry, _ := said["retry_at"].(time.Time)
		return fmt.Sprint(said["reason"]), fmt.Sprintf("%v was refused; tries again in %v, with time to spare",
			said["operation"], retry.Sub(record.Time).Round(100*time.Millisecond))
	case "demo":
		return fmt.Sprint(said["scene"]), fmt.Sprint(said["text"])
	}
	if record.Level >= slog.LevelWarn {
		return strings.ToLower(record.Level.String()), fmt.Sprint(record.Message, ": ", said["error"])
	}
	return "", ""
}

func number(value any) float64 {
	n, _ := value.(float64)
	return n
}

// graphTime says a stretch of time as Graph sees it, beside our own.
func graphTime(d time.Duration) string {
	return fmt.Sprintf("%.1fh (%.1fs here)", d.Hours()*demoScale, d.Seconds())
}
