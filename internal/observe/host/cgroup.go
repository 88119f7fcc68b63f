//go:build linux

package host

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// memoryLimit is the memory this process's control groups allow it, in bytes; 0
// where they set no limit. A group is bound by every group above it.
func memoryLimit() int64 {
	membership, _ := os.ReadFile("/proc/self/cgroup")
	all, _ := mounts() // where one of them cannot be read, no limit is known
	var least int64
	for _, file := range memoryLimitFiles(membership, all) {
		limit, ok := parseMemoryLimit(firstLine(file))
		if ok && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// memoryLimitFiles lists the files that can hold a limit: memory.max of a
// version 2 hierarchy, memory.limit_in_bytes of the memory controller's in
// version 1, from the process's group up to the mount.
func memoryLimitFiles(membership []byte, all []mount) []string {
	var files []string
	for line := range bytes.Lines(membership) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, group := fields[1], fields[2]
		for _, m := range all {
			var name string
			switch {
			case m.filesystem == "cgroup2" && controllers == "":
				name = "memory.max"
			case m.filesystem == "cgroup" && slices.Contains(strings.Split(controllers, ","), "memory") && slices.Contains(m.options, "memory"):
				name = "memory.limit_in_bytes"
			default:
				continue
			}
			// A container sees its own group as the root of the mount.
			below := filepath.Clean("/" + strings.TrimPrefix(group, m.root))
			for ; ; below = filepath.Dir(below) {
				files = append(files, filepath.Join(m.point, below, name))
				if below == "/" {
					break
				}
			}
		}
	}
	return files
}

// parseMemoryLimit refuses "max" and version 1's way of saying it: the largest
// number of whole pages.
func parseMemoryLimit(text string) (int64, bool) {
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 || limit >= 1<<62 {
		return 0, false
	}
	return limit, true
}
