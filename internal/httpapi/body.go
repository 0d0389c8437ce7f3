package httpapi

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"
)

// firstChunk holds most basic notifications.
const firstChunk = 4 << 10

// buffer is the body of one request. What it holds is taken from a budget that
// all requests share, as it grows: a client that announces much and sends
// little costs little.
type buffer struct {
	budget *semaphore.Weighted
	// chunks are first chunks that nobody uses. What a body tells is copied out
	// of its buffer when it is decoded.
	chunks *sync.Pool
	limit  int64
	data   []byte
	// complete says that the request's body was read to its end, so that the
	// connection can carry another request.
	complete bool
}

// release gives the bytes back to the budget.
func (b *buffer) release() {
	b.budget.Release(int64(cap(b.data)))
	b.drop()
}

// drop lets go of the bytes, which another request may use.
func (b *buffer) drop() {
	if cap(b.data) == firstChunk {
		b.chunks.Put((*[firstChunk]byte)(b.data[:firstChunk]))
	}
	b.data = nil
}

// read takes the body of a request, decompressed. Errors are errTooLarge,
// errEncoding, errUnread, errSlow, errGone and errBusy.
func (b *buffer) read(w http.ResponseWriter, req *http.Request) error {
	if req.ContentLength > b.limit {
		return errTooLarge
	}
	plain := http.MaxBytesReader(w, req.Body, b.limit)
	switch encoding := strings.ToLower(strings.Join(req.Header.Values("Content-Encoding"), ",")); encoding {
	case "", "identity":
		if err := b.fill(plain); err != nil {
			return unreadable(req, err)
		}
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(plain)
		if err != nil {
			return unreadable(req, err)
		}
		if err := b.fill(unzipped); err != nil {
			return unreadable(req, err)
		}
	default:
		return errEncoding
	}
	b.complete = true
	return nil
}

// fill reads to the end, up to the limit.
func (b *buffer) fill(from io.Reader) error {
	for {
		if len(b.data) == cap(b.data) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := from.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch {
		case int64(len(b.data)) > b.limit:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// grow doubles the buffer. One byte above the limit is enough to see that it
// is passed.
func (b *buffer) grow() error {
	size := min(max(firstChunk, 2*int64(cap(b.data))), b.limit+1)
	if !b.budget.TryAcquire(size - int64(cap(b.data))) {
		return errBusy
	}
	data := b.room(size)
	data = append(data, b.data...)
	b.drop()
	b.data = data
	return nil
}

// room gives an empty slice for so many bytes.
func (b *buffer) room(size int64) []byte {
	if size == firstChunk {
		if chunk, ok := b.chunks.Get().(*[firstChunk]byte); ok {
			return chunk[:0]
		}
	}
	return make([]byte, 0, size)
}

// unreadable gives the class of an error while reading a body. The original
// is kept out of the text where it might repeat bytes of the body.
func unreadable(req *http.Request, err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, errBusy):
		return err
	case errors.As(err, &tooLarge):
		return errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlow
	case req.Context().Err() != nil:
		return errGone
	}
	return fmt.Errorf("%w: %T", errUnread, err)
}

// leaveBody says that the rest of the body will not be read. Without it the
// server would wait for up to 256 KiB of it before it sends the answer.
func leaveBody(w http.ResponseWriter, req *http.Request) {
	if req.ProtoMajor == 1 && req.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}
