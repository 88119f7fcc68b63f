package kvdblog

import (
	"bytes"
	"cmp"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// published are the study's logs, which are not part of this repository: a folder that
// STATELAB_BENCH_KVDB_LOGS names, or one beside the repository.
func published(t *testing.T) fs.FS {
	t.Helper()
	dir := cmp.Or(os.Getenv("STATELAB_BENCH_KVDB_LOGS"), "../../../../shared/data/bench_kvdb")
	if found, err := filepath.Glob(filepath.Join(dir, "RadmonRead_*.log")); err != nil ||
		len(found) == 0 {
		t.Skipf("%s has no logs of bench_kvdb: name their folder in STATELAB_BENCH_KVDB_LOGS", dir)
	}
	return os.DirFS(dir)
}

// The study's table of both datasets, at four cache sizes: what its text says
// its logs show.
func TestImportAgreesWithTheStudysTable(t *testing.T) {
	folders, err := Import(published(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if len(folders) != 3 || filepath.Base(folders[0]) != "200M" ||
		filepath.Base(folders[1]) != "2B" || filepath.Base(folders[2]) != "20B" {
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
			if got := p.Figures.OrZero(figure.BlockReadsPerGet); math.Abs(got-want.reads) > 0.006 {
				t.Errorf("%s %s: %.4f block reads per Get, the study says %.2f", sweep.Name,
					want.cache, got, want.reads)
			}

			for name, percent := range map[string]float64{
				"filter":    want.filter,
				"top_index": want.topIndex,
				"index":     want.index,
				"data":      want.data,
				"all":       want.all,
			} {
				if got := 100 * p.Figures.HitRate[name]; math.Abs(got-percent) > 0.15 {
					t.Errorf("%s %s: %s hit rate %.2f%%, the study says %.1f%%", sweep.Name,
						want.cache, name, got, percent)
				}
			}
		}

		if !found {
			t.Errorf("%s: no point of %s", sweep.Name, want.cache)
		}
	}
}

// The figures of the logs that the study and the tests of the predictor use are those that Import
// finds in them.
func TestStoredFiguresAreTheLogs(t *testing.T) {
	folders, err := Import(published(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	for i, name := range []string{"small", "medium", "large"} {
		made, err := result.ReadSweep(folders[i])
		if err != nil {
			t.Fatal(err)
		}

		stored, err := result.ReadSweep(filepath.Join("../../../studies/bench_kvdb/runs",
			"published-"+name))
		if err != nil {
			t.Fatal(err)
		}

		if diff := gocmp.Diff(stored.Database.Levels, made.Database.Levels); diff != "" {
			t.Errorf("%s: other levels than in the log:\n%s", name, diff)
		}

		for j, p := range made.Points {
			q := stored.Points[j]
			now, then := p.Figures, q.Figures
			if q.CacheBytes != p.CacheBytes ||
				then.OrZero(figure.BlockReadsPerGet) != now.OrZero(figure.BlockReadsPerGet) ||
				gocmp.Diff(then.HitRate, now.HitRate) != "" {
				t.Errorf("%s: point %d differs from its log", name, j)
			}
		}
	}
}

func TestImportedSweepIsWhole(t *testing.T) {
	folders, err := Import(published(t), t.TempDir())
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

		// Sizes the study gives: IP1 32 MB, 284 MB and 2.52 GB, IP2 207 MB, 2.0 GB and 20.5 GB (its
		// MB are MiB).
		ip1, ip2 := []float64{32, 284, 2.52 * 1024}[i], []float64{207, 2.0 * 1024, 20.5 * 1024}[i]
		disk1 := float64(sweep.Inflection.IP1.DiskBytes) / (1 << 20)
		if math.Abs(disk1-ip1) > 0.02*ip1 {
			t.Errorf("%s: IP1 is %.1f MiB, the study says %.0f", folder, disk1, ip1)
		}

		disk2 := float64(sweep.Inflection.IP2.DiskBytes) / (1 << 20)
		if math.Abs(disk2-ip2) > 0.03*ip2 {
			t.Errorf("%s: IP2 is %.1f MiB, the study says %.0f", folder, disk2, ip2)
		}

		for _, p := range sweep.Points {
			run, err := result.ReadRun(filepath.Join(folder, filepath.FromSlash(p.Run)))
			if err != nil {
				t.Fatal(err)
			}

			for _, check := range run.Checks {
				if !check.OK {
					t.Errorf("%s: %s: ours %v, theirs %v", p.Run, check.Name, check.Ours,
						check.Theirs)
				}
			}

			sum := 0.0
			for _, v := range p.Figures.BlockReadsPerGetByType {
				sum += v
			}

			if total := p.Figures.OrZero(figure.BlockReadsPerGet); math.Abs(sum-total) > 1e-6 {
				t.Errorf("%s: types sum to %.6f of %.6f block reads per Get", p.Run, sum, total)
			}

			for _, f := range []figure.Figure{
				figure.DeviceReadsPerGet, figure.ServiceTime, figure.CPUTimePerGet,
			} {
				if run.Reasons()[f.Key] == "" {
					t.Errorf("%s: %s is absent without a reason", p.Run, f.Key)
				}
			}

			if run.Figures.Has(figure.DeviceReadsPerGet) || run.Figures.ServiceNanos != nil {
				t.Errorf("%s: figures that the logs do not hold", p.Run)
			}
		}
	}
}

func TestLoadIsImported(t *testing.T) {
	folders, err := Import(os.DirFS("testdata"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	run, err := result.ReadRun(filepath.Join(folders[0], "load"))
	if err != nil {
		t.Fatal(err)
	}

	if run.Figures.Puts != 3_000_000 || run.Figures.OrZero(figure.PutsPerSecond) != 750_000 ||
		run.Figures.OrZero(figure.WriteAmplification) != 3.3 {
		t.Errorf("puts %d at %.0f/s, write amplification %v: the log says 3000000, 750000, 3.3",
			run.Figures.Puts, run.Figures.OrZero(figure.PutsPerSecond),
			run.Figures.OrZero(figure.WriteAmplification))
	}

	if len(run.Warnings) != 1 || !strings.Contains(run.Warnings[0].Text, "21.0 MiB") {
		t.Errorf("warnings %v, want one of 21.0 MiB of compactions owed", run.Warnings)
	}
}

// What the warm-up read is left out, and every figure is of the measured Gets.
func TestFiguresOfALog(t *testing.T) {
	folders, err := Import(os.DirFS("testdata"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	run, err := result.ReadRun(filepath.Join(folders[0], "points", "001"))
	if err != nil {
		t.Fatal(err)
	}

	for _, check := range run.Checks {
		if !check.OK {
			t.Errorf("%s: ours %v, theirs %v", check.Name, check.Ours, check.Theirs)
		}
	}

	f := run.Figures
	if f.Gets != 100_000 || f.OrZero(figure.GetsPerSecond) != 40_000 ||
		f.OrZero(figure.BlockReadsPerGet) != 2.5 || f.HitRate["filter"] != 304./330 ||
		f.HitRate["top_index"] != 40./43 ||
		f.HitRate["index"] != 0.05 || f.HitRate["data"] != 0.01 || f.HitRate["all"] != 71./96 ||
		f.BlockReadsPerGetByType["data"] != 0.99 {
		t.Errorf("%+v", f)
	}
}

func TestPublishedLevelTables(t *testing.T) {
	logs := published(t)
	for _, c := range []struct {
		file                            string
		keys, files, blocks, partitions int64
		ip1MB, ip2MB                    float64 // as the study prints them
		filterMB                        float64
	}{
		{"Properties_200M.log", 200_000_000, 1418, 7410079, 47131 - 1418, 31.6, 207, 238},
		{"Properties_2B.log", 2_000_000_000, 7105, 74079282, 467878 - 7105, 284, 1.98 * 1024,
			2.3 * 1024},
		{"Properties_20B.log", 20_000_000_000, 34647, 740758014, 4730934 - 34647, 2.5 * 1024,
			20 * 1024, 23 * 1024},
	} {
		text, err := fs.ReadFile(logs, c.file)
		if err != nil {
			t.Fatal(err)
		}

		levels, err := lsm.ParseProperties(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}

		var keys, files, blocks, partitions, filters int64
		for _, l := range levels {
			keys += l.Keys
			files += int64(l.Files)
			blocks += l.DataBlocks
			partitions += l.IndexBlocks
			filters += l.FilterBytes
		}

		if files != c.files || blocks != c.blocks || partitions != c.partitions {
			t.Errorf("%s: %d files, %d blocks, %d index blocks", c.file, files, blocks, partitions)
		}

		if off := relative(float64(keys), float64(c.keys)); off > 0.002 {
			t.Errorf("%s: %d keys, off by %.2f %%", c.file, keys, 100*off)
		}

		if off := relative(float64(filters)/(1<<20), c.filterMB); off > 0.03 {
			t.Errorf("%s: %d bytes of filters, off by %.2f %%", c.file, filters, 100*off)
		}

		in := lsm.Inflect(levels, nil, 1)
		if ip1 := float64(in.IP1.DiskBytes) / (1 << 20); relative(ip1, c.ip1MB) > 0.03 {
			t.Errorf("%s: IP1 %.1f MiB, the study says %.1f", c.file, ip1, c.ip1MB)
		}

		if ip2 := float64(in.IP2.DiskBytes) / (1 << 20); relative(ip2, c.ip2MB) > 0.03 {
			t.Errorf("%s: IP2 %.0f MiB, the study says %.0f", c.file, ip2, c.ip2MB)
		}
	}
}

func relative(have, want float64) float64 {
	return max(have-want, want-have) / want
}

// Damage and lies are refused, with the line where there is one.
func TestDamagedReadLog(t *testing.T) {
	whole := readFixture(t, "RadmonRead_3M_2M.log")
	for name, damage := range map[string]struct {
		from, to string // "": cut the log at from
		want     string
	}{
		"cut within a row": {"\t100470\t", "", "line 34: "},
		"cut before the reads": {"Random read:", "",
			`without its "Random read" line: cut short?`},
		"no second table": {whole[strings.LastIndex(whole, "\nCache Statistics:"):], "",
			"after 1 of 2 tables"},
		"calls that do not add up": {"4500\t500\t5000", "4500\t500\t5001",
			"line 8: (*Reader).readFilter: 4500 hits and 500 misses are not 5001 calls"},
		"totals that fall": {"308500\t26500\t335000", "4400\t500\t4900",
			"totals cannot fall"},
		"a negative count": {"Miss Count: 250000", "Miss Count: -1", "line 16: "},
		"a count beyond all counts": {"Miss Count: 250000", "Miss Count: 99999999999999999999",
			"line 16: "},
		"an unknown call site": {"readMetaindex", "readBlob",
			`"(*Reader).readBlob" is not known`},
		"no Gets": {"Random read: 100000 ops", "Random read: 0 ops",
			"nothing was measured"},
		"the same line twice": {"Threads: 16\n", "Threads: 16\nThreads: 32\n",
			`line 2: a second "Threads", the first is in line 1`},
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
	text := readFixture(t, "RadmonRead_3M_2M.log")
	properties := readFixture(t, "Properties_3M.log")
	dir := func(name, text string) fstest.MapFS {
		return fstest.MapFS{
			name:                {Data: []byte(text)},
			"Properties_3M.log": {Data: []byte(properties)},
			"Properties_2B.log": {Data: []byte(properties)},
		}
	}

	for _, bad := range []struct{ name, want string }{
		{"RadmonRead_2B_2M.log", "the log is of 3000000 keys"},
		{"RadmonRead_3M_1M.log", "the log's cache holds 1.90 MiB at the end"},
		{"RadmonRead_3M_big.log", "the name does not say keys and cache"},
		{"RadmonRead_3M_0M.log", "not a cache size"},
		{"RadmonRead_7B_2M.log", "the layout of the 7B-key database"},
	} {
		out := t.TempDir()
		if _, err := Import(dir(bad.name, text), out); err == nil ||
			!strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: error %v, want one with %q", bad.name, err, bad.want)
		}

		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("%s: %d files were written (%v)", bad.name, len(left), err)
		}
	}

	lie := strings.Replace(text, "BlockCache: Hit Count 710000; Miss Count: 250000",
		"BlockCache: Hit Count 710000; Miss Count: 200000", 1)
	folders, err := Import(dir("RadmonRead_3M_2M.log", lie), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	run, err := result.ReadRun(filepath.Join(folders[0], "points", "001"))
	if err != nil {
		t.Fatal(err)
	}

	if run.Checks[0].OK || !run.Checks[1].OK || run.Checks[2].OK {
		t.Errorf("checks %v %v %v, want failed, passed, failed", run.Checks[0].OK,
			run.Checks[1].OK, run.Checks[2].OK)
	}
}

func TestNoLogs(t *testing.T) {
	if _, err := Import(fstest.MapFS{"README": {}}, t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "RadmonRead_<keys>_<cache>M.log") {
		t.Errorf("error %v, want one that says what to look for", err)
	}
}

// What is parsed must be consistent whatever the bytes were.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte(readFixture(f, "RadmonRead_3M_2M.log")))
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
	f.Add([]byte(readFixture(f, "Write_3M.log")))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := parseWriteLog(bytes.NewReader(text))
		if err == nil && (log.puts == 0 || !(log.millis > 0) || !(log.writeAmplification >= 0)) {
			t.Errorf("accepted %+v", log)
		}
	})
}

func readFixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
