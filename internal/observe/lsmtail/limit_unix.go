//go:build unix

package lsmtail

import "golang.org/x/sys/unix"

// maxOpenFiles is how many files the process may have open.
func maxOpenFiles() (uint64, bool) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil
}
