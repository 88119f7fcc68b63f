package session

import (
	"strings"

	"github.com/statelab/statelab/internal/observe/host"
)

// leastFree is less than any filesystem or engine can go on with.
const leastFree = 1 << 20

// SaysDiskFull reports whether text tells of ENOSPC, as most engines do, in words of
// their own.
func SaysDiskFull(text string) bool {
	return strings.Contains(strings.ToLower(text), "no space left on device")
}

// DiskIsFull reports whether the text of an error, or the last words of a process that
// died, tell of a full disk below dir. A mapped file that cannot grow shows as an I/O
// error, a code of LMDB's or MDBX's, or SIGBUS, which have other causes as well: then
// the filesystem is asked.
func DiskIsFull(dir, text string) bool {
	if SaysDiskFull(text) {
		return true
	}
	text = strings.ToLower(text)
	for _, sign := range []string{"input/output error", "i/o error", "mdb_", "mdbx_", "sigbus", "bus error"} {
		if strings.Contains(text, sign) {
			free, err := host.FreeBytes(host.Existing(dir))
			return err == nil && free < leastFree
		}
	}
	return false
}
