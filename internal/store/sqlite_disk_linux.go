package store

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The kinds of file systems by what becomes of a database on them.
const (
	diskLocal   = ""
	diskNetwork = "network" // locks, shared memory or syncs are not what they say
	diskMemory  = "memory"  // gone with the machine
	diskOverlay = "overlay" // gone with the container
)

// diskOf gives the kind of a file system by the number that statfs(2) names it
// with, and its name. FUSE is refused with the networks: most of it is sshfs,
// object stores and shared folders of a virtual machine.
func diskOf(magic int64) (kind, name string) {
	switch uint32(magic) { //nolint:gosec // The kernel's type is of 32 bits, sign-extended on some machines.
	case 0x6969:
		return diskNetwork, "NFS"
	case 0x517b, 0xff534d42, 0xfe534d42:
		return diskNetwork, "SMB"
	case 0x01021997:
		return diskNetwork, "9p"
	case 0x65735546:
		return diskNetwork, "FUSE"
	case 0x00c36400:
		return diskNetwork, "Ceph"
	case 0x5346414f, 0x6b414653:
		return diskNetwork, "AFS"
	case 0x0bd00bd0:
		return diskNetwork, "Lustre"
	case 0x01161970:
		return diskNetwork, "GFS2"
	case 0x7461636f:
		return diskNetwork, "OCFS2"
	case 0x47504653:
		return diskNetwork, "GPFS"
	case 0x73757245:
		return diskNetwork, "Coda"
	case 0x01021994:
		return diskMemory, "tmpfs"
	case 0x858458f6:
		return diskMemory, "ramfs"
	case 0x794c7630:
		return diskOverlay, "overlay"
	}
	return diskLocal, ""
}

// checkDisk refuses a network file system and warns of one that does not
// outlive the machine or the container.
func checkDisk(ctx context.Context, path string, logger *slog.Logger) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find store: %w", err)
	}
	place, err := filepath.EvalSymlinks(abs)
	if err != nil {
		place = filepath.Dir(abs) // it will be made there
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(place, &stat); err != nil {
		return unavailable("look at the store's file system", err)
	}
	kind, name := diskOf(stat.Type)
	if name == "FUSE" && onBlockDevice(place) {
		return nil
	}
	switch kind {
	case diskNetwork:
		return fmt.Errorf("%w: %s is on %s, where SQLite can lose data: use a disk of this machine, or store.postgres",
			ErrUnsafe, path, name)
	case diskMemory:
		logger.WarnContext(ctx, "the store is lost when this machine restarts: use a disk", "path", path, "file_system", name)
	case diskOverlay:
		logger.WarnContext(ctx, "the store is lost with this container: mount a volume", "path", path, "file_system", name)
	}
	return nil
}

// onBlockDevice says whether a path is on a FUSE file system over a disk of
// this machine, as that for NTFS is.
func onBlockDevice(path string) bool {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	longest, kind := -1, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		before, after, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !found || len(fields) < 5 {
			continue
		}
		mount := fields[4]
		inside := path == mount || strings.HasPrefix(path, strings.TrimSuffix(mount, "/")+"/")
		if inside && len(mount) >= longest {
			longest = len(mount)
			kind, _, _ = strings.Cut(after, " ")
		}
	}
	return kind == "fuseblk"
}
