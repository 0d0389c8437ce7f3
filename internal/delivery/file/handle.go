package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// mode keeps others from reading what may be personal data.
const mode = 0o600

// tailChunk is how much is read at once while looking for the last newline.
const tailChunk = 64 << 10

// handle is an open file; tests put failing ones in its place.
type handle interface {
	Write(p []byte) (int, error)
	Sync() error
	Truncate(size int64) error
	Close() error
	// Size gives the length now.
	Size() (int64, error)
	// Current says whether the path still leads to this file.
	Current() bool
}

// regular is a regular file of the operating system.
type regular struct {
	*os.File
	path string
}

func (f regular) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f regular) Current() bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.path)
	return err == nil && os.SameFile(mine, there)
}

// openFile opens or makes the file, makes its name durable, and mends its end.
func openFile(path string) (handle, error) {
	opened, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, mode) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, err
	}
	f := regular{opened, path}
	if err := f.prepare(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f regular) prepare() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is a %s and no regular file; the path %q means standard output", kindOf(info.Mode()), Stdout)
	}
	// Each time, since a crash may have come between making and syncing.
	if err := syncDirectory(filepath.Dir(f.path)); err != nil {
		return err
	}
	return f.mend(info.Size())
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

func syncDirectory(path string) error {
	dir, err := os.Open(path) //nolint:gosec // The operator names the file.
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// mend deals with what stands after the last newline.
func (f regular) mend(size int64) error {
	tail, err := f.tail(size)
	if err != nil {
		return fmt.Errorf("read its end: %w", err)
	}
	switch {
	case len(tail) == 0:
		return nil
	case json.Valid(tail):
		if _, err := f.Write([]byte{'\n'}); err != nil {
			return fmt.Errorf("end its last line: %w", err)
		}
	case tail[0] == '{' || len(bytes.Trim(tail, "\x00")) == 0:
		// A torn line of ours, or the zeros that some file systems leave
		// where a write did not reach the disk.
		if err := f.Truncate(size - int64(len(tail))); err != nil {
			return fmt.Errorf("cut off a torn line: %w", err)
		}
	default:
		return errors.New("it does not end in a line of graphsubd; give the sink a path of its own")
	}
	return f.Sync()
}

// tail gives what stands after the last newline.
func (f regular) tail(size int64) ([]byte, error) {
	var tail []byte
	for end := size; end > 0; {
		start := max(0, end-tailChunk)
		chunk := make([]byte, end-start)
		if _, err := f.ReadAt(chunk, start); err != nil {
			return nil, err
		}
		newline := bytes.LastIndexByte(chunk, '\n')
		tail = append(chunk[newline+1:], tail...)
		if newline >= 0 {
			break
		}
		end = start
	}
	return tail, nil
}
