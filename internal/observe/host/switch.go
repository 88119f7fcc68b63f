//go:build linux

package host

import (
	"errors"
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The least of several batches is the one that nobody interrupted. Together they
// take about 10 ms.
const (
	switchBatches = 10
	switchRounds  = 200
)

// SwitchNanos measures one context switch: two threads on one core hand a byte to
// and fro, and what the same system calls cost a single thread is taken off. A
// Get's threads may need more, since their working sets are larger.
func SwitchNanos() (nanos float64, err error) {
	defer wrap(&err, "measure a context switch")
	var there, back [2]int
	if err := errors.Join(unix.Pipe2(there[:], unix.O_CLOEXEC), unix.Pipe2(back[:], unix.O_CLOEXEC)); err != nil {
		return 0, err
	}
	defer closeAll(there, back)
	echoed := make(chan error, 1)
	go func() {
		echoed <- onFirstCore(func() error { return exchange(there[0], back[1], switchBatches*switchRounds, false) })
	}()
	alone, together := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	err = onFirstCore(func() error {
		for range switchBatches {
			if err := errors.Join(least(&alone, back[0], back[1]), least(&together, back[0], there[1])); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, <-echoed); err != nil {
		return 0, err
	}
	return max(0, float64(together-2*alone)/(2*switchRounds)), nil
}

// least keeps the shortest time that a batch of exchanges took.
func least(shortest *time.Duration, read, write int) error {
	began := time.Now()
	err := exchange(read, write, switchRounds, true)
	*shortest = min(*shortest, time.Since(began))
	return err
}

// exchange passes a byte on or waits for it, in turns.
func exchange(read, write, rounds int, first bool) error {
	b := []byte{1}
	for range rounds {
		if first {
			if _, err := unix.Write(write, b); err != nil {
				return err
			}
		}
		if _, err := unix.Read(read, b); err != nil {
			return err
		}
		if !first {
			if _, err := unix.Write(write, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// onFirstCore runs work on a thread that is bound to the first core this process
// may use. The thread ends with it: its binding is nobody else's.
func onFirstCore(work func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		var allowed, one unix.CPUSet
		err := unix.SchedGetaffinity(0, &allowed)
		for cpu := range len(allowed) * 64 {
			if allowed.IsSet(cpu) {
				one.Set(cpu)
				break
			}
		}
		if err == nil {
			err = unix.SchedSetaffinity(0, &one)
		}
		if err == nil {
			err = work()
		}
		done <- err
	}()
	return <-done
}

func closeAll(pipes ...[2]int) {
	for _, p := range pipes {
		_, _ = unix.Close(p[0]), unix.Close(p[1]) // pipes of our own: nothing is lost
	}
}
