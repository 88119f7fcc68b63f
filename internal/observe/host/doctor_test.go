//go:build linux

package host

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/statelab/statelab/result"
)

func TestDoctorExaminesThisMachine(t *testing.T) {
	dir := t.TempDir()
	findings := Doctor(context.Background(), dir)
	seen := map[string]bool{}
	for _, f := range findings {
		t.Logf("%-20s %-7s %s | %s | %s", f.Name, f.Verdict, f.State, f.Spoils, f.Remedy)
		if f.State == "" || seen[f.Name] {
			t.Errorf("%q has no state or stands twice", f.Name)
		}

		seen[f.Name] = true
		if doubted := f.Verdict != OK; doubted != (f.Spoils != "") || doubted != (f.Remedy != "") {
			t.Errorf("%q is %s, spoils %q, remedy %q", f.Name, f.Verdict, f.Spoils, f.Remedy)
		}
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestJudges(t *testing.T) {
	failed := errors.New("no")
	seen := func(cpu, stolen, disk float64) *result.Machine {
		return &result.Machine{
			CPUOthersShare:       &cpu,
			CPUStolenShare:       &stolen,
			Disk:                 "sda",
			DiskBusyShare:        &disk,
			DiskOthersReadBytes:  &disk,
			DiskOthersWriteBytes: &disk,
		}
	}

	unseen := &result.Machine{Absent: map[string]string{cpuOthers: "no", diskBusy: "no"}}
	for _, c := range []struct {
		about string
		got   Finding
		want  Verdict
	}{
		{"page cache", judgePageCache(nil, false), OK},
		{"page cache stays", judgePageCache(failed, true), Problem},
		{"direct", judgeDirect(nil), OK},
		{"no direct", judgeDirect(failed), Problem},
		{"root", judgeRoot(true), OK},
		{"no root", judgeRoot(false), Doubt},
		{"loop", judgeLoop(nil), OK},
		{"no loop", judgeLoop(failed), Doubt},
		{"readahead 0", judgeReadAhead("sda", 0, nil), OK},
		{"readahead 128", judgeReadAhead("sda", 128, nil), OK},
		{"readahead 8192", judgeReadAhead("sda", 8192, nil), Doubt},
		{"readahead unknown", judgeReadAhead("", 0, failed), Doubt},
		{"1023 files", judgeFDLimit(1023), Problem},
		{"1024 files", judgeFDLimit(1024), Doubt},
		{"8192 files", judgeFDLimit(8192), OK},
		{"full disk", judgeFreeSpace(1<<30-1, nil), Problem},
		{"small disk", judgeFreeSpace(1<<30, nil), Doubt},
		{"disk", judgeFreeSpace(10<<30, nil), OK},
		{"disk unknown", judgeFreeSpace(0, failed), Problem},
		{"no memory limit", judgeMemoryLimit(0, 8<<30), OK},
		{"memory limit above the memory", judgeMemoryLimit(16<<30, 8<<30), OK},
		{"memory limit", judgeMemoryLimit(4<<30, 8<<30), Doubt},
		{"no huge pages", judgeTHP(""), OK},
		{"huge pages on request", judgeTHP("madvise"), OK},
		{"huge pages", judgeTHP("always"), Doubt},
		{"no governor", judgeGovernor(""), OK},
		{"performance", judgeGovernor("performance"), OK},
		{"powersave", judgeGovernor("powersave"), Doubt},
		{"tsc", judgeClock("tsc", "", 19), OK},
		{"monotonic", judgeClock("monotonic", "why", 25), OK},
		{"slow monotonic", judgeClock("monotonic", "why", 500), Doubt},
		{"iron", judgeVirtualisation(""), OK},
		{"virtual", judgeVirtualisation("virtual machine: x"), Doubt},
		{"idle CPU", judgeCPUNeighbours(seen(0, 0, 0)), OK},
		{"CPU shared", judgeCPUNeighbours(seen(0.11, 0, 0)), Doubt},
		{"CPU shared and stolen", judgeCPUNeighbours(seen(0.3, 0.3, 0)), Problem},
		{"CPU unknown", judgeCPUNeighbours(unseen), Doubt},
		{"idle disk", judgeDiskNeighbours(seen(0, 0, 0.05)), OK},
		{"disk shared", judgeDiskNeighbours(seen(0, 0, 0.06)), Doubt},
		{"disk taken", judgeDiskNeighbours(seen(0, 0, 0.31)), Problem},
		{"disk unknown", judgeDiskNeighbours(unseen), Doubt},
	} {
		if c.got.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", c.about, c.got.Verdict, c.got.State, c.want)
		}

		if doubted := c.want != OK; doubted != (c.got.Spoils != "") ||
			doubted != (c.got.Remedy != "") {
			t.Errorf("%s: %s, spoils %q, remedy %q", c.about, c.got.Verdict, c.got.Spoils,
				c.got.Remedy)
		}
	}
}
