package kvdblog

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/statelab/statelab/result"
)

// published are the study's logs, which the predictor is tested against too.
const published = "../../../studies/bench_kvdb/logs"

// The study's table of both datasets, at four cache sizes: what its text says
// its logs show.
func TestImportAgreesWithTheStudysTable(t *testing.T) {
	folders, err := Import(os.DirFS(published), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != 3 || filepath.Base(folders[0]) != "200M" || filepath.Base(folders[1]) != "2B" || filepath.Base(folders[2]) != "20B" {
		t.Fatalf("folders %v, want 200M, 2B and 20B", folders)
	}
	for _, want := range []struct {
		folder                             int
		cache                              string
		reads                              float64
		filter, topIndex, index, data, all float64 // hit rates, %
	}{
		{0, "32MiB", 2.25, 98.5, 96.4, 2.1, 1.0, 77.3},
		{1, "284MiB", 2.18, 99.6, 97.8, 1.5, 0.7, 79.6},
		{0, "45MiB", 1.97, 100, 100, 9.1, 1.2, 80.1},
		{1, "452MiB", 1.95, 100, 100, 11.8, 0.9, 81.7},
		{0, "210MiB", 1.04, 100, 100, 98.2, 1.4, 89.5},
		{1, "2048MiB", 1.10, 100, 100, 93.1, 1.1, 89.7},
		{0, "225MiB", 1.03, 100, 100, 99.6, 1.5, 89.6},
		{1, "2263MiB", 1.07, 100, 100, 95.8, 1.2, 90.0},
	} {
		sweep, err := result.ReadSweep(folders[want.folder])
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, p := range sweep.Points {
			if p.Axes["cache"] != want.cache {
				continue
			}
			found = true
			if got := *p.Figures.BlockReadsPerGet; math.Abs(got-want.reads) > 0.006 {
				t.Errorf("%s %s: %.4f block reads per Get, the study says %.2f", sweep.Name, want.cache, got, want.reads)
			}
			for name, percent := range map[string]float64{"filter": want.filter, "top_index": want.topIndex, "index": want.index, "data": want.data, "all": want.all} {
				if got := 100 * p.Figures.HitRate[name]; math.Abs(got-percent) > 0.15 {
					t.Errorf("%s %s: %s hit rate %.2f%%, the study says %.1f%%", sweep.Name, want.cache, name, got, percent)
				}
			}
		}
		if !found {
			t.Errorf("%s: no point of %s", sweep.Name, want.cache)
		}
	}
}

func TestImportedSweepIsWhole(t *testing.T) {
	folders, err := Import(os.DirFS(published), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range folders {
		sweep, err := result.ReadSweep(folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(sweep.Points) != 10 {
			t.Errorf("%s: %d points, want 10", folder, len(sweep.Points))
		}
		// Sizes the study gives: IP1 32 MB, 284 MB and 2.52 GB, IP2 207 MB, 2.0 GB and 20.5 GB (its MB are MiB).
		ip1, ip2 := []float64{32, 284, 2.52 * 1024}[i], []float64{207, 2.0 * 1024, 20.5 * 1024}[i]
		if got := float64(sweep.Inflection.IP1.DiskBytes) / (1 << 20); math.Abs(got-ip1) > 0.02*ip1 {
			t.Errorf("%s: IP1 is %.1f MiB, the study says %.0f", folder, got, ip1)
		}
		if got := float64(sweep.Inflection.IP2.DiskBytes) / (1 << 20); math.Abs(got-ip2) > 0.03*ip2 {
			t.Errorf("%s: IP2 is %.1f MiB, the study says %.0f", folder, got, ip2)
		}
		for _, p := range sweep.Points {
			run, err := result.ReadRun(filepath.Join(folder, filepath.FromSlash(p.Run)))
			if err != nil {
				t.Fatal(err)
			}
			for _, check := range run.Checks {
				if !check.OK {
					t.Errorf("%s: %s: ours %v, theirs %v", p.Run, check.Name, check.Ours, check.Theirs)
				}
			}
			sum := 0.0
			for _, v := range p.Figures.BlockReadsPerGetByType {
				sum += v
			}
			if total := *p.Figures.BlockReadsPerGet; math.Abs(sum-total) > 1e-6 {
				t.Errorf("%s: types sum to %.6f of %.6f block reads per Get", p.Run, sum, total)
			}
			for _, figure := range []string{"device_reads_per_get", "service_ns", "cpu_ns_per_get"} {
				if run.Absent[figure] == "" {
					t.Errorf("%s: %s is absent without a reason", p.Run, figure)
				}
			}
			if run.Figures.DeviceReadsPerGet != nil || run.Figures.ServiceNanos != nil {
				t.Errorf("%s: figures that the logs do not hold", p.Run)
			}
		}
	}
}

func TestLoadIsImported(t *testing.T) {
	folders, err := Import(os.DirFS(published), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run, err := result.ReadRun(filepath.Join(folders[0], "load"))
	if err != nil {
		t.Fatal(err)
	}
	if run.Figures.Puts != 200_000_000 || math.Abs(run.Figures.PutsPerSecond-1_300_711) > 1 || *run.Figures.WriteAmplification != 8.4 {
		t.Errorf("puts %d at %.0f/s, write amplification %v: the log says 200000000, 1300711.49, 8.4",
			run.Figures.Puts, run.Figures.PutsPerSecond, *run.Figures.WriteAmplification)
	}
	if len(run.Warnings) != 1 || !strings.Contains(run.Warnings[0].Text, "9.20 GiB") {
		t.Errorf("warnings %v, want one of 9.20 GiB of compactions owed", run.Warnings)
	}
}

// Damage and lies are refused, with the line where there is one.
func TestDamagedReadLog(t *testing.T) {
	whole := readFixture(t, "RadmonRead_200M_135M.log")
	for name, damage := range map[string]struct {
		from, to string // "": cut the log at from
		want     string
	}{
		"cut within a row":     {"\t10338939\t", "", "line 54: "},
		"cut before the reads": {"Random read:", "", `without its "Random read" line: cut short?`},
		"no second table": {"\nCache Statistics:\n--------------------------------------------------------\nCaller\t\tHits\tMisses\tCalls\tHitRate\n" +
			"github.com/cockroachdb/pebble/sstable.(*Reader).readFilter\t35104011", "", "after 1 of 2 tables"},
		"calls that do not add up":  {"346507\t590\t347097", "346507\t590\t347098", "line 8: (*Reader).readFilter: 346507 hits and 590 misses are not 347098 calls"},
		"totals that fall":          {"35104011\t1081\t35105092", "346000\t590\t346590", "totals cannot fall"},
		"a negative count":          {"Miss Count: 14448981", "Miss Count: -1", "line 16: "},
		"a count beyond all counts": {"Miss Count: 14448981", "Miss Count: 99999999999999999999", "line 16: "},
		"an unknown call site":      {"readMetaindex", "readBlob", `"(*Reader).readBlob" is not known`},
		"no Gets":                   {"Random read: 10000000 ops", "Random read: 0 ops", "nothing was measured"},
		"the same line twice":       {"Threads: 64\n", "Threads: 64\nThreads: 32\n", `line 2: a second "Threads", the first is in line 1`},
	} {
		at := strings.Index(whole, damage.from)
		if at < 0 {
			t.Fatalf("%s: the log holds no %q", name, damage.from)
		}
		text := whole[:at] + damage.to
		if damage.to != "" {
			text += whole[at+len(damage.from):]
		}
		_, err := parseReadLog(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), damage.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, damage.want)
		}
	}
}

// A log that contradicts its name is refused; one whose counters contradict
// each other is imported with a failed check.
func TestLogAgainstItsName(t *testing.T) {
	text := readFixture(t, "RadmonRead_200M_135M.log")
	properties := readFixture(t, "Properties_200M.log")
	dir := func(name, text string) fstest.MapFS {
		return fstest.MapFS{name: {Data: []byte(text)}, "Properties_200M.log": {Data: []byte(properties)}, "Properties_2B.log": {Data: []byte(properties)}}
	}
	for _, bad := range []struct{ name, want string }{
		{"RadmonRead_2B_135M.log", "the log is of 200000000 keys"},
		{"RadmonRead_200M_90M.log", "the log's cache holds 135 MiB at the end"},
		{"RadmonRead_200M_big.log", "the name does not say keys and cache"},
		{"RadmonRead_200M_0M.log", "not a cache size"},
		{"RadmonRead_7B_135M.log", "the layout of the 7B-key database"},
	} {
		out := t.TempDir()
		if _, err := Import(dir(bad.name, text), out); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: error %v, want one with %q", bad.name, err, bad.want)
		}
		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("%s: %d files were written (%v)", bad.name, len(left), err)
		}
	}

	lie := strings.Replace(text, "BlockCache: Hit Count 84542065; Miss Count: 14448981", "BlockCache: Hit Count 84542065; Miss Count: 13000000", 1)
	folders, err := Import(dir("RadmonRead_200M_135M.log", lie), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run, err := result.ReadRun(filepath.Join(folders[0], "points", "001"))
	if err != nil {
		t.Fatal(err)
	}
	if run.Checks[0].OK || !run.Checks[1].OK || run.Checks[2].OK {
		t.Errorf("checks %v %v %v, want failed, passed, failed", run.Checks[0].OK, run.Checks[1].OK, run.Checks[2].OK)
	}
}

func TestNoLogs(t *testing.T) {
	if _, err := Import(fstest.MapFS{"README": {}}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "RadmonRead_<keys>_<cache>M.log") {
		t.Errorf("error %v, want one that says what to look for", err)
	}
}

// What is parsed must be consistent whatever the bytes were.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte(readFixture(f, "RadmonRead_200M_23M.log")))
	f.Add([]byte(readFixture(f, "RadmonRead_2B_6789M.log")))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := parseReadLog(bytes.NewReader(text))
		if err != nil {
			return
		}
		figures := log.figures()
		for name, rate := range figures.HitRate {
			if !(rate >= 0 && rate <= 1) {
				t.Errorf("hit rate of %s is %v", name, rate)
			}
		}
		for name, reads := range figures.BlockReadsPerGetByType {
			if !(reads >= 0) || math.IsInf(reads, 0) {
				t.Errorf("%v block reads per Get of %s", reads, name)
			}
		}
		log.checks()
	})
}

func FuzzWriteLog(f *testing.F) {
	f.Add([]byte(readFixture(f, "Write_200M.log")))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := parseWriteLog(bytes.NewReader(text))
		if err == nil && (log.puts == 0 || !(log.millis > 0) || !(log.writeAmplification >= 0)) {
			t.Errorf("accepted %+v", log)
		}
	})
}

func readFixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(published, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
