package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Stdout as a path means the given writer.
const Stdout = "-"

// Config is the configuration of a sink.
type Config struct {
	// Path is the file to append to, made with mode 0600 where it does not
	// exist; its directory must exist. Stdout means Writer instead.
	Path string
	// Writer takes the lines when Path is Stdout.
	Writer io.Writer
}

// Sink appends events to one file. It is for one goroutine.
type Sink struct {
	path   string
	writer io.Writer
	// torn says that the writer took part of a line last time.
	torn bool

	file handle // nil while it is not open
	open func(path string) (handle, error)
}

// New checks the configuration. The file is opened by the first Send, so that
// a full or missing disk is retried like any other failure.
func New(cfg Config) (*Sink, error) {
	switch {
	case cfg.Path == "":
		return nil, errors.New("file sink: no path")
	case cfg.Path == Stdout && cfg.Writer == nil:
		return nil, errors.New("file sink: no writer for standard output")
	case cfg.Path == Stdout:
		return &Sink{path: cfg.Path, writer: cfg.Writer}, nil
	}
	return &Sink{path: cfg.Path, open: openFile}, nil
}

// Send appends the events in their order. An event that cannot be written as
// JSON fails alone; any other failure is that of the whole batch.
func (s *Sink) Send(ctx context.Context, events []event.Event) []error {
	results := make([]error, len(events))
	if err := ctx.Err(); err != nil {
		return fail(results, err)
	}
	var lines bytes.Buffer
	for i := range events {
		results[i] = appendLine(&lines, &events[i])
	}
	if lines.Len() == 0 {
		return results
	}
	write := s.append
	if s.writer != nil {
		write = s.print
	}
	if err := write(lines.Bytes()); err != nil {
		return fail(results, err)
	}
	return results
}

// Close ends the sink. Everything that counts as delivered is synced already.
func (s *Sink) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if err != nil {
		return fmt.Errorf("close event file: %w", err)
	}
	return nil
}

// fail gives err to every event that has none of its own.
func fail(results []error, err error) []error {
	for i := range results {
		if results[i] == nil {
			results[i] = err
		}
	}
	return results
}

// appendLine adds one event, or nothing.
func appendLine(lines *bytes.Buffer, e *event.Event) error {
	start := lines.Len()
	if err := event.WriteJson(e, lines); err != nil {
		lines.Truncate(start)
		return fmt.Errorf("encode event: %w", err)
	}
	if bytes.IndexByte(lines.Bytes()[start:], '\n') >= 0 {
		lines.Truncate(start)
		return errors.New("encode event: its data holds a line break")
	}
	lines.WriteByte('\n')
	return nil
}

// print writes to the writer. A line that was cut off by a failure is ended
// first, so that it spoils no other.
func (s *Sink) print(lines []byte) error {
	if s.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := s.writer.Write(lines)
	if n > 0 {
		s.torn = lines[n-1] != '\n'
	}
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// append writes to the file and syncs it.
func (s *Sink) append(lines []byte) error {
	size, err := s.ready()
	if err != nil {
		return err
	}
	if _, err = s.file.Write(lines); err != nil {
		err = fmt.Errorf("write event file: %w", err)
	} else if err = s.file.Sync(); err != nil {
		err = fmt.Errorf("sync event file: %w", err)
	}
	if err == nil {
		return nil
	}
	if cut := s.file.Truncate(size); cut != nil {
		err = errors.Join(err, fmt.Errorf("cut event file back: %w", cut))
	}
	return errors.Join(err, s.Close())
}

// ready opens the file where needed and gives its size. A file that is no
// longer the one at its path would take events that nobody finds.
func (s *Sink) ready() (size int64, err error) {
	if s.file != nil && !s.file.Current() {
		if err := s.Close(); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		if s.file, err = s.open(s.path); err != nil {
			s.file = nil
			return 0, fmt.Errorf("open event file: %w", err)
		}
	}
	if size, err = s.file.Size(); err != nil {
		return 0, errors.Join(fmt.Errorf("read event file: %w", err), s.Close())
	}
	return size, nil
}
