//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/observe/measure"
)

// Doctor examines the machine for measurements on a database in dir: it writes
// and deletes two small files there and watches the neighbours for half a
// second. What stops it from looking is itself a finding.
func Doctor(ctx context.Context, dir string) []Finding {
	clock := measure.NewClock()
	cpu := processor()
	deviceName, readAheadKB := "", 0
	device, deviceErr := DeviceOf(dir)
	if deviceErr == nil {
		deviceName = device.Name
		readAheadKB, deviceErr = device.ReadAheadKB()
	}
	free, freeErr := FreeBytes(dir)
	watch := StartWatch(dir)
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
	machine, _ := watch.Stop()

	return []Finding{
		judgePageCache(tryEvict(ctx, dir), unix.Access("/proc/sys/vm/drop_caches", unix.W_OK) == nil),
		judgeDirect(DirectSupported(dir)),
		judgeRoot(os.Geteuid() == 0),
		judgeLoop(loopTools()),
		judgeReadAhead(deviceName, readAheadKB, deviceErr),
		judgeFDLimit(fdLimit()),
		judgeFreeSpace(free, freeErr),
		judgeMemoryLimit(memoryLimit(), memoryBytes()),
		judgeTHP(chosen(firstLine("/sys/kernel/mm/transparent_hugepage/enabled"))),
		judgeGovernor(governor()),
		judgeClock(clock.Kind(), clock.WhyNotTSC(), clock.CostNanos()),
		judgeVirtualisation(virtualised(cpu)),
		judgeCPUNeighbours(machine),
		judgeDiskNeighbours(machine),
	}
}

func loopTools() error {
	_, err := mkfsPath()
	return errors.Join(loopDevices(), err)
}

// tryEvict makes a cold file and has the kernel confirm it.
func tryEvict(ctx context.Context, dir string) (err error) {
	own, err := os.MkdirTemp(dir, ".statelab-evict-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := os.WriteFile(filepath.Join(own, "page"), make([]byte, 1<<16), 0o600); err != nil {
		return err
	}
	if _, err := Evict(ctx, own); err != nil {
		return err
	}
	resident, total, err := Resident(own)
	if err == nil && resident > 0 {
		err = fmt.Errorf("%d of %d bytes stayed", resident, total)
	}
	return err
}
