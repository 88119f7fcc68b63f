package resolve

import (
	"os"

	"golang.org/x/sys/unix"
)

// willNeed lets the kernel read a part of the file in the background. It is
// advice: where the kernel does not take it, the read that follows waits.
func willNeed(f *os.File, offset, bytes int64) {
	_ = unix.Fadvise(int(f.Fd()), offset, bytes, unix.FADV_WILLNEED)
}
