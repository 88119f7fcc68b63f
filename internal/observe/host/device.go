//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/result"
)

// DeviceOf returns the device that holds dir; an error for a filesystem without
// one (tmpfs, overlay, network).
func DeviceOf(dir string) (_ Device, err error) {
	defer wrap(&err, "find the block device of %s", dir)
	m, err := mountOf(dir)
	if err != nil {
		return Device{}, err
	}

	number, err := m.blockNumber()
	if err != nil {
		return Device{}, err
	}

	link, err := os.Readlink("/sys/dev/block/" + number)
	if err != nil {
		return Device{}, err
	}

	d := Device{Name: filepath.Base(link)}
	backing, err := os.ReadFile(filepath.Join(sysBlock, d.Name, "loop", "backing_file"))
	if errors.Is(err, os.ErrNotExist) {
		return d, nil
	}

	if err != nil {
		return Device{}, err
	}

	d.Loop = true
	d.Backing = strings.TrimSuffix(string(backing), "\n")
	if d.Private, err = onlyUser(d.Name, number); err != nil {
		return Device{}, err
	}

	return d, nil
}

// Now returns the device's counters since boot, from /sys/class/block/*/stat:
// requests completed, after merging.
func (d Device) Now() (now result.DeviceIO, err error) {
	defer wrap(&err, "read the counters of block device %s", d.Name)
	text, err := os.ReadFile(filepath.Join(sysBlock, d.Name, "stat"))
	if err == nil {
		now, _, err = parseBlockStat(string(text))
	}

	if err == nil {
		now.Device = d.Name
	}

	return now, err
}

// Settled returns the device's counters once they count every read that has returned, or as they
// are after patience. The kernel wakes whoever waits for a read before it counts that read as
// completed: counters that are taken at once may have its bytes and lack the read. Newer kernels
// tell that a request is under way until it is counted; of others, counters that have not changed
// for a while are believed. What it reads itself is added to own.
func (d Device) Settled(own *OwnReads, patience time.Duration) (now result.DeviceIO, err error) {
	defer wrap(&err, "read the counters of block device %s", d.Name)
	file, err := os.Open(filepath.Join(sysBlock, d.Name, "stat"))
	if err != nil {
		return now, err
	}

	defer file.Close()
	var text [512]byte
	before := result.DeviceIO{}
	for begun := time.Now(); ; before = now {
		n := 0
		own.Call(func() int64 {
			n, err = file.ReadAt(text[:], 0)
			return int64(n)
		})

		if err != nil && !errors.Is(err, io.EOF) {
			return now, err
		}

		var inFlight int64
		if now, inFlight, err = parseBlockStat(string(text[:n])); err != nil {
			return now, err
		}

		now.Device = d.Name
		if (inFlight == 0 && now == before) || time.Since(begun) > patience {
			return now, nil
		}

		time.Sleep(patience / 20)
	}
}

// ReadAheadKB is how much a sequential reader, and a fault on mapped memory, may
// fetch beyond what it asked for.
func (d Device) ReadAheadKB() (int, error) {
	text, err := os.ReadFile(d.queue("read_ahead_kb"))
	if err != nil {
		return 0, fmt.Errorf("read the readahead of %s: %w", d.Name, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

const sysBlock = "/sys/class/block"

// blockNumber is the device's "major:minor". Some filesystems (btrfs) mount
// under a number of their own and name the device as their source.
func (m mount) blockNumber() (string, error) {
	if !strings.HasPrefix(m.device, "0:") {
		return m.device, nil
	}

	var source unix.Stat_t
	if strings.HasPrefix(m.source, "/dev/") && unix.Stat(m.source, &source) == nil &&
		source.Mode&unix.S_IFMT == unix.S_IFBLK {
		return fmt.Sprintf("%d:%d", unix.Major(source.Rdev), unix.Minor(source.Rdev)), nil
	}

	return "", fmt.Errorf("%s has none", m.filesystem)
}

// onlyUser reports whether exactly one mount and no other device sits on name.
func onlyUser(name, number string) (bool, error) {
	all, err := mounts()
	if err != nil {
		return false, err
	}

	users := 0
	for _, m := range all {
		if m.device == number {
			users++
		}
	}

	holders, err := os.ReadDir(filepath.Join(sysBlock, name, "holders"))
	if err != nil {
		return false, err
	}

	return users == 1 && len(holders) == 0, nil
}

// parseBlockStat reads the first ten numbers of Documentation/block/stat: reads,
// merged, sectors, ms; writes, merged, sectors, ms; in flight, ms busy. A sector is
// 512 bytes whatever the device.
func parseBlockStat(text string) (done result.DeviceIO, inFlight int64, err error) {
	fields := strings.Fields(text)
	if len(fields) < 10 {
		return done, 0, fmt.Errorf("no block statistics: %.200q", text)
	}

	n, err := integers(fields[:10])
	if err != nil {
		return done, 0, fmt.Errorf("no block statistics: %w", err)
	}

	const sector = 512
	return result.DeviceIO{
		Reads:      n[0],
		ReadMerges: n[1],
		ReadBytes:  n[2] * sector,
		Writes:     n[4],
		WriteBytes: n[6] * sector,
		BusyMillis: n[9],
	}, n[8], nil
}

// queue is the path of a setting of the device's request queue, which a
// partition shares with its disk.
func (d Device) queue(setting string) string {
	return filepath.Join(sysBlock, d.whole().Name, "queue", setting)
}

// whole is the disk that a partition is part of.
func (d Device) whole() Device {
	dir := filepath.Join(sysBlock, d.Name)
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			d.Name = filepath.Base(filepath.Dir(resolved))
		}
	}
	return d
}

// diskOf is the disk below dir that others may use too: a loop device is its file's.
func diskOf(dir string) (Device, error) {
	d, err := DeviceOf(dir)
	if err == nil && d.Backing != "" {
		d, err = DeviceOf(filepath.Dir(d.Backing))
	}
	return d.whole(), err
}

// mount is one line of /proc/self/mountinfo.
type mount struct {
	id         uint64
	device     string // "major:minor"
	root       string // of the mount, within its filesystem
	point      string
	options    []string // of the mount, then of the filesystem
	filesystem string
	source     string
}

// mountOf returns the mount that holds path.
func mountOf(path string) (mount, error) {
	var info unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &info); err != nil {
		return mount{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}

	if info.Mask&unix.STATX_MNT_ID == 0 {
		return mount{}, errors.New("the kernel does not tell mounts apart (older than 5.8)")
	}

	all, err := mounts()
	if err != nil {
		return mount{}, err
	}

	for _, m := range all {
		if m.id == info.Mnt_id {
			return m, nil
		}
	}

	return unlistedMount(path, &info)
}

// unlistedMount is what can be told of a mount whose point is outside this process's root (chroot):
// its device and its filesystem.
func unlistedMount(path string, info *unix.Statx_t) (mount, error) {
	var about unix.Statfs_t
	if err := unix.Statfs(path, &about); err != nil {
		return mount{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}

	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC:      "ext4", // the whole ext family's
		unix.XFS_SUPER_MAGIC:       "xfs",
		unix.BTRFS_SUPER_MAGIC:     "btrfs",
		unix.TMPFS_MAGIC:           "tmpfs",
		unix.RAMFS_MAGIC:           "ramfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay",
		unix.NFS_SUPER_MAGIC:       "nfs",
		unix.FUSE_SUPER_MAGIC:      "fuse",
	}
	name, known := names[int64(about.Type)]
	if !known {
		name = fmt.Sprintf("filesystem of type 0x%x", about.Type)
	}

	return mount{
		id:         info.Mnt_id,
		device:     fmt.Sprintf("%d:%d", info.Dev_major, info.Dev_minor),
		filesystem: name,
	}, nil
}

// mounts returns those of this process's mount namespace.
func mounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(text)
}

// parseMounts reads proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parseMounts(text []byte) ([]mount, error) {
	var all []mount
	for line := range bytes.Lines(text) {
		perMount, perFilesystem, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " - ")
		left, right := strings.Split(perMount, " "), strings.Split(perFilesystem, " ")
		if !ok || len(left) < 6 || len(right) < 3 {
			return nil, fmt.Errorf("no line of mountinfo: %.200q", line)
		}

		id, err := strconv.ParseUint(left[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("no line of mountinfo: %.200q: %w", line, err)
		}

		all = append(all, mount{
			id:         id,
			device:     left[2],
			root:       unescape(left[3]),
			point:      unescape(left[4]),
			options:    append(strings.Split(left[5], ","), strings.Split(right[2], ",")...),
			filesystem: right[0],
			source:     unescape(right[1]),
		})
	}

	return all, nil
}

var escaped = regexp.MustCompile(`\\[0-3][0-7][0-7]`)

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(octal string) string {
		code, _ := strconv.ParseUint(octal[1:], 8, 8) // as matched
		return string([]byte{byte(code)})
	})
}
