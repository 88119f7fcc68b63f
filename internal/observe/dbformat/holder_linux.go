package dbformat

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockedFiles are what engines lock in a database's directory; Badger locks the
// directory itself.
func lockedFiles() []string {
	return []string{".", "LOCK", "lock", "lock.mdb", "mdbx.lck", "mdbx.dat", "data.mdb", "bolt.db"}
}

// maxLocksBytes bounds what is read of the kernel's list of locks.
const maxLocksBytes = 4 << 20

// holder is the process that has locked the database in dir, or 0 where the
// kernel does not tell: of another machine, another container, or of locks that
// belong to an open file.
func holder(dir string) int {
	wanted := map[string]bool{}
	for _, name := range lockedFiles() {
		var stat unix.Stat_t
		if unix.Stat(filepath.Join(dir, name), &stat) == nil {
			wanted[fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev),
				stat.Ino)] = true
		}
	}

	file, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}

	defer file.Close()
	for lines := bufio.NewScanner(io.LimitReader(file, maxLocksBytes)); lines.Scan(); {
		// 1: POSIX ADVISORY WRITE 4711 fe:00:10347660 0 EOF; one that waits has an arrow behind its
		// number.
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] == "->" || !wanted[fields[5]] {
			continue
		}

		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 && pid != os.Getpid() {
			return pid
		}
	}

	return 0
}

// orphan reports whether a process is a runner of statelab whose parent is gone, which ends
// it, or has ended by now.
func orphan(process int) bool {
	if process == 0 {
		return false
	}

	name, parent := statusOf(process)
	if name == "" {
		return true
	}

	above, _ := statusOf(parent)
	return strings.HasPrefix(name, "statelab") && !strings.HasPrefix(above, "statelab")
}

// statusOf is the name of a process and its parent; "" where there is none.
func statusOf(process int) (name string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		return "", 0
	}

	for line := range strings.Lines(string(text)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); key {
		case "Name":
			name = value
		case "PPid":
			if parent, err = strconv.Atoi(value); err != nil {
				return "", 0
			}
		}
	}

	return name, parent
}
