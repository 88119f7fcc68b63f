package host

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
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
	idle := neighbours{}
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
		{"idle CPU", judgeCPUNeighbours(idle, nil), OK},
		{"CPU shared", judgeCPUNeighbours(neighbours{cpuShare: 0.11}, nil), Doubt},
		{"CPU shared and stolen", judgeCPUNeighbours(neighbours{cpuShare: 0.3, stealShare: 0.3}, nil), Problem},
		{"CPU unknown", judgeCPUNeighbours(idle, failed), Doubt},
		{"idle disk", judgeDiskNeighbours("sda", neighbours{diskShare: 0.05}, nil), OK},
		{"disk shared", judgeDiskNeighbours("sda", neighbours{diskShare: 0.06}, nil), Doubt},
		{"disk taken", judgeDiskNeighbours("sda", neighbours{diskShare: 0.31}, nil), Problem},
		{"no disk", judgeDiskNeighbours("", idle, nil), Doubt},
		{"disk unknown", judgeDiskNeighbours("sda", idle, failed), Doubt},
	} {
		if c.got.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", c.about, c.got.Verdict, c.got.State, c.want)
		}
		if doubted := c.want != OK; doubted != (c.got.Spoils != "") || doubted != (c.got.Remedy != "") {
			t.Errorf("%s: %s, spoils %q, remedy %q", c.about, c.got.Verdict, c.got.Spoils, c.got.Remedy)
		}
	}
}

func TestLoadBetween(t *testing.T) {
	start := time.Unix(1000, 0)
	first := load{at: start, cpu: cpuTicks{busy: 1000, idle: 5000, steal: 10}, ownNanos: 5e9, disk: diskCounts{100, 200, 3000}}
	// Two seconds of two processors are 400 ticks: 100 busy, 20 of them ours.
	last := load{at: start.Add(2 * time.Second), cpu: cpuTicks{busy: 1100, idle: 5280, steal: 30}, ownNanos: 5.2e9, disk: diskCounts{300, 210, 3500}}
	want := neighbours{cpuShare: 0.2, stealShare: 0.05, diskShare: 0.25, diskReads: 100, diskWrites: 5}
	if got := loadBetween(first, last); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestParseLoad(t *testing.T) {
	cpu, err := parseCPUTicks("cpu  10 20 30 400 50 6 7 8 99 99\ncpu0 1 2 3\n")
	if want := (cpuTicks{busy: 73, idle: 450, steal: 8}); err != nil || cpu != want {
		t.Errorf("%+v, want %+v, error %v", cpu, want, err)
	}
	const rows = " 254 0 vda 11 12 13 14 15 16 17 18 0 20 21 0 0\n 254 1 vda1 1 2 3 4 5 6 7 8 9 10 11\n"
	disk, err := parseDiskCounts(rows, "vda")
	if want := (diskCounts{reads: 11, writes: 15, busyMillis: 20}); err != nil || disk != want {
		t.Errorf("%+v, want %+v, error %v", disk, want, err)
	}
	if _, err := parseDiskCounts(rows, "vd"); err == nil {
		t.Error("an unknown device has counters")
	}
}

func FuzzParseLoad(f *testing.F) {
	f.Add("cpu  10 20 30 400 50 6 7 8\n", " 254 0 vda 11 12 13 14 15 16 17 18 0 20 21\n")
	f.Fuzz(func(t *testing.T, stat, diskstats string) {
		if ticks, err := parseCPUTicks(stat); err != nil && ticks != (cpuTicks{}) {
			t.Errorf("%q is refused and counted", stat)
		}
		if counts, err := parseDiskCounts(diskstats, "vda"); err != nil && counts != (diskCounts{}) {
			t.Errorf("%q is refused and counted", diskstats)
		}
	})
}
