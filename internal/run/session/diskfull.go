package session

import (
	"strings"

	"github.com/statelab/statelab/internal/observe/host"
)

// leastFree is less than any filesystem or engine can go on with.
const leastFree = 1 << 20

// DiskIsFull reports whether the text of an error, or the last words of a process that
// died, tell of a full disk below dir. ENOSPC is passed on by most engines, in words of
// their own. A mapped file that cannot grow shows as an I/O error, a code of LMDB's or
// MDBX's, or SIGBUS, which have other causes as well: then the filesystem is asked.
func DiskIsFull(dir, text string) bool {
	text = strings.ToLower(text)
	if strings.Contains(text, "no space left on device") {
		return true
	}
	for _, sign := range []string{"input/output error", "i/o error", "mdb_", "mdbx_", "sigbus", "bus error"} {
		if strings.Contains(text, sign) {
			free, err := host.FreeBytes(existing(dir))
			return err == nil && free < leastFree
		}
	}
	return false
}
