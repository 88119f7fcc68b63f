//go:build linux

package badger

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// withoutReadahead tells the kernel that the tables mapped now are read at random.
// Badger maps them without advice, so that a fault reads as much as the device's
// readahead allows: megabytes for a Get, where the page cache is short. It has no
// option for that; the mappings are this process's own, and /proc names them.
func withoutReadahead(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("find the mapped tables: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || filepath.Dir(fields[5]) != dir || filepath.Ext(fields[5]) != ".sst" {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("find the mapped tables: %w", err)
		}
		// By number: the memory is Badger's, and no Go pointer to it is ours to make.
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_RANDOM)
		if errno != 0 && !errors.Is(errno, unix.ENOMEM) { // ENOMEM: unmapped meanwhile
			return fmt.Errorf("advise random reads of %s: %w", fields[5], errno)
		}
	}
	return lines.Err()
}
