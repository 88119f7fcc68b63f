//go:build linux

package host

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/result"
)

// The least of several batches is the one that nobody interrupted. Together they
// take about 50 ms.
const (
	allocationBytes   = 128 << 10
	allocationBatches = 20
	allocationRounds  = 200
)

// Allocations measures what a buffer of 128 KiB costs, got and given up, in the ways
// in which programs get one. Batches are long enough that Go's collector takes its
// share in them.
func Allocations() (result.Allocation, error) {
	a := result.Allocation{Bytes: allocationBytes}
	pool := sync.Pool{New: func() any { return new([allocationBytes]byte) }}
	for _, way := range []struct {
		nanos *float64
		once  func() error
	}{
		{&a.ReusedNanos, func() error {
			pool.Put(pool.Get())
			return nil
		}},
		{&a.HeapNanos, func() error {
			runtime.KeepAlive(make([]byte, allocationBytes)) // or the compiler leaves it out
			return nil
		}},
		{&a.MappedNanos, func() error { return mapped(false) }},
		{&a.TouchedNanos, func() error { return mapped(true) }},
	} {
		minimum := math.Inf(1)
		for range allocationBatches {
			began := time.Now()
			for range allocationRounds {
				if err := way.once(); err != nil {
					return a, fmt.Errorf("allocate %d bytes: %w", allocationBytes, err)
				}
			}

			minimum = min(minimum, float64(time.Since(began))/allocationRounds)
		}

		*way.nanos = minimum
	}

	return a, nil
}

// mapped gets a buffer as C's malloc does from this size on, from the kernel.
func mapped(touch bool) error {
	buffer, err := unix.Mmap(-1, 0, allocationBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}

	if touch {
		for at := 0; at < len(buffer); at += os.Getpagesize() {
			buffer[at] = 1
		}
	}

	return unix.Munmap(buffer)
}

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
	if err := errors.Join(unix.Pipe2(there[:], unix.O_CLOEXEC),
		unix.Pipe2(back[:], unix.O_CLOEXEC)); err != nil {
		return 0, err
	}

	defer closeAll(there, back)
	echoed := make(chan error, 1)
	go func() {
		echoed <- onFirstCore(func() error {
			return exchange(there[0], back[1], switchBatches*switchRounds, false)
		})
	}()

	alone, together := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	err = onFirstCore(func() error {
		for range switchBatches {
			if err := errors.Join(minimum(&alone, back[0], back[1]),
				minimum(&together, back[0], there[1])); err != nil {
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

// minimum keeps the shortest time that a batch of exchanges took.
func minimum(shortest *time.Duration, read, write int) error {
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
