package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// process is one program of the control plane.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	log bytes.Buffer // guarded by mu
}

// Write takes what the program says.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

// start runs a program until the test ends. What it said is shown when the
// test has failed.
func start(t harness.T, program string, args ...string) *process {
	t.Helper()
	p := &process{done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // should the test be killed
	started := make(chan error)
	go func() { // joined by stop
		// The kernel ties the death signal to the thread that started the
		// program, so this thread is kept until the program has ended.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its state says how it ended
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			const enough = 20_000
			t.Logf("%s said:\n%s", filepath.Base(program), p.log.Bytes()[max(0, p.log.Len()-enough):])
		}
	})
	return p
}

// stop ends the process, also one that is paused.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended by itself
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) signal(t harness.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ready waits until check is nil.
func (p *process) ready(t harness.T, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatal(errors.Join(exited(p), err))
		case <-ctx.Done():
			t.Fatalf("not ready within %v: %v", startTime, err)
		case <-look.C:
		}
	}
}
