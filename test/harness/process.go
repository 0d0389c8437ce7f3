package harness

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Binary is the built graphsubd, which make names in GRAPHSUBD_BIN.
func Binary(t T) string {
	t.Helper()
	path := os.Getenv("GRAPHSUBD_BIN")
	if path == "" {
		t.Fatal("GRAPHSUBD_BIN is not set: use make, which builds the binary first")
	}
	return path
}

// Process is one graphsubd.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended

	t   T
	out *bufio.Reader

	mu  sync.Mutex
	log bytes.Buffer // standard error; guarded by mu
}

// Start runs graphsubd until the test ends, or until it is stopped before.
func Start(t T, args ...string) *Process {
	t.Helper()
	return startAt(t, 0, args...)
}

// startAt runs graphsubd with a clock that differs from the machine's.
func startAt(t T, clock time.Duration, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, Done: make(chan struct{})}
	p.Cmd = exec.CommandContext(context.WithoutCancel(t.Context()), Binary(t), args...)
	p.Cmd.Stderr = p
	out, err := p.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if clock != 0 {
		err = startWithClock(p.Cmd, clock)
	} else {
		err = p.Cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { // joined by Kill, at the latest in the cleanup
		_ = p.Cmd.Wait() // the state tells how it ended
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", args[0], p.Logged())
		}
	})
	return p
}

// Write takes standard error.
func (p *Process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

// Logged is what the process wrote to standard error so far.
func (p *Process) Logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Kill ends the process at once, as an operator's worst day does.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended by itself
	<-p.Done
}

// Ask asks the process to end, and does not wait for it.
func (p *Process) Ask() {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// Terminate asks the process to end and gives how long that took and its exit
// code.
func (p *Process) Terminate() (time.Duration, int) {
	p.t.Helper()
	asked := time.Now()
	p.Ask()
	select {
	case <-p.Done:
	case <-time.After(30 * time.Second):
		p.t.Fatal("the process does not end")
	}
	return time.Since(asked), p.Cmd.ProcessState.ExitCode()
}
