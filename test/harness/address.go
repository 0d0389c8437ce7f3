package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// handed are the ports that FreeAddress gave.
var handed sync.Map //nolint:gochecknoglobals // tests that run beside each other share the machine's ports

// The ports that FreeAddress gives, below those that the system gives to whoever
// asks for any: between the moment in which one is found free and the one in
// which it is bound, nobody else gets it.
const firstPort, lastPort = 12_000, 30_000

// FreeAddress gives an address on loopback that was free a moment ago, and gives
// none twice.
func FreeAddress(t T) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, twice := handed.LoadOrStore(port, true); twice {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // somebody has it
		}
		_ = listener.Close()
		return listener.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}
