//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Allocated is what the files below dir take on the disk, in bytes and in number:
// blocks, not lengths, so that sparse and preallocated files count as they are.
// A file that is deleted meanwhile is left out; a dir that does not exist has
// none.
func Allocated(dir string) (allocated int64, files int, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); errors.Is(err, unix.ENOENT) {
			return nil
		} else if err != nil {
			return &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		const blockBytes = 512 // of st_blocks, see stat(2)
		allocated += stat.Blocks * blockBytes
		files++
		return nil
	})
	return allocated, files, err
}

// RSS is the memory this process has resident now, in bytes.
func RSS() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("read the resident memory: %w", err)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the resident memory: /proc/self/statm says %q", text)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the resident memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}
