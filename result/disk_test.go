package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/result/figure"
)

func TestDiskBetweenItsPoints(t *testing.T) {
	d := &Disk{Points: []DiskPoint{
		{
			InFlight:       1,
			ReadsPerSecond: 10_000,
			MeanNanos:      100_000,
			P99Nanos:       200_000,
			Spread:         Range{9_000, 11_000},
		},
		{
			InFlight:       5,
			ReadsPerSecond: 30_000,
			MeanNanos:      140_000,
			P99Nanos:       600_000,
			Spread:         Range{29_000, 33_000},
		},
	}}

	for _, c := range []struct {
		inFlight, reads, mean, p99 float64
		ok                         bool
	}{
		{0.5, 0, 0, 0, false},
		{1, 10_000, 100_000, 200_000, true},
		{2, 15_000, 110_000, 300_000, true},
		{5, 30_000, 140_000, 600_000, true},
		{64, 30_000, 140_000, 600_000, true},
	} {
		p, ok := d.At(c.inFlight)
		if ok != c.ok || p.ReadsPerSecond != c.reads || p.MeanNanos != c.mean ||
			p.P99Nanos != c.p99 {
			t.Errorf("at %v in flight: %+v, %v", c.inFlight, p, ok)
		}
	}

	if _, ok := (*Disk)(nil).At(4); ok {
		t.Error("a disk nobody measured has a limit")
	}
}

func TestDiskComesBack(t *testing.T) {
	dir := t.TempDir()
	want := &Disk{Dir: "d", BlockBytes: 4096, Repeats: 3,
		Points: []DiskPoint{{
			InFlight:       1,
			Reads:          7,
			ReadsPerSecond: 10,
			MeanNanos:      1e8,
			P99Nanos:       2e8,
			Spread:         Range{9, 11},
		}}}

	if err := WriteDisk(dir, want); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{dir, filepath.Join(dir, DiskFile)} {
		got, err := ReadDisk(path)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestDamagedDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.json")
	for text, want := range map[string]string{
		`{"schema":"statelab.disk/2"}`:                            `"statelab.disk/2"`,
		`{"schema":"statelab.disk/1","points":[{"in_flight":1}]}`: "damaged",
		`{"schema":"statelab.disk/1","points":[{"in_flight":2,"reads_per_second":1,"mean_ns":1},` +
			`{"in_flight":2,"reads_per_second":1,"mean_ns":1}]}`: "2 in flight after 2",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := ReadDisk(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestContradictedProbe(t *testing.T) {
	steady := []DiskPoint{
		{InFlight: 1, ReadsPerSecond: 100, Spread: Range{80, 120}},
		{InFlight: 5, ReadsPerSecond: 300, Spread: Range{200, 400}},
	}

	for _, c := range []struct {
		about    string
		points   []DiskPoint
		measured []DiskPoint
		want     string
	}{
		{"below the limit", steady,
			[]DiskPoint{{InFlight: 1, ReadsPerSecond: 90}, {InFlight: 5, ReadsPerSecond: 300}}, ""},
		{"within the noise", steady, []DiskPoint{{InFlight: 1, ReadsPerSecond: 110}}, ""},
		{"beyond the limit", steady,
			[]DiskPoint{{InFlight: 1, ReadsPerSecond: 90}, {InFlight: 3, ReadsPerSecond: 221}},
			"200 reads/s with 3 in flight, the engine then made 221"},
		{"no number in flight so small", steady, []DiskPoint{{InFlight: 0, ReadsPerSecond: 1e6}},
			""},
		{"far fewer with more in flight",
			[]DiskPoint{{InFlight: 4, ReadsPerSecond: 20_003, Spread: Range{20_003, 20_003}},
				{InFlight: 16, ReadsPerSecond: 1367, Spread: Range{1367, 1367}}}, nil,
			"20003 reads/s with 4 in flight, but 1367 with 16"},
		{"spread", []DiskPoint{{InFlight: 8, ReadsPerSecond: 39, Spread: Range{11, 478}}}, nil,
			"11 to 478 reads/s"},
	} {
		d := &Disk{Points: c.points}
		got := d.FindContradiction(c.measured...)
		if got != d.Contradicted || (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q, kept %q, want %q", c.about, got, d.Contradicted, c.want)
		}

		if again := d.FindContradiction(); again != got {
			t.Errorf("%s: %q, then %q", c.about, got, again)
		}
	}

	reads := 2.0
	p := Point{Axes: map[string]string{"threads": "5"},
		Figures: Figures{Set: figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: 200,
			figure.DeviceReadsPerGet: reads})}}
	if got := p.DeviceReads(1); got.InFlight != 5 || got.ReadsPerSecond != 400 {
		t.Errorf("%+v", got)
	}

	if got := (Point{Figures: Figures{Set: figure.SetOf(map[figure.Figure]float64{
		figure.GetsPerSecond: 200,
	})}}).DeviceReads(8); got.InFlight != 8 ||
		got.ReadsPerSecond != 0 {
		t.Errorf("not counted: %+v", got)
	}

	if got := (*Disk)(nil).FindContradiction(steady...); got != "" {
		t.Errorf("a disk nobody measured: %q", got)
	}
}
