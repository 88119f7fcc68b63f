package advice

import (
	"testing"
	"time"
)

// A virtual disk as fio saw it (4 KiB random direct reads).
func someDisk() Disk {
	return Disk{Points: []ProbePoint{
		{1, 27e3, 36e3, 90e3},
		{4, 54e3, 73e3, 200e3},
		{16, 67e3, 240e3, 900e3},
	}}
}

func TestDiskVerdict(t *testing.T) {
	for needed, want := range map[float64]string{
		8.5e3: "needs 8.5k reads/s of this disk's 27k at 1 in flight: not the disk",
		20e3:  "needs 20k reads/s of this disk's 67k at 16 in flight: not the disk",
		40e3:  "needs 40k reads/s of this disk's 67k at 16 in flight: close to the disk's limit",
		90e3:  "needs 90k reads/s of this disk's 67k at 16 in flight: the disk is the limit",
	} {
		if got := someDisk().CapacityText(needed); got != want {
			t.Errorf("%v: %s, want %s", needed, got, want)
		}
	}
}

// The latency of a Get is that of its reads at the load the disk is under.
func TestDiskLatency(t *testing.T) {
	d := someDisk()
	for _, c := range []struct {
		perGet, perSecond float64
		want              time.Duration
	}{
		{1, 0, 36 * time.Microsecond},
		{1.5, 0, 54 * time.Microsecond},
		{2, 40e3, 146 * time.Microsecond},
		{1, 1e6, 240 * time.Microsecond},
	} {
		if got := d.Latency(c.perGet, c.perSecond); got != c.want {
			t.Errorf("%v reads at %v/s: %v, want %v", c.perGet, c.perSecond, got, c.want)
		}
	}
}
