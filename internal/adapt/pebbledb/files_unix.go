//go:build unix

package pebbledb

import "golang.org/x/sys/unix"

// mayOpen is how many files the process may have open.
func mayOpen() (uint64, bool) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil
}
