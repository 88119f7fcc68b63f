//go:build linux

package host

import (
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
		least := math.Inf(1)
		for range allocationBatches {
			began := time.Now()
			for range allocationRounds {
				if err := way.once(); err != nil {
					return a, fmt.Errorf("allocate %d bytes: %w", allocationBytes, err)
				}
			}
			least = min(least, float64(time.Since(began))/allocationRounds)
		}
		*way.nanos = least
	}
	return a, nil
}

// mapped gets a buffer as C's malloc does from this size on, from the kernel.
func mapped(touch bool) error {
	buffer, err := unix.Mmap(-1, 0, allocationBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
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
