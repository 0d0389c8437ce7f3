package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// T is the part of *testing.T that the harness needs. Main gives one to a
// program.
type T interface {
	Helper()
	Context() context.Context
	TempDir() string
	Cleanup(do func())
	Failed() bool
	Logf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Eventually waits until check is nil, and fails with its last error when that
// takes too long.
func Eventually(t T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.After(within)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not within %v: %v", within, err)
		case <-look.C:
		}
	}
}

// Main runs a program with a T of its own. A failure is written to standard
// error; cleanups run in any case. It gives the exit code.
func Main(run func(t T)) (code int) {
	m := &program{}
	defer func() {
		for _, cleanup := range slices.Backward(m.cleanups) {
			cleanup()
		}
	}()
	defer func() {
		if value := recover(); value != nil {
			err, ok := value.(error)
			if !ok || !errors.Is(err, errFailed) {
				panic(value)
			}
			code = 1
		}
	}()
	run(m)
	return 0
}

// errFailed ends a program that has said why.
var errFailed = errors.New("failed")

type program struct {
	cleanups []func()
	failed   bool
}

func (m *program) Helper()                  {}
func (m *program) Context() context.Context { return context.Background() }
func (m *program) Cleanup(do func())        { m.cleanups = append(m.cleanups, do) }
func (m *program) Failed() bool             { return m.failed }

func (m *program) TempDir() string {
	dir, err := os.MkdirTemp("", "graphsubd-bench-")
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (m *program) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (m *program) Fatal(args ...any) { m.Fatalf("%s", fmt.Sprint(args...)) }

func (m *program) Fatalf(format string, args ...any) {
	m.failed = true
	m.Logf(format, args...)
	panic(errFailed)
}
