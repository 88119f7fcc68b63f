//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
	return mount{}, fmt.Errorf("%s is on a mount that /proc/self/mountinfo does not list", path)
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
