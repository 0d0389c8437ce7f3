package harness

import (
	"context"
	"io"
	"net"
	"sync"
)

// Network is the way from one process to others, at an address of its own. A
// connection goes to the first of its ends that takes it, each time from
// another one on, as a load balancer does.
type Network struct {
	Address string

	ends []string

	mu   sync.Mutex
	next int                   // guarded by mu
	lost bool                  // guarded by mu
	open map[net.Conn]struct{} // guarded by mu
}

// NewNetwork listens on a free address.
func NewNetwork(t T, ends ...string) *Network {
	t.Helper()
	return NewNetworkAt(t, "127.0.0.1:0", ends...)
}

// NewNetworkAt listens on an address.
func NewNetworkAt(t T, address string, ends ...string) *Network {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &Network{Address: listener.Addr().String(), ends: ends, open: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { n.bridge(ctx, near) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		n.closeAll()
		running.Wait()
	})
	return n
}

// Cut lets every connection be as it is and takes new ones, and carries
// nothing any more.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = true
}

// Mend ends a Cut. Connections that lost something are closed.
func (n *Network) Mend() {
	n.mu.Lock()
	n.lost = false
	n.mu.Unlock()
	n.closeAll()
}

func (n *Network) closeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for connection := range n.open {
		_ = connection.Close()
	}
}

// dial connects to an end that takes it.
func (n *Network) dial(ctx context.Context) (far net.Conn, err error) {
	n.mu.Lock()
	first := n.next
	n.next++
	n.mu.Unlock()
	for i := range n.ends {
		far, err = (&net.Dialer{}).DialContext(ctx, "tcp", n.ends[(first+i)%len(n.ends)])
		if err == nil {
			return far, nil
		}
	}
	return nil, err
}

// bridge carries both ways until either side ends, or the test does.
func (n *Network) bridge(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := n.dial(ctx)
	if err != nil {
		return
	}
	n.track(ctx, near, far)
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		copying.Go(func() {
			_, _ = io.Copy(wire{n, pair[0]}, pair[1])
			_, _ = near.Close(), far.Close()
		})
	}
	copying.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, near)
	delete(n.open, far)
}

func (n *Network) track(ctx context.Context, connections ...net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, connection := range connections {
		n.open[connection] = struct{}{}
		if ctx.Err() != nil {
			_ = connection.Close()
		}
	}
}

// wire is one direction of a connection.
type wire struct {
	network *Network
	to      io.Writer
}

// Write carries text, or loses it after a cut.
func (w wire) Write(text []byte) (int, error) {
	w.network.mu.Lock()
	lost := w.network.lost
	w.network.mu.Unlock()
	if lost {
		return len(text), nil
	}
	return w.to.Write(text)
}
