package main

import (
	"bytes"
	"context"
	bytesof "encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
)

// Every reader of foreign bytes against every kind of damage: an error that names the
// file, or an answer; never a panic, a hang or memory without bound, and never another
// answer where the form has checksums.

var damagedInputs = flag.Int("damaged", 100, "damaged inputs for each reader and engine (make "+
	"damage: 10,000)")

// Bounds of one damaged input. All of these readers end a whole input of this size in
// milliseconds; the time is long because the machine may be busy.
const (
	mostDamageTime  = time.Minute
	mostDamageBytes = 512 << 20
)

var damages = []struct {
	name string
	do   func(r *rand.Rand, text []byte) []byte
}{
	{"cut short", func(r *rand.Rand, text []byte) []byte { return text[:r.IntN(len(text)+1)] }},
	{"flipped bits", func(r *rand.Rand, text []byte) []byte {
		for range 1 + r.IntN(3) {
			if at := r.IntN(8*len(text) + 1); at < 8*len(text) {
				text[at/8] ^= 1 << (at % 8)
			}
		}
		return text
	}},
	{"spliced", func(r *rand.Rand, text []byte) []byte {
		from, to := r.IntN(len(text)+1), r.IntN(len(text)+1)
		part := text[from:min(len(text), from+1+r.IntN(4096))]
		return slices.Insert(text, to, slices.Clone(part)...)
	}},
	{"zeros", func(r *rand.Rand, text []byte) []byte {
		from := r.IntN(len(text) + 1)
		clear(text[from:min(len(text), from+1+r.IntN(4096))])
		return text
	}},
	{"huge numbers", func(r *rand.Rand, text []byte) []byte {
		huge := [][]byte{
			bytesof.LittleEndian.AppendUint32(nil, 1<<31-1),
			bytesof.LittleEndian.AppendUint64(nil, 1<<62),
			bytesof.BigEndian.AppendUint64(nil, 1<<62),
			bytesof.AppendUvarint(nil, 1<<40), bytesof.AppendUvarint(nil, 1<<63),
			bytes.Repeat([]byte{0xff}, 8), {0xff, 0xff, 0xff, 0x7f},
		}
		numbers := digits.FindAllIndex(text, -1)
		if len(numbers) > 0 && (looksLikeText(text) || r.IntN(4) == 0) {
			here := numbers[r.IntN(len(numbers))]
			with := []string{"1e308", "-1e308", "9223372036854775807", "-1", "1e18",
				"99999999999999999999", "0", "NaN"}
			return slices.Replace(text, here[0], here[1], []byte(with[r.IntN(len(with))])...)
		}
		at := r.IntN(len(text) + 1)
		copy(text[at:], huge[r.IntN(len(huge))])
		return text
	}},
}

var digits = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

func looksLikeText(text []byte) bool { return bytes.IndexByte(text, 0) < 0 }

// A reader is a command that reads a file or folder which others may have made.
type foreignReader struct {
	name string
	make func(t *testing.T) string // the whole input
	// args are the command; IN is the input, NEW a path that does not exist.
	args string
	// sealed forms have checksums: an answer is the answer of the whole input.
	sealed bool
}

func foreignReaders() []foreignReader {
	set := func(t *testing.T, more ...string) string {
		path := filepath.Join(t.TempDir(), "set.slcs")
		must(t,
			append([]string{"changeset", "generate", "--profile", "bank,prefix", "--versions",
				"12", "--scale", "0.001", "--empty-store",
				"--out", path}, more...)...)

		return path
	}

	exported := func(format string, more ...string) func(t *testing.T) string {
		return func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "in")
			must(t, "changeset", "export", set(t, more...), "--format", format, "--out", dir)
			return dir
		}
	}

	measured := func(args ...string) func(t *testing.T) string {
		return func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "in")
			must(t, append(args, "--out", dir)...)
			return dir
		}
	}

	logs := func(t *testing.T) string {
		dir := t.TempDir()
		for _, name := range []string{"RadmonRead_3M_2M.log", "Properties_3M.log"} {
			copyFile(t, filepath.Join("../../internal/explain/kvdblog/testdata", name),
				filepath.Join(dir, name))
		}

		return dir
	}

	return []foreignReader{
		{"change set", func(t *testing.T) string { return set(t) }, "changeset verify IN --json",
			true},
		{"iavl-bench set", exported("iavl-bench"),
			"changeset verify IN --format iavl-bench --json", false},
		{"cronos set", exported("cronos", "--sort"), "changeset verify IN --format cronos --json",
			false},
		{"state diffs", func(t *testing.T) string {
			dir := t.TempDir()
			for block := 17; block < 20; block++ {
				write(t, filepath.Join(dir, fmt.Sprintf("%d.json", block)), stateDiff)
			}
			return dir
		}, "changeset verify IN --format diffs --json", false},
		{"set of nodes", exportedNodes, "changeset verify IN --format nodes --json", false},
		{"access list", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "in.slal")
			must(t, "accesses", "generate", "--blocks", "1", "--accounts", "1k", "--out", path)
			return path
		}, "accesses info IN --json", true},
		{"tables of Xatu", func(t *testing.T) string {
			dir := t.TempDir()
			for _, name := range []string{"storage_reads", "storage_diffs", "balance_diffs",
				"nonce_reads"} {
				name = "canonical_execution_" + name + ".parquet"
				copyFile(t, filepath.Join("../../internal/chain/xatu/testdata", name),
					filepath.Join(dir, name))
			}

			return dir
		}, "accesses import IN --out NEW", false},
		{"trace", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "in.trace")
			must(t, "trace", "--db", small(t, "3k"), "--gets", "2k", "--warmup", "0", "--out", path)
			return path
		}, "simulate IN --cache 64KiB --json", true},
		{"sweep folder", func(t *testing.T) string {
			return measured("sweep", "--db", small(t, "3k"), "--cache", "512KiB,1MiB", "--gets",
				"1k", "--warmup", "0", "--access-gets", "1k", "--disk", "none")(t)
		}, "report IN --out NEW.html", false},
		{"replay folder", func(t *testing.T) string {
			return measured("replay", "--tree", "null", "--changes", set(t))(t)
		}, "report IN --out NEW.html", false},
		{"layouts folder", func(t *testing.T) string {
			return measured("layouts", "--layout", "flat-pebble", "--accounts", "2k,3k", "--reads",
				"100", "--update-blocks", "1", "--memory", "0")(t)
		}, "report IN --out NEW.html", false},
		{"price folder", func(t *testing.T) string {
			in := priced(t)
			return measured("price", "--from", filepath.Join(in, "L"), "--hardware",
				filepath.Join(in, "disk.json"))(t)
		}, "report IN --out NEW.html", false},
		{"disk profile and layouts", priced, "price --from IN/L --hardware IN/disk.json --at 2k " +
			"--contract-at 100 --out NEW", false},
		{"pack", func(t *testing.T) string {
			dir := measured("sweep", "--db", small(t, "3k"), "--cache", "1MiB", "--gets", "1k",
				"--warmup", "0", "--access-gets", "0", "--disk", "none")(t)
			path := filepath.Join(t.TempDir(), "in.zip")
			must(t, "pack", "create", dir, "--out", path)
			return path
		}, "verify IN --json", true},
		{"disk folder", func(t *testing.T) string {
			return measured("disk", ".", "--seconds", "0.05", "--repeats", "1", "--in-flight",
				"1,2", "--with", "none")(t)
		}, "report IN --out NEW.html", false},
		{"experiment file", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "in.yaml")
			write(t, path,
				must(t, "sweep", "--keys", "20k", "--cache", "1%,2%", "--set",
					"MaxOpenFiles=50,1000", "--print-experiment").stdout)
			return path
		}, "run IN --print-experiment", false},
		{"published logs", logs, "import IN --out NEW", false},
		{"level table",
			func(t *testing.T) string { return filepath.Join(logs(t), "Properties_3M.log") },
			"inspect IN --json", false},
		{"tables of a node", foreignDatabase, "inspect IN --json", false},
	}
}

const stateDiff = `[{"result":{
"pre":{"0x52908400098527886e0f7030069857d2e4169ee7":{"balance":"0x8","nonce":3,"storage":{
"0x0000000000000000000000000000000000000000000000000000000000000001":
"0x0000000000000000000000000000000000000000000000000000000000000007"}}},
"post":{"0x52908400098527886e0f7030069857d2e4169ee7":{"balance":"0x9","storage":{}}}}}]`

// exportedNodes are bank's changes of twelve blocks in the form of the Osmosis sets.
func exportedNodes(t *testing.T) string {
	dir := t.TempDir()
	var text []byte
	for block := range uint64(12) {
		for key := range 20 {
			var m []byte
			for field, value := range map[protowire.Number]string{
				1: fmt.Sprint("key ", key),
				2: fmt.Sprint("value ", block),
				5: "bank",
			} {
				m = protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType),
					value)
			}

			m = protowire.AppendVarint(protowire.AppendTag(m, 4, protowire.VarintType), block+1)
			text = append(bytesof.LittleEndian.AppendUint32(text, uint32(len(m))), m...)
		}
	}

	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(dir, "1-12.pb.gz"), out.String())
	return dir
}

// priced is a folder with layouts to price, and a disk's profile.
func priced(t *testing.T) string {
	dir := t.TempDir()
	must(t, "layouts", "--layout", "flat-pebble", "--accounts", "1k", "--contract-slots", "100",
		"--reads", "100", "--updates", "20", "--update-blocks", "2",
		"--memory", "0", "--out", filepath.Join(dir, "L"))
	write(t, filepath.Join(dir, "disk.json"),
		`{"schema": "statelab.hardware/1", "name": "nvme", "points": [
{"in_flight": 1, "reads_per_second": 12500, "mean_ns": 80000},
{"in_flight": 32, "reads_per_second": 270000, "mean_ns": 118000,
	"reads_per_second_spread": {"low": 260000, "high": 280000}}]}`)
	return dir
}

// foreignDatabase is a small one of another program.
func foreignDatabase(t *testing.T) string {
	dir := small(t, "3k")
	if err := os.RemoveAll(filepath.Join(dir, engine.OwnFolder)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDamagedInputs(t *testing.T) {
	testring.Outer(t, "thousands of damaged inputs")
	onPath(t, "statelab-run-parquet")
	inputs := *damagedInputs
	if testing.Short() {
		inputs = min(inputs, 40)
	}

	for _, reader := range foreignReaders() {
		t.Run(reader.name, func(t *testing.T) {
			t.Parallel()
			whole := reader.make(t)
			want := reader.read(t, whole)
			if want.exit != exitDone {
				t.Fatalf("the whole input: %v", want)
			}

			var longest time.Duration
			answers, refusals, most := 0, 0, uint64(0)
			for n := range inputs {
				random := rand.New(rand.NewPCG(uint64(n), 1))
				damage := damages[n%len(damages)]
				bad := filepath.Join(t.TempDir(), filepath.Base(whole))
				copyTree(t, whole, bad)
				file := damageOne(t, random, bad, damage.do)
				name := fmt.Sprintf("input %d: %s %s", n, file, damage.name)
				got := reader.readBeside(t, bad)
				longest, most = max(longest, got.took), max(most, got.allocated)
				switch {
				case got.panicked != "":
					t.Errorf("%s: panic: %s", name, got.panicked)
				case got.allocated > mostDamageBytes:
					t.Errorf("%s: %d MiB are allocated", name, got.allocated>>20)
				case got.exit == exitDone && reader.sealed && got.stdout != want.stdout:
					t.Errorf("%s: a silent error: %v", name, got)
				case got.exit == exitDone:
					answers++
				default:
					refusals++
					if base := filepath.Base(file); !strings.Contains(got.stderr, base) &&
						!strings.Contains(got.stderr, filepath.Base(bad)) {
						t.Errorf("%s: the error names no file: %s", name, got.stderr)
					}
				}

				if err := os.RemoveAll(filepath.Dir(bad)); err != nil {
					t.Fatal(err)
				}
			}

			t.Logf("%d refused, %d answered; at most %d MiB and %v", refusals, answers, most>>20,
				longest.Round(time.Millisecond))
		})
	}
}

// reading is what became of a command in this process.
type reading struct {
	exit           int
	stdout, stderr string
	panicked       string
	took           time.Duration
	allocated      uint64 // by the whole process meanwhile
}

func (r foreignReader) read(t *testing.T, in string) (got reading) {
	t.Helper()
	args := strings.Fields(r.args)
	for i, arg := range args {
		args[i] = strings.NewReplacer("IN", in, "NEW", filepath.Join(t.TempDir(), "new")).
			Replace(arg)
	}

	began, before := time.Now(), allocated()
	done := make(chan reading, 1)
	go func() {
		var got reading
		defer func() {
			if p := recover(); p != nil {
				got.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			done <- got
		}()

		var stdout, stderr bytes.Buffer
		got.exit = run(context.Background(), args, &stdout, &stderr)
		got.stdout, got.stderr = strings.ReplaceAll(stdout.String(), in, "IN"), stderr.String()
	}()

	select {
	case got = <-done:
	case <-time.After(mostDamageTime):
		t.Fatalf("%v hangs", args)
	}

	got.took, got.allocated = time.Since(began), allocated()-before
	return got
}

// alone is held by a reading beside which no other may allocate.
var alone sync.RWMutex

// readBeside reads beside other readers, whose allocations count as well: where there are too
// many, those of a reading alone decide.
func (r foreignReader) readBeside(t *testing.T, in string) reading {
	t.Helper()
	alone.RLock()
	got := r.read(t, in)
	alone.RUnlock()
	if got.allocated <= mostDamageBytes {
		return got
	}

	alone.Lock()
	defer alone.Unlock()
	return r.read(t, in)
}

func (r reading) String() string {
	return fmt.Sprintf("exit %d %s\n--- stdout\n%s--- stderr\n%s", r.exit, r.panicked, r.stdout,
		r.stderr)
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// damageOne damages one file of a folder, or the file itself, and names it.
func damageOne(
	t *testing.T, r *rand.Rand, path string, damage func(*rand.Rand, []byte) []byte,
) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		own := d != nil && d.IsDir() && d.Name() == engine.OwnFolder
		if own {
			return fs.SkipDir
		}

		if info, infoErr := d.Info(); err == nil && infoErr == nil && info.Mode().IsRegular() &&
			info.Size() > 0 && !strings.HasSuffix(path, ".html") {
			files = append(files, path)
		}

		return err
	})

	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no file to damage: %v", path, err)
	}

	file := files[r.IntN(len(files))]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	write(t, file, string(damage(r, text)))
	return file
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(text))
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if isFile(from) {
		copyFile(t, from, to)
		return
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// What engines make of damaged databases: fates in the order of the documented table.
const (
	unharmed = "every Get right"
	refusal  = "error"
	lost     = "key missing, no error"
	wrong    = "wrong value, no error"
	crash    = "crash"
)

// TestEnginesAgainstDamage reads every key of a database of which one file is damaged.
// Whatever the engine does, statelab ends, and success means that every value was right;
// what the engines do is logged as a table, and is in docs/reliability.md.
func TestEnginesAgainstDamage(t *testing.T) {
	testring.Outer(t, "it opens damaged databases with every engine")
	names, each := []string{"pebble1", "pebble2", "goleveldb", "bbolt", "badger", "fjall",
		"parity-db"}, min(*damagedInputs, 100)
	onPath(t, "statelab-run-badger")
	withRustEngines(t)
	if testing.Short() {
		each = len(damages)
	} else {
		withCRunners(t)
		names = append(names, "rocksdb", "mdbx", "lmdb")
	}

	for _, name := range names {
		t.Run(name, func(t *testing.T) { // in parallel: a read waits more than it works
			t.Parallel()
			whole := small(t, "20k", "--engine", name)
			if o := readAll(t, name, whole); o.exit != exitDone {
				t.Fatalf("undamaged: %v", o)
			}

			seen := map[string]map[string]int{}
			for n := range each {
				damage, bad := damages[n%len(damages)], filepath.Join(t.TempDir(), "db")
				copyTree(t, whole, bad)
				file := damageOne(t, rand.New(rand.NewPCG(uint64(n), 2)), bad, damage.do)
				o := readAll(t, name, bad)
				if seen[damage.name] == nil {
					seen[damage.name] = map[string]int{}
				}

				fate := fateOf(o)
				seen[damage.name][fate]++
				if fate == "" || fate != unharmed && o.exit == exitDone || len(o.stderr) > 1<<20 {
					t.Errorf("input %d, %s %s: %v", n, file, damage.name, o)
				}

				if err := os.RemoveAll(filepath.Dir(bad)); err != nil {
					t.Fatal(err)
				}
			}

			for _, damage := range damages {
				t.Logf("| %s | %s | %v |", name, damage.name, seen[damage.name])
			}
		})
	}
}

func readAll(t *testing.T, name, db string) outcome {
	return statelab(t, "sweep", "--db", db, "--engine", name, "--cache", "1MiB", "--gets", "40k",
		"--warmup", "0", "--access-gets", "0",
		"--out", filepath.Join(t.TempDir(), "R"))
}

// fateOf is "" where statelab itself failed.
func fateOf(o outcome) string {
	switch {
	case o.exit == exitDone:
		return unharmed
	case strings.Contains(o.stderr, "a key that was written is missing"),
		strings.Contains(o.stderr, "of the 20,000 keys"):
		return lost
	case strings.Contains(o.stderr, "wrong answer"):
		return wrong
	case strings.Contains(o.stderr, "killed by signal"),
		strings.Contains(o.stderr, "the runner died with exit code"):
		return crash
	case o.exit > exitUsage || strings.Contains(o.stderr, "goroutine "):
		return ""
	}

	return refusal
}
