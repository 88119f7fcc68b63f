package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/result"
)

func tuningOf(t *testing.T, text string) (found tuned.Tuning) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return found
}

// TestTunedIsMeasured: what tune recommends is built and measured, and comes within 3 % of what it
// said. The database has blocks of 1 KiB, whose indexes need more than the memory, so larger ones
// must win.
func TestTunedIsMeasured(t *testing.T) {
	testring.Outer(t, "it measures what was proposed")
	for engine, options := range map[string]string{
		"pebble1": levelled + "BlockSize=1KiB", "pebble2": levelled + "BlockSize=1KiB",
		"rocksdb": "block_size=1024 " + steadyRocks,
		// no compactions
		"goleveldb": "BloomBitsPerKey=10 WriteBuffer=4MiB CompactionL0Trigger=1000000 " +
			"CompactionTotalSize=1024GiB",
	} {
		t.Run(engine, func(t *testing.T) {
			if testing.Short() && (engine == "pebble1" || engine == "goleveldb") {
				t.Skip("as pebble2, or TestTunedLevelSnippet")
			}

			memory, keys := "1500KiB", "200k"
			switch engine {
			case "rocksdb":
				withCRunners(t)
			case "goleveldb": // whose buffers for blocks of metadata are larger than these
				memory, keys = "4MiB", "100k"
			}

			db := filepath.Join(t.TempDir(), "D")
			must(t,
				append([]string{"load", "--engine", engine, "--keys", keys, "--db", db, "--quiet"},
					tunedFlags(options)...)...)
			before := fingerprint(t, db)
			out := filepath.Join(t.TempDir(), "T")
			o := must(t, "tune", "--db", db, "--memory", memory, "--missing", "30%", "--seeds",
				"1", "--gets", "30k", "--verify", "--out", out, "--json", "--quiet")
			found := tuningOf(t, o.stdout)
			// With more processors the cache has more shards, which hold fewer large blocks.
			won := !found.Tied && found.Best.Reads < 0.95*found.Present.Reads &&
				tuned.OptionList(found.Best.Options) != tuned.OptionList(found.Present.Options)
			if !won && runtime.NumCPU() <= 2 && strings.HasPrefix(engine, "pebble") {
				t.Errorf("present %+v, best %+v", found.Present, found.Best)
			}

			if len(found.Verified) < 1 {
				t.Fatalf("verified %+v", found.Verified)
			}

			for i, p := range found.Verified {
				// The present options are measured in the database itself, of which the Gets were
				// traced.
				if off := math.Abs(p.Off()); off > 0.03 || i == 0 && off > 0.01 {
					t.Errorf("%v: predicted %.4f, measured %.4f", p.Options, p.Predicted,
						p.Measured)
				}
			}

			if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
				t.Errorf("the database was changed:\n%s", diff)
			}

			page, err := os.ReadFile(filepath.Join(out, "report.html"))
			if err != nil || found.Answer == "" ||
				!strings.Contains(string(page), html.EscapeString(found.Answer)) {
				t.Errorf("the page: %v", err)
			}
		})
	}
}

// levelled is for databases with several levels in few keys.
const levelled = "LBaseMaxBytes=1MiB MemTableSize=1MiB TargetFileSize=256KiB "

// steadyRocks lets writes wait for each compaction: databases of the same keys get the same levels.
const steadyRocks = "write_buffer_size=1048576 target_file_size_base=524288 " +
	"max_bytes_for_level_base=2097152 level0_stop_writes_trigger=4 " +
	"level0_slowdown_writes_trigger=4 soft_pending_compaction_bytes_limit=1 " +
	"hard_pending_compaction_bytes_limit=1"

// tunedFlags are flags for options.
func tunedFlags(options string) (flags []string) {
	for _, o := range strings.Fields(options) {
		flags = append(flags, "--set", o)
	}
	return flags
}

// TestTunedOptionsFile: a database that is loaded with the lines of the answer has them in the
// OPTIONS file that RocksDB writes itself, and a second look at its tables finds them.
func TestTunedOptionsFile(t *testing.T) {
	withCRunners(t)
	found := tuningOf(t,
		must(t, "tune", "--keys", "2M", "--engine", "rocksdb", "--memory", "4MiB", "--seeds", "1",
			"--gets", "30k",
			"--timeout", "20s", "--goal", "bytes",
			"--value-model", "trie-node", "--json", "--quiet").stdout)

	if found.Best.Bytes >= found.Present.Bytes || found.Best.Options["compression"] != "kZSTD" {
		t.Errorf("%+v", found)
	}

	var lines []string
	for line := range strings.Lines(found.Snippet) {
		if line = strings.TrimSpace(line); strings.Contains(line, "=") &&
			!strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}

	db := filepath.Join(t.TempDir(), "D")
	must(t,
		append([]string{"load", "--engine", "rocksdb", "--keys", "50k", "--db", db, "--quiet"},
			tunedFlags(strings.Join(lines, " "))...)...)
	files, err := filepath.Glob(filepath.Join(db, "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}

	text, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}

	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if in := "\n  " + name + "="; !strings.Contains(string(text), in) ||
			name != "filter_policy" && !strings.Contains(string(text), in+value+"\n") {
			t.Errorf("RocksDB's OPTIONS file does not have %s:\n%s", line, text)
		}
	}

	again := tuningOf(t,
		must(t, "tune", "--db", db, "--memory", "8MiB", "--seeds", "1", "--gets", "30k",
			"--timeout", "1s", "--json", "--quiet").stdout)
	if tuned.OptionList(again.Present.Options) != tuned.OptionList(found.Best.Options) {
		t.Errorf("the tables have %v, recommended were %v", again.Present.Options,
			found.Best.Options)
	}
}

// TestTuneGoesOn: a search that is killed goes on from what it has predicted, and finds what one
// finds that was not.
func TestTuneGoesOn(t *testing.T) {
	dir := t.TempDir()
	args := func(out string, more ...string) []string {
		all := []string{"tune", "--keys", "100k", "--memory", "600KiB", "--cores", "2", "--seeds",
			"1", "--gets", "30k", "--timeout", "20m", "--quiet"}
		return append(append(all, "--out", filepath.Join(dir, out)), more...)
	}

	must(t, args("whole")...)
	kept := filepath.Join(dir, "killed", "predicted.json")
	s := start(t, args("killed")...)
	for began := time.Now(); time.Since(began) < tooLong; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(kept); err == nil {
			break
		}
	}

	s.signal(syscall.SIGKILL)
	s.wait()
	before, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}

	refused(t, statelab(t, args("killed", "--missing", "10%")...), exitFailed, "other flags",
		"choose another folder")
	if err := os.WriteFile(kept, before[:len(before)/2], 0o644); err != nil {
		t.Fatal(err)
	}

	refused(t, statelab(t, args("killed")...), exitFailed, "cut short")
	if err := os.WriteFile(kept, before, 0o644); err != nil {
		t.Fatal(err)
	}

	must(t, args("killed")...)
	if _, err := os.Stat(kept); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", kept, err)
	}

	answer := func(out string) string {
		text, err := os.ReadFile(filepath.Join(dir, out, "tuning.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	if diff := cmp.Diff(answer("whole"), answer("killed")); diff != "" {
		t.Error(diff)
	}

	// What is kept is not predicted again: so what it says comes out.
	other := regexp.MustCompile(`"disk_bytes": \d+`).ReplaceAll(before, []byte(`"disk_bytes": 1`))
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "other"), 0o755),
		os.WriteFile(filepath.Join(dir, "other", "predicted.json"), other, 0o644)); err != nil {
		t.Fatal(err)
	}

	must(t, args("other")...)
	if found := tuningOf(t, answer("other")); found.Present.Disk != 1 {
		t.Errorf("predicted again: %+v", found.Present)
	}
}

// TestTuneRefuses databases of engines without such tables.
func TestTuneRefuses(t *testing.T) {
	db := filepath.Join(t.TempDir(), "D")
	must(t, "load", "--engine", "bbolt", "--keys", "1k", "--db", db, "--quiet")
	refused(t, statelab(t, "tune", "--db", db, "--memory", "64MiB"), exitUsage,
		"--db: a database of bbolt; tune supports pebble1, pebble2, goleveldb, rocksdb",
		"statelab sweep")
	refused(t, statelab(t, "tune", "--keys", "1k", "--memory", "64MiB", "--read-time", "1ms"),
		exitUsage, "--read-time: only with --goal time")
	refused(t, statelab(t, "tune", "--keys", "1k", "--memory", "64MiB", "--gets", "3M"), exitUsage,
		"--gets 3M: must be from 1k to 2M")
	refused(t, statelab(t, "tune", "--db", db, "--trace", db, "--memory", "64MiB", "--gets", "3k"),
		exitUsage, "--gets: only of random Gets")
}

// TestTuneForTime: a Get takes what was measured of the processor, and so long for each read. Few
// keys fit into the databases in which costs are measured when their values are large.
func TestTuneForTime(t *testing.T) {
	tuneForTime(t, "2k", "--keys", "4k", "--value-bytes", "2000", "--set", "MemTableSize=1MiB")
}

func TestTuneForTimeOfSmallValues(t *testing.T) {
	testring.Outer(t, "it measures what Gets of 100,000 keys cost")
	tuneForTime(t, "30k", "--keys", "100k", "--value-model", "trie-node")
}

func tuneForTime(t *testing.T, gets string, load ...string) {
	db := filepath.Join(t.TempDir(), "D")
	must(t, append([]string{"load", "--engine", "pebble2", "--set", "LBaseMaxBytes=1MiB", "--db",
		db, "--quiet"}, load...)...)
	found := tuningOf(t,
		must(t, "tune", "--db", db, "--memory", "2MiB", "--missing", "30%", "--goal", "time",
			"--read-time", "80us", "--seeds", "1", "--gets", gets,
			"--json", "--quiet").stdout)

	const block = 4 << 10
	if k := found.Costs; k == nil || k.Get < 0 || k.Get+block*k.GetByte <= 0 || k.Read < 0 ||
		k.Read+block*k.ReadByte["none"] <= 0 || len(k.ReadByte) != 3 {
		t.Errorf("costs %+v", k)
	}

	for _, c := range append(found.Front, found.Present, found.Best) {
		cpu, time := c.CPU.OrZero(), c.Time.OrZero()
		if cpu <= 0 || math.Abs(time-cpu-80*c.Reads) > 1e-6 ||
			time < 0.99*found.Best.Time.OrZero() {
			t.Errorf("%+v", c)
		}
	}
}

// TestTuneWithoutADatabase: of a database that was never built, larger blocks need less metadata.
func TestTuneWithoutADatabase(t *testing.T) {
	testring.Outer(t, "it simulates 22 configurations; TestTuneGoesOn has a smaller one")
	found := tuningOf(t,
		must(t, "tune", "--keys", "1M", "--memory", "1MiB", "--cores", "2", "--seeds", "1",
			"--gets", "30k", "--json", "--quiet").stdout)
	if found.Tied || found.Best.Reads >= found.Present.Reads ||
		found.Best.High < found.Best.Reads ||
		!strings.Contains(found.Snippet, "IndexBlockSize = ") {
		t.Errorf("%+v", found)
	}
}

// TestTunedSnippet: a program that has the answer's options pasted into it writes tables of these
// options, as its own OPTIONS file and a second look at its database say.
func TestTunedSnippet(t *testing.T) { tunedSnippet(t, "50k", "2MiB", "2k", "pebble2") }

func TestTunedSnippetOfMoreKeys(t *testing.T) {
	testring.Outer(t, "it links two programs")
	tunedSnippet(t, "100k", "4MiB", "30k", "pebble1", "pebble2")
}

func tunedSnippet(t *testing.T, keys, memory, gets string, engines ...string) {
	paths := map[string]string{
		"pebble1": "github.com/cockroachdb/pebble",
		"pebble2": "github.com/cockroachdb/pebble/v2",
	}

	for _, engine := range engines {
		path := paths[engine]
		t.Run(engine, func(t *testing.T) {
			dir := t.TempDir()
			small := filepath.Join(dir, "small")
			must(t,
				append([]string{"load", "--engine", engine, "--keys", keys, "--value-model",
					"trie-node", "--db", small, "--quiet"},
					tunedFlags(levelled)...)...)

			// Half of the keys are absent: so the look-up must ask the last level's filters.
			found := tuningOf(t,
				must(t, "tune", "--db", small, "--memory", memory, "--missing", "50%", "--cores",
					"2", "--seeds", "1", "--gets", gets,
					"--goal", "bytes", "--timeout", "20m", "--json", "--quiet").stdout)

			if found.Lookup == "" || found.Best.Options["Compression"] == "" {
				t.Fatalf("no filters of the last level, or no compression: %+v", found.Best)
			}

			compression := ""
			if engine == "pebble2" {
				compression = `"` + path + `/sstable"`
			}

			program, db := filepath.Join(dir, "main.go"), filepath.Join(dir, "D")
			text := fmt.Sprintf(`package main

import (
	"bytes"
	"math/rand"
	"os"

	"%s"
	"%s/bloom"
	%s
)

var _ = bloom.FilterPolicy(10) // there may be no filters

func main() {
	options := new(pebble.Options)
%s	db, err := pebble.Open(os.Args[1], options)
	if err != nil {
		panic(err)
	}
	random, key, value := rand.New(rand.NewSource(1)), make([]byte, 32), make([]byte, 100)
	for range 20000 { // which one memtable holds
		random.Read(key)
		random.Read(value)
		if err := db.Set(key, value, pebble.NoSync); err != nil {
			panic(err)
		}
	}
	if err := db.Flush(); err != nil {
		panic(err)
	}
	%s
	if found, err := get(db, key); err != nil || !bytes.Equal(found, value) {
		panic(err)
	}
	if value, err := get(db, []byte("absent")); err != pebble.ErrNotFound || value != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}
}
`, path, path, compression, found.Snippet, found.Lookup)

			if err := os.WriteFile(program, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}

			c := exec.Command("go", "run", program, db)
			// with cgo, the libraries of the versions do not fit each other
			c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, text)
			}

			again := tuningOf(t,
				must(t, "tune", "--db", db, "--memory", "8MiB", "--seeds", "1", "--gets", gets,
					"--timeout", "1s", "--json", "--quiet").stdout)
			// no option of tables
			delete(found.Best.Options, "UseL6Filters")
			// of level 0, where all keys are
			found.Best.Options["FilterBitsPerKey"], _, _ = strings.Cut(
				found.Best.Options["FilterBitsPerKey"],
				":",
			)

			if tuned.OptionList(again.Present.Options) != tuned.OptionList(found.Best.Options) {
				t.Errorf("the program's tables have %v, recommended were %v",
					again.Present.Options, found.Best.Options)
			}
		})
	}
}

// TestTunedLevelSnippet: a program with goleveldb that has the answer's options pasted into it
// writes blocks and filters of these sizes.
func TestTunedLevelSnippet(t *testing.T) { tunedLevelSnippet(t, "5k") }

func TestTunedLevelSnippetOfMoreKeys(t *testing.T) {
	testring.Outer(t, "it measures 30,000 Gets")
	tunedLevelSnippet(t, "30k")
}

// tunedLevelSnippet measures that many Gets of the program's database.
func tunedLevelSnippet(t *testing.T, gets string) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "D")
	must(t, "load", "--engine", "goleveldb", "--keys", "100k", "--set", "WriteBuffer=1MiB", "--db",
		db, "--quiet")
	found := tuningOf(t,
		must(t, "tune", "--db", db, "--memory", "4MiB", "--missing", "50%", "--seeds", "1",
			"--gets", "30k", "--json", "--quiet").stdout)
	block, err := unit.ParseBytes(found.Best.Options["BlockSize"])
	bits, wrong := strconv.ParseFloat(found.Best.Options["BloomBitsPerKey"], 64)
	if err := errors.Join(err, wrong); err != nil || bits == 0 {
		t.Fatalf("%v: best %+v", err, found.Best)
	}

	text := fmt.Sprintf(`package main

import (
	"math/rand"
	"os"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func main() {
%s	db, err := leveldb.OpenFile(os.Args[1], options)
	if err != nil {
		panic(err)
	}
	random, key, value := rand.New(rand.NewSource(1)), make([]byte, 32), make([]byte, 100)
	for range 20000 { // which one memtable holds
		random.Read(key)
		random.Read(value)
		if err := db.Put(key, value, nil); err != nil {
			panic(err)
		}
	}
	flush, err := db.OpenTransaction()
	if err != nil {
		panic(err)
	}
	flush.Discard()
	if err := db.Close(); err != nil {
		panic(err)
	}
}
`, found.Snippet)

	program, written := filepath.Join(dir, "main.go"), filepath.Join(dir, "W")
	if err := os.WriteFile(program, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	c := exec.Command("go", "run", program, written)
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}

	var run result.Run
	if err := json.Unmarshal([]byte(must(t, "inspect", written, "--json", "--quiet").stdout),
		&run); err != nil || len(run.Database.Levels) != 1 {
		t.Fatalf("%v: %+v", err, run.Database)
	}

	l := run.Database.Levels[0]
	if mean, each := l.DataBytes/l.DataBlocks, 8*float64(l.FilterBytes)/20000; mean < block-100 ||
		mean > block+200 || each < bits || each > bits+3 {
		t.Errorf("blocks of %d bytes and %.1f bits a key, recommended were %v: %+v", mean, each,
			found.Best.Options, l)
	}

	// The program's database is tuned and rewritten itself.
	again := tuningOf(t,
		must(t, "tune", "--db", written, "--memory", "2MiB", "--missing", "30%", "--seeds", "1",
			"--gets", gets, "--timeout", "5s", "--verify",
			"--out", filepath.Join(dir, "T"), "--json", "--quiet").stdout)

	if len(again.Verified) < 2 {
		t.Fatalf("verified %+v", again.Verified)
	}

	for i, p := range again.Verified {
		if off := math.Abs(p.Off()); off > 0.03 || i == 0 && off > 0.01 {
			t.Errorf("%v: predicted %.4f, measured %.4f", p.Options, p.Predicted, p.Measured)
		}
	}
}

// TestTuneOfATrace: the Gets of a trace are predicted as those of the database that they were
// traced of, and what was predicted of the best options is measured in a database into which the
// tables are rewritten, as another program's are.
func TestTuneOfATrace(t *testing.T) { tuneOfATrace(t, "60k", "10k", false) }

func TestTuneOfATraceIsMeasured(t *testing.T) {
	testring.Outer(t, "it rewrites a database three times, and measures each")
	tuneOfATrace(t, "200k", "30k", true)
}

func tuneOfATrace(t *testing.T, keys, gets string, verify bool) {
	db := filepath.Join(t.TempDir(), "D")
	must(t, "load", "--engine", "pebble2", "--keys", keys, "--set", "LBaseMaxBytes=1MiB",
		"--set", "MemTableSize=1MiB", "--set", "TargetFileSize=256KiB",
		"--db", db, "--quiet")
	trace := filepath.Join(t.TempDir(), "T")
	must(t, "trace", "--db", db, "--missing", "50%", "--warmup", gets, "--gets", gets, "--out",
		trace, "--quiet")
	args := []string{"tune", "--db", db, "--memory", "4MiB", "--seeds", "1", "--json", "--quiet"}
	traced := tuningOf(t, must(t, append(args, "--trace", trace)...).stdout)
	if math.Abs(traced.Missing-0.5) > 0.01 || traced.Best.Options["UseL6Filters"] != "true" ||
		traced.Best.Reads > 0.6*traced.Present.Reads {
		t.Errorf("of a trace of half absent keys: %+v", traced)
	}

	b := traced.Buffers
	if len(b) < 3 || b[0].Reads > b[2].Reads || b[0].Writes.OrZero() <= b[2].Writes.OrZero() ||
		b[0].Cache-b[2].Cache != 2*(1<<20-256<<10) ||
		b[2].Options["MemTableSize"] != "1MiB" {
		t.Errorf("memtables of other sizes: %+v", b)
	}

	// as if another program had made it
	if err := os.RemoveAll(filepath.Join(db, "statelab")); err != nil {
		t.Fatal(err)
	}

	args = append(args, "--missing", "50%", "--gets", gets)
	if verify {
		args = append(args, "--verify", "--out", filepath.Join(t.TempDir(), "O"))
	}

	found := tuningOf(t, must(t, args...).stdout)
	if off := traced.Present.Reads/found.Present.Reads - 1; math.Abs(off) > 0.02 {
		t.Errorf("present, of the trace %v, of the database %v", traced.Present, found.Present)
	}

	if verify && (len(found.Verified) < 2 ||
		found.Verified[1].Measured > 0.6*found.Verified[0].Measured) {
		t.Errorf("verified %+v", found.Verified)
	}

	for _, p := range found.Verified {
		if math.Abs(p.Off()) > 0.03 {
			t.Errorf("%v: predicted %.4f, measured %.4f", p.Options, p.Predicted, p.Measured)
		}
	}
}
