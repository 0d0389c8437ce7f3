package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Client posts over connections that stay open. It does as little as it can for
// a POST, because it shares the machine with the server that is measured.
type Client struct {
	Address     string
	Target      Target
	Connections int
	// Batch is how many changes a POST tells of.
	Batch int
	// First counts changes, over all clients that share it.
	First *atomic.Int64
}

// Flood posts as fast as answers come and gives how many POSTs a second were
// answered 202. Any other answer is an error.
func (c *Client) Flood(ctx context.Context, length time.Duration) (rate float64, err error) {
	var answered atomic.Int64
	began := time.Now()
	err = c.each(ctx, func(conn *connection) error {
		for time.Since(began) < length {
			if err := conn.post(c.body()); err != nil {
				return err
			}
			answered.Add(1)
		}
		return nil
	})
	return float64(answered.Load()) / time.Since(began).Seconds(), err
}

// Pace posts at a rate that does not wait for answers, and gives how long each
// took from the moment when it was due, in order.
func (c *Client) Pace(ctx context.Context, length time.Duration, rate float64) (took []time.Duration, err error) {
	var next atomic.Int64
	var mu sync.Mutex
	began, wanted := time.Now(), int64(rate*length.Seconds())
	err = c.each(ctx, func(conn *connection) error {
		var own []time.Duration
		for n := next.Add(1); n <= wanted; n = next.Add(1) {
			due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			time.Sleep(time.Until(due))
			if err := conn.post(c.body()); err != nil {
				return err
			}
			own = append(own, time.Since(due))
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, own...)
		return nil
	})
	slices.Sort(took)
	return took, err
}

func (c *Client) body() []byte {
	return c.Target.Body(c.First.Add(int64(c.Batch))-int64(c.Batch), c.Batch)
}

// each runs work on every connection and gives their errors.
func (c *Client) each(ctx context.Context, work func(*connection) error) error {
	errs := make([]error, c.Connections)
	var group sync.WaitGroup
	for i := range c.Connections {
		group.Go(func() {
			conn, err := c.dial(ctx)
			if err == nil {
				err = errors.Join(work(conn), conn.Close())
			}
			errs[i] = err
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (c *Client) dial(ctx context.Context) (*connection, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ",
		c.Target.Path, c.Address)
	return &connection{Conn: conn, answers: bufio.NewReader(conn), head: head}, nil
}

// connection is one of the client's.
type connection struct {
	net.Conn
	answers *bufio.Reader
	head    []byte
	request []byte
}

// post sends a body and reads its answer; nil is a 202 without a body.
func (c *connection) post(body []byte) error {
	c.request = append(c.request[:0], c.head...)
	c.request = strconv.AppendInt(c.request, int64(len(body)), 10)
	c.request = append(append(c.request, "\r\n\r\n"...), body...)
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	status, err := c.answers.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 202 ")) {
		return fmt.Errorf("answered %q", status)
	}
	for {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
	}
}
