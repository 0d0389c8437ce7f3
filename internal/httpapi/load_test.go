package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/httpapi"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// pipes is a listener in memory, so that a real server runs in fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// serve runs the real server over pipes for the length of a test.
func (r *rig) serve(t *testing.T) *pipes {
	t.Helper()
	listener := newPipes()
	server := httpapi.NewServer(r, slog.New(slog.NewJSONHandler(r.log, nil)))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return listener
}

// send writes a request head and then whatever feed writes, and gives the
// status of the answer, 0 when none came.
func send(conn net.Conn, head string, feed func(io.Writer) error) int {
	status := make(chan int, 1)
	go func() {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
		// The server may have ended its side while the feed still writes.
		_ = conn.Close()
	}()
	if _, err := io.WriteString(conn, head); err == nil && feed != nil {
		_ = feed(conn)
	}
	return <-status
}

func head(path, headers string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: hooks.contoso.invalid\r\nContent-Type: application/json\r\n" + headers + "\r\n"
}

const (
	chunked = "Transfer-Encoding: chunked\r\n"
	huge    = 64 << 20
)

// feedChunks writes total bytes of one chunked JSON string in chunks.
func feedChunks(total int) func(io.Writer) error {
	chunk := fmt.Sprintf("10000\r\n%s\r\n", strings.Repeat(" ", 1<<16))
	return func(w io.Writer) error {
		for range total >> 16 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return err
			}
		}
		return nil
	}
}

func caseA32(t *testing.T) {
	t.Run("sizes", a32Sizes)
	t.Run("too large", a32TooLarge)
	t.Run("slow", a32Slow)
	t.Run("memory", a32Memory)
}

func a32Sizes(t *testing.T) {
	r := newRig(t, nil)
	for _, size := range []int{900 << 10, 1536 << 10, 4 << 20} {
		rich := map[string]any{"encryptedContent": map[string]any{"data": strings.Repeat("A", size)}}
		if rows := r.accept(t, r.path(), collection(r.item(t, rich))); len(forwarded(rows)) != 1 {
			t.Errorf("%d bytes: %d rows", size, len(rows))
		}
	}
	items := make([]string, 20_000)
	for i := range items {
		items[i] = r.item(t, map[string]any{"resource": fmt.Sprintf("Users/u1/Messages/m%d", i), "resourceData": nil})
	}
	if rows := r.accept(t, r.path(), collection(items...)); len(forwarded(rows)) != len(items) {
		t.Errorf("%d of %d rows", len(rows), len(items))
	}
}

func a32TooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		listener := r.serve(t)
		if got := send(listener.dial(), head(r.path(), fmt.Sprintf("Content-Length: %d\r\n", huge)), nil); got != http.StatusRequestEntityTooLarge {
			t.Errorf("announced: %d, want 413 at once", got)
		}
		if got := send(listener.dial(), head(r.path(), chunked), feedChunks(huge)); got != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked: %d, want 413", got)
		}
		if got := r.verdicts(t, "refused", notification.ReasonMalformed); got != 2 {
			t.Errorf("%v refusals counted, want 2", got)
		}
		// A length that promises more than comes is cut by the time-out.
		body := collection(r.item(t, nil))
		lying := head(r.path(), fmt.Sprintf("Content-Length: %d\r\n", len(body)+100)) + body
		if got := send(listener.dial(), lying, nil); got != http.StatusRequestTimeout {
			t.Errorf("length too long: %d, want 408", got)
		}
		if rows := r.inbox.take(); len(rows) != 0 {
			t.Errorf("refused bodies left %d rows", len(rows))
		}
	})
}

func a32Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		listener := r.serve(t)
		start := time.Now()
		trickle := func(w io.Writer) error {
			for range huge {
				time.Sleep(time.Second)
				if _, err := io.WriteString(w, "1\r\n \r\n"); err != nil {
					return err
				}
			}
			return nil
		}
		if got := send(listener.dial(), head(r.path(), chunked), trickle); got != http.StatusRequestTimeout && got != 0 {
			t.Errorf("answer %d, want 408 or a cut", got)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("a slow body held a request for %s", took)
		}
		// A handshake does not wait for a body that never comes.
		start = time.Now()
		if got := send(listener.dial(), head(r.path()+"?validationToken=tok", "Content-Length: 9\r\n"), nil); got != http.StatusOK {
			t.Errorf("handshake: %d", got)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the handshake took %s", took)
		}
	})
}

// a32Memory has 100 clients that each send just under the limit of 64 MiB
// announced in chunks, and then stall.
func a32Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, sent, budget = 100, 7 << 20, 32 << 20
		r := newRig(t, func(c *httpapi.Config) { c.MaxBuffered = budget })
		listener := r.serve(t)
		before := heap()
		var wait sync.WaitGroup
		statuses := make([]int, clients)
		for i := range clients {
			wait.Go(func() {
				statuses[i] = send(listener.dial(), head(r.path(), chunked), feedChunks(sent))
			})
		}
		synctest.Wait()
		// What the sending side holds is counted in; it is little.
		if grown := heap() - before; grown > 2*budget {
			t.Errorf("%d clients hold %d MiB, the budget is %d", clients, grown>>20, budget>>20)
		}
		wait.Wait()
		count := map[int]int{}
		for _, status := range statuses {
			count[status]++
		}
		if count[http.StatusServiceUnavailable]+count[http.StatusRequestTimeout]+count[0] != clients || count[http.StatusServiceUnavailable] < clients/2 {
			t.Errorf("answers %v, want mostly 503 and a few cut", count)
		}
		if got := r.verdicts(t, "refused", "throttled"); got < clients/2 {
			t.Errorf("%v counted as throttled", got)
		}
		// All of the budget came back.
		if rows := r.accept(t, r.path(), collection(r.item(t, map[string]any{"x": strings.Repeat("A", 4<<20)}))); len(rows) != 1 {
			t.Errorf("rows %d", len(rows))
		}
	})
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
