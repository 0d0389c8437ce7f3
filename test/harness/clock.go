package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// errNoClock says that a clock cannot be set wrong here.
var errNoClock = errors.New("a process with a wrong clock needs Linux on amd64, and a vDSO with __vdso_clock_gettime")

// startWithClock starts a program whose wall clock differs from the machine's.
// Its monotonic clock does not, as with a machine whose clock is set wrong.
//
// A Go program asks the kernel's vDSO for the time. The program is stopped
// before its first instruction, and that function is replaced, in its own copy
// of the page, by one that adds the difference.
func startWithClock(cmd *exec.Cmd, difference time.Duration) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return errNoClock
	}
	runtime.LockOSThread() // only the thread that started it may trace it
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for the program to be loaded: %w", err)
	}
	if err := setClock(pid, difference); err != nil {
		return errors.Join(err, cmd.Process.Kill(), syscall.PtraceDetach(pid))
	}
	return syscall.PtraceDetach(pid)
}

func setClock(pid int, difference time.Duration) error {
	from, size, err := vdso(pid)
	if err != nil {
		return err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	page := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(memory, from, size), page); err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(page))
	if err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" {
			_, err := syscall.PtracePokeText(pid, uintptr(from)+uintptr(symbol.Value), clockCode(difference))
			return err
		}
	}
	return errNoClock
}

// clockCode is clock_gettime(clock in edi, result at rsi) as a call of the
// kernel, with the seconds of CLOCK_REALTIME, which is 0, moved.
func clockCode(difference time.Duration) []byte {
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi
		0x75, 7, // jne over the addition
		0x48, 0x81, 0x06, // add qword [rsi], the four bytes below
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(int32(difference/time.Second)))
	return append(code, 0xc3) // ret
}

// vdso says where the kernel put its functions.
func vdso(pid int) (from, size int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			var to int64
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			return from, to - from, err
		}
	}
	return 0, 0, errNoClock
}
