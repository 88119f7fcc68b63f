package resolve

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// willNeed lets the kernel read a part of the file in the background. It is
// advice: where the kernel does not take it, the read that follows waits.
func willNeed(f lsmtail.TableFile, offset, bytes int64) {
	file, open := f.(*os.File)
	if !open {
		return
	}
	_ = unix.Fadvise(int(file.Fd()), offset, bytes, unix.FADV_WILLNEED)
}
