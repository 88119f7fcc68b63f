//go:build linux

package host

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

func TestWatchTellsOrSaysWhyNot(t *testing.T) {
	watch := StartWatch(filepath.Join(t.TempDir(), "not", "made", "yet"))
	m, _ := watch.Stop()
	if m.AvailableMemoryBegin <= 0 || m.AvailableMemoryEnd <= 0 || m.Seconds <= 0 {
		t.Errorf("%+v", m)
	}

	for name, v := range map[string]*float64{
		cpuOthers:  m.CPUOthersShare,
		cpuStolen:  m.CPUStolenShare,
		diskBusy:   m.DiskBusyShare,
		diskReads:  m.DiskOthersReadBytes,
		diskWrites: m.DiskOthersWriteBytes,
	} {
		if _, absent := m.Absent[name]; absent == (v != nil) {
			t.Errorf("%s is %v, its absence is explained: %v", name, v, absent)
		}
	}
}

func TestOwnPartIsTakenOff(t *testing.T) {
	start := time.Unix(1000, 0)
	begin := moment{
		at:        start,
		load:      1,
		available: 7,
		cpu:       cpuTicks{busy: 1000, idle: 5000, steal: 10},
		own:       result.ProcessIO{UserNanos: 4e9, SystemNanos: 1e9},
		disk:      result.DeviceIO{ReadBytes: 100, WriteBytes: 200, BusyMillis: 3000},
	}

	// Two seconds of two processors are 400 ticks: 100 busy, 20 of them ours.
	end := moment{
		at:        start.Add(2 * time.Second),
		load:      2,
		available: 8,
		cpu:       cpuTicks{busy: 1100, idle: 5280, steal: 30},
		own: result.ProcessIO{
			UserNanos:   4.1e9,
			SystemNanos: 1.1e9,
			ReadBytes:   200,
			WriteBytes:  50,
		},
		disk: result.DeviceIO{ReadBytes: 600, WriteBytes: 210, BusyMillis: 3500},
	}

	some := func(v float64) *float64 { return &v }
	want := &result.Machine{
		Seconds:              2,
		LoadAverageBegin:     1,
		LoadAverageEnd:       2,
		AvailableMemoryBegin: 7,
		AvailableMemoryEnd:   8,
		CPUOthersShare:       some(0.2),
		CPUStolenShare:       some(0.05),
		DiskBusyShare:        some(0.25),
		DiskOthersReadBytes:  some(150),
		DiskOthersWriteBytes: some(0),
	}

	if diff := cmp.Diff(want, between(begin, end)); diff != "" {
		t.Error(diff)
	}
}

func TestWarningsOfTheMachine(t *testing.T) {
	const MB = 1 << 20
	machine := func(seconds, cpu, stolen, read, written float64) *result.Machine {
		return &result.Machine{
			Seconds:              seconds,
			CPUOthersShare:       &cpu,
			CPUStolenShare:       &stolen,
			DiskOthersReadBytes:  &read,
			DiskOthersWriteBytes: &written,
		}
	}

	for _, c := range []struct {
		about     string
		machine   *result.Machine
		own       result.ProcessIO
		governor  string
		readAhead int
		want      []string
	}{
		{"idle", machine(10, 0.1, 0.02, 0, 0),
			result.ProcessIO{ReadBytes: 100 * MB, ReadChars: 100 * MB}, "performance", 8192, nil},
		{"busy", machine(10, 0.11, 0.03, 0, 0), result.ProcessIO{}, "", 128,
			[]string{result.BusyMachine, result.CPUStolen}},
		{"too short to tell", machine(0.9, 0.9, 0.9, 0, 0), result.ProcessIO{}, "powersave", 128,
			[]string{result.Governor}},
		{"nothing is known", &result.Machine{Seconds: 10},
			result.ProcessIO{ReadBytes: 100 * MB, ReadChars: 100 * MB}, "", 0, nil},
		{
			"disk shared",
			machine(10, 0, 0, 1.5*MB, 0.5*MB),
			result.ProcessIO{ReadBytes: 100 * MB, ReadChars: 100 * MB},
			"",
			128,
			[]string{result.BusyDisk},
		},
		{"disk hardly shared", machine(10, 0, 0, 0.5*MB, 0.5*MB),
			result.ProcessIO{ReadBytes: 5 * MB, ReadChars: 5 * MB}, "", 128, nil},
		{"disk not needed", machine(10, 0, 0, 90*MB, 90*MB), result.ProcessIO{ReadChars: 100 * MB},
			"", 128, nil},
		{
			"pages by readahead",
			machine(10, 0, 0, 0, 0),
			result.ProcessIO{ReadBytes: 100 * MB, MajorFaults: 100},
			"",
			8192,
			[]string{result.ReadAhead},
		},
		{"pages one by one", machine(10, 0, 0, 0, 0),
			result.ProcessIO{ReadBytes: 100 * MB, MajorFaults: 25600}, "", 8192, nil},
	} {
		var got []string
		for _, w := range warnings(c.machine, c.own, c.governor, c.readAhead) {
			got = append(got, w.Code)
			if w.Text == "" || w.Remedy == "" || result.HasWarning(nil, w) ||
				!result.HasWarning([]engine.Warning{w}, w) {
				t.Errorf("%s: %+v", c.about, w)
			}
		}

		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.about, got, c.want)
		}
	}

	failed := engine.Warning{Code: "check_failed"}
	if result.HasWarning([]engine.Warning{failed}, failed) {
		t.Error("a failed check is the machine's")
	}
}

func TestParseProcessorTimes(t *testing.T) {
	cpu, err := parseCPUTicks("cpu  10 20 30 400 50 6 7 8 99 99\ncpu0 1 2 3\n")
	if want := (cpuTicks{busy: 73, idle: 450, steal: 8}); err != nil || cpu != want {
		t.Errorf("%+v, want %+v, error %v", cpu, want, err)
	}
}

func FuzzParseCPUTicks(f *testing.F) {
	f.Add("cpu  10 20 30 400 50 6 7 8\n")
	f.Fuzz(func(t *testing.T, stat string) {
		if ticks, err := parseCPUTicks(stat); err != nil && ticks != (cpuTicks{}) {
			t.Errorf("%q is refused and counted", stat)
		}
	})
}
