package probe

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// device counts what is read from the block device of the database, by the process and by all
// others (bpf/device.c).
type device struct{ number, counts *ebpf.Variable }

// on chooses the device that holds a file. A filesystem on several devices, or in memory, has no
// number of a device.
func (d *device) on(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}

	major, minor := unix.Major(stat.Dev), unix.Minor(stat.Dev)
	if _, err := os.Stat(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor)); err != nil {
		return fmt.Errorf("the filesystem of %s does not tell its block device", path)
	}

	var present uint64
	number := uint64(kernelDevice(stat.Dev))
	if err := d.number.Get(&present); err != nil || present == number {
		return err
	}

	return errors.Join(d.counts.Set(bpfDevice{}), d.number.Set(number))
}

// Device are the reads of that device so far.
func (d *device) Device() (DeviceCounts, error) {
	var c bpfDevice
	err := d.counts.Get(&c)
	return DeviceCounts{c.OwnReads, c.OwnBytes, c.OtherReads, c.OtherBytes}, err
}

// minorBits are those of a device's number in the kernel.
const minorBits = 20

// kernelDevice is a device's number as the kernel writes it, of one that stat tells, and userDevice
// the other way.
func kernelDevice(user uint64) uint32 {
	return unix.Major(user)<<minorBits | unix.Minor(user)
}

func userDevice(kernel uint32) uint64 {
	return unix.Mkdev(kernel>>minorBits, kernel&(1<<minorBits-1))
}
