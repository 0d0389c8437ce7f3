package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestKindsOfDisks(t *testing.T) {
	for magic, want := range map[int64]string{
		0x6969: diskNetwork, 0xff534d42: diskNetwork, 0xfe534d42: diskNetwork, 0x517b: diskNetwork, 0x01021997: diskNetwork,
		0x65735546: diskNetwork, 0x00c36400: diskNetwork, 0x01021994: diskMemory, 0x858458f6: diskMemory, 0x794c7630: diskOverlay,
		0xef53: diskLocal, 0x58465342: diskLocal, 0x9123683e: diskLocal, 0x2fc12fc1: diskLocal,
	} {
		if kind, name := diskOf(magic); kind != want || (name == "") != (want == diskLocal) {
			t.Errorf("%#x is %q, %q, want %q", magic, kind, name, want)
		}
	}
	// Some machines give 32 bits with their sign.
	if kind, _ := diskOf(int64(-11317950)); kind != diskNetwork { // 0xff534d42
		t.Errorf("SMB with a sign is %q", kind)
	}
}

// A store in memory is warned of, one on a disk is not.
func TestDiskIsLookedAt(t *testing.T) {
	const memory = "/dev/shm"
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memory, &stat); err != nil || stat.Type != 0x01021994 {
		t.Fatalf("%s is no tmpfs: %v", memory, err)
	}
	here := t.TempDir()
	if err := syscall.Statfs(here, &stat); err != nil {
		t.Fatal(err)
	}
	kind, _ := diskOf(stat.Type)
	for _, c := range []struct {
		path string
		warn bool
	}{{filepath.Join(memory, "graphsubd-none.db"), true}, {filepath.Join(here, "store.db"), kind != diskLocal}} {
		var log bytes.Buffer
		if err := checkDisk(t.Context(), c.path, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "level=WARN"); got != c.warn {
			t.Errorf("%s: log %q", c.path, log.String())
		}
	}
	// A link is followed: what counts is where the file is.
	link := filepath.Join(t.TempDir(), "link.db")
	target := filepath.Join(memory, "graphsubd-disk-test.db")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(target) })
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := checkDisk(t.Context(), link, slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), "tmpfs") {
		t.Errorf("log %q, %v", log.String(), err)
	}
	if onBlockDevice(memory) {
		t.Error("a tmpfs is taken for a disk")
	}
}
