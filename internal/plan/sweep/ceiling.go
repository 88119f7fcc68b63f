package sweep

import (
	"errors"
	"os"
	"slices"

	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// ceilingPoints are the most numbers in flight of a look at the disk beside a sweep.
const ceilingPoints = 4

// JudgeCeiling marks the disk's limit in the folder of the results if what was measured contradicts it.
func (p Sweep) JudgeCeiling(done *result.Sweep, out string) error {
	d, err := result.ReadDisk(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var measured []result.DiskPoint
	for _, point := range done.Points {
		measured = append(measured, point.DeviceReads(p.Base.Threads))
	}
	if d.Judge(measured...) == "" {
		return nil
	}
	done.Warnings = append(done.Warnings, d.Warning())
	return result.WriteDisk(out, d)
}

// Flights are the thread counts of a plan, thinned out evenly, and one more, so
// that the disk's own curve has a shape.
func (p Sweep) Flights() []int {
	var numbers []int
	for _, point := range p.Settings() {
		numbers = append(numbers, point.Read.Threads)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for len(numbers) > ceilingPoints {
		numbers = slices.Delete(numbers, len(numbers)/2, len(numbers)/2+1)
	}
	if numbers[0] > 1 {
		numbers = slices.Insert(numbers, 0, 1)
	}
	return numbers
}

// ReachesDevice tells whether a plan's reads are to reach the device.
func (p Sweep) ReachesDevice() bool {
	return slices.ContainsFunc(p.Settings(), func(point Setting) bool {
		return point.Read.PageCache == bench.Direct || point.Read.PageCache == bench.Cold
	})
}
