package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time of the clock that events carry.
func Now() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
