package harness

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Trace attaches strace to a running process; stop detaches it.
func Trace(t T, p *Process, args ...string) (output string, stop func()) {
	t.Helper()
	output = filepath.Join(t.TempDir(), "trace")
	args = append([]string{"-f", "-s", "32", "-o", output, "-p", strconv.Itoa(p.Cmd.Process.Pid)}, args...)
	command := exec.CommandContext(t.Context(), "strace", args...)
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("strace: %v; tools/programs installs it", err)
	}
	lines := bufio.NewReader(said)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
		t.Fatalf("strace says %q, %v", line, err)
	}
	return output, func() {
		_ = command.Process.Signal(syscall.SIGINT)
		_, _ = lines.WriteTo(os.Stderr)
		_ = command.Wait() // it ends by the signal, or with the process
	}
}
