package result

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/schema"
)

// fioText is what fio 3.36 wrote for two depths, shortened to what is read.
const fioText = `{"fio version":"fio-3.36","global options":{"rw":"randread","bs":"4k"},"jobs":[
{"jobname":"q8","job options":{"iodepth":"8"},
 "read":{"iops":54000.5,"total_ios":540005,"lat_ns":{"mean":147000},
  "clat_ns":{"mean":145000,"percentile":{"99.000000":300000}}}},
{"jobname":"q1","job options":{},
 "read":{"iops":27000,"total_ios":270000,"lat_ns":{"mean":36000},"clat_ns":{"mean":35000}}},
{"jobname":"write","read":{"iops":0,"total_ios":0}}]}`

func TestHardwareOfEveryForm(t *testing.T) {
	disk := &Disk{Points: []DiskPoint{
		{
			InFlight:       1,
			Reads:          9,
			ReadsPerSecond: 27000,
			MeanNanos:      36000,
			Spread:         Range{Low: 26000, High: 28000},
		},
		{InFlight: 8, ReadsPerSecond: 54000.5, MeanNanos: 147000},
	}}

	dir := t.TempDir()
	if err := WriteDisk(dir, disk); err != nil {
		t.Fatal(err)
	}

	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	for name, path := range map[string]string{
		"fio": write("fio.json", fioText),
		"nvme": write("own.json", `{"schema":"statelab.hardware/1","name":"nvme","points":[
			{"in_flight":8,"reads_per_second":54000.5,"mean_ns":147000},
			{"in_flight":1,"reads_per_second":27000,"mean_ns":36000}]}`),
		filepath.Base(dir): dir,
	} {
		h, err := ReadHardware(path)
		if err != nil {
			t.Fatal(err)
		}

		if h.Name != name || h.Schema != schema.Hardware || len(h.Points) != 2 {
			t.Fatalf("%+v", h)
		}

		one, eight := h.Points[0], h.Points[1]
		if one.InFlight != 1 || one.ReadsPerSecond != 27000 || one.MeanNanos != 36000 ||
			eight.InFlight != 8 || eight.ReadsPerSecond != 54000.5 {
			t.Errorf("%s: %+v", name, h.Points)
		}

		if eight.Spread != (Range{Low: 54000.5, High: 54000.5}) {
			t.Errorf("%s: a reading without a range has %+v", name, eight.Spread)
		}
	}
}

func TestHardwareRefusesWhatIsNoProfile(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "not JSON",
		`{"schema":"x"}`:      "fio --output-format=json",
		`{"fio version":"f"}`: "no reading with one read in flight",
		`{"schema":"statelab.hardware/1","points":[
			{"in_flight":1,"reads_per_second":0,"mean_ns":1}]}`: "both must be from",
		`{"schema":"statelab.hardware/1","points":[{"in_flight":1,"reads_per_second":1,"mean_ns":1},
			{"in_flight":1,"reads_per_second":1,"mean_ns":1}]}`: "twice",
		`{"fio version":"f","jobs":[{"jobname":"a","job options":{"iodepth":"-3"},
			"read":{"total_ios":1}}]}`: "is not a number of reads in flight",
	} {
		if h, err := ParseHardware([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", text, h, err, want)
		}
	}
}

// TestFioJobsAreWhatTheyAre: texts as fio 3.33 and fio 2.16 wrote them, shortened.
func TestFioJobsAreWhatTheyAre(t *testing.T) {
	fio := func(jobs string) string { return `{"fio version":"fio-3.33","jobs":[` + jobs + `]}` }
	job := func(name, group, options, iops, mean string) string {
		return `{"jobname":"` + name + `","groupid":` + group + `,"error":0,"job options":{` +
			options + `},"read":{"iops":` + iops +
			`,"total_ios":1000,"clat_ns":{"mean":` + mean +
			`,"percentile":{"99.000000":200000}},"lat_ns":{"mean":` + mean + `}}}`
	}

	random := `"rw":"randread","bs":"4k","direct":"1"`
	one := job("one", "0", random, "9000", "110000")
	for what, of := range map[string]struct {
		text string
		want []DiskPoint // in flight, reads, reads per second, mean
	}{
		"processes of a job": {fio(one + "," +
			job("two", "1", random+`,"numjobs":"2"`, "8000", "120000") + "," +
			job("two", "1", random+`,"numjobs":"2"`, "8500",
				"118000")),
			[]DiskPoint{
				{InFlight: 1, Reads: 1000, ReadsPerSecond: 9000, MeanNanos: 110000},
				{InFlight: 2, Reads: 2000, ReadsPerSecond: 16500, MeanNanos: 119000},
			}},
		"processes reported as a group": {fio(one + "," +
			job("four", "1", random+`,"numjobs":"4","iodepth":"2"`, "30000", "250000")),
			[]DiskPoint{
				{InFlight: 1, Reads: 1000, ReadsPerSecond: 9000, MeanNanos: 110000},
				{InFlight: 8, Reads: 1000, ReadsPerSecond: 30000, MeanNanos: 250000},
			}},
		"jobs at the same time": {fio(one + "," + job("a", "1", random, "8000", "120000") + "," +
			job("b", "1", random+`,"iodepth":"3"`, "20000", "140000")),
			[]DiskPoint{
				{InFlight: 1, Reads: 1000, ReadsPerSecond: 9000, MeanNanos: 110000},
				{InFlight: 4, Reads: 2000, ReadsPerSecond: 28000, MeanNanos: 130000},
			}},
		"fio 2's microseconds": {`{"fio version":"fio-2.16","jobs":[{"jobname":"one",` +
			`"groupid":0,"error":0,"job options":{` + random +
			`},"read":{"iops":9000,"total_ios":1000,` +
			`"clat":{"mean":109,"percentile":{"99.000000":200}},"lat":{"mean":110}}}]}`,
			[]DiskPoint{{InFlight: 1, Reads: 1000, ReadsPerSecond: 9000, MeanNanos: 110000}}},
	} {
		h, err := ParseHardware([]byte(of.text))
		if err != nil || len(h.Points) != len(of.want) {
			t.Errorf("%s: %+v, %v", what, h, err)
			continue
		}

		for i, want := range of.want {
			got := h.Points[i]
			if got.InFlight != want.InFlight || got.Reads != want.Reads ||
				got.ReadsPerSecond != want.ReadsPerSecond || got.MeanNanos != want.MeanNanos ||
				got.P99Nanos != 200000 {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
	}

	for options, want := range map[string]string{
		`"rw":"randread","bs":"128k"`:             "bs=128k: not reads of 4 KiB",
		`"rw":"read","bs":"4k"`:                   "rw=read: not random reads",
		`"bs":"4k"`:                               "rw=read: not random reads",
		`"readwrite":"randrw","blocksize":"4096"`: "rw=randrw: not random reads",
		random + `,"rate_iops":"100"`: "rate_iops=100: the disk was not read at full " +
			"speed",
	} {
		if h, err := ParseHardware([]byte(fio(job("one", "0", options, "100",
			"110000")))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", options, h, err, want)
		}
	}
}

func FuzzParseHardware(f *testing.F) {
	f.Add([]byte(fioText))
	f.Add([]byte(
		`{"schema":"statelab.disk/1","points":[{"in_flight":1,"reads_per_second":1,"mean_ns":1}]}`,
	))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ParseHardware(text)
		if err != nil {
			return
		}

		last := 0
		for _, p := range h.Points {
			if p.InFlight <= last || !(p.ReadsPerSecond > 0) || !(p.MeanNanos > 0) ||
				math.IsInf(p.MeanNanos, 0) || !(p.Spread.Low > 0) ||
				p.Spread.High < p.Spread.Low {
				t.Fatalf("%+v", h)
			}

			last = p.InFlight
		}
	})
}
