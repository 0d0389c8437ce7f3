package graphsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Transport calls handlers in process, by the host of the request's URL. It
// needs no socket, so that a client, the simulator and a notification endpoint
// can talk inside a testing/synctest bubble. Handlers see the URL's scheme.
type Transport struct {
	handlers map[string]http.Handler
	calls    sync.WaitGroup
}

// NewTransport makes a Transport for the given hosts.
func NewTransport(handlers map[string]http.Handler) *Transport {
	return &Transport{handlers: handlers}
}

// RoundTrip runs the handler in a goroutine of its own and gives its answer, or
// the context's error as soon as that ends. As with a real server, the handler
// goes on then, with its request's context ended; Wait joins it. A handler that
// panics with http.ErrAbortHandler closes the connection: io.ErrUnexpectedEOF.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	handler, ok := t.handlers[req.URL.Host]
	if !ok {
		return nil, fmt.Errorf("graphsim: no handler for host %q", req.URL.Host)
	}
	in, err := incoming(req)
	if err != nil {
		return nil, err
	}
	answered := make(chan *recorder, 1)
	ctx, cancel := context.WithCancel(req.Context())
	t.calls.Go(func() {
		defer cancel()
		answered <- call(handler, in.WithContext(ctx))
	})
	select {
	case w := <-answered:
		if w == nil {
			return nil, io.ErrUnexpectedEOF
		}
		return w.response(req), nil
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// Wait joins all handlers, also those whose clients have left.
func (t *Transport) Wait() { t.calls.Wait() }

// incoming is the request as a server would see it, its body read: the client
// may close it as soon as RoundTrip has returned.
func incoming(req *http.Request) (*http.Request, error) {
	in := req.Clone(req.Context())
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:1"
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	in.Body = http.NoBody
	if req.Body == nil {
		return in, nil
	}
	body, err := io.ReadAll(req.Body)
	if err = errors.Join(err, req.Body.Close()); err != nil {
		return nil, fmt.Errorf("graphsim: read the request: %w", err)
	}
	in.Body = io.NopCloser(bytes.NewReader(body))
	in.ContentLength = int64(len(body))
	return in, nil
}

// call gives nil where the handler aborted.
func call(handler http.Handler, r *http.Request) (w *recorder) {
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			w = nil
		}
	}()
	w = &recorder{header: http.Header{}}
	handler.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	return w
}

// recorder keeps an answer in memory. (That of net/http/httptest would bring
// its command-line flag into every program.)
type recorder struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

func (w *recorder) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: w.sent, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
