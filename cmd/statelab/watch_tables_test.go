//go:build linux && amd64

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// attach finds an engine in a process and attaches to it, until the test has ended.
func attach(t *testing.T, pid int, engineName string) (*probe.Target, *probe.Probe) {
	t.Helper()
	found, err := probe.Find(pid, subject.AllWatched())
	if err == nil {
		err = found.Choose(engineName)
	}

	if err != nil {
		t.Fatal(err)
	}

	p, err := probe.Open(found)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = p.Close() }) // the test has its answer
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}

	return found, p
}

// rocksLibraries are those that a test can use: that of the runner, and the system's.
func rocksLibraries(t *testing.T) map[string]string {
	t.Helper()
	libraries := map[string]string{"made": rocksLibrary(t)}
	for _, path := range []string{"/usr/lib/x86_64-linux-gnu/librocksdb.so.7.8"} {
		if _, err := os.Stat(path); err == nil {
			libraries["the system's"] = path
		}
	}
	return libraries
}

// What is seen of a program in C with RocksDB is exactly what RocksDB counted itself.
func TestWatchCountsWhatRocksDBCounted(t *testing.T) {
	watching(t)
	program := rocksGets(t)
	for name, library := range rocksLibraries(t) {
		t.Run(name, func(t *testing.T) { watchRocks(t, program, library) })
	}
}

func watchRocks(t *testing.T, program, library string) {
	const gets, cacheBytes = 20_000, 700_000
	dir := filepath.Join(t.TempDir(), "db")
	if text, err := exec.Command(program, library, "write", dir, "0",
		"1000000").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	w, counts := rocksSeen(t, program, library, dir, gets, cacheBytes)
	compareRocks(t, &w.Watch, counts, gets)
	if w.Watch.Cache.Bytes != cacheBytes {
		t.Errorf("a cache of %d bytes (%s), not %d", w.Watch.Cache.Bytes, w.Watch.Why["simulated"],
			cacheBytes)
	}

	storedWatch(t, w)
}

// TestWatchCountsKeysOfMultiGets: of lookups of many keys at once, by both ways into RocksDB, each
// key is a Get with its column family and its outcome, and their reads are those of RocksDB. Of a
// batch with more keys than are read, keys and reads are counted.
func TestWatchCountsKeysOfMultiGets(t *testing.T) {
	watching(t)
	program := rocksGets(t)
	for name, library := range rocksLibraries(t) {
		t.Run(name, func(t *testing.T) {
			const gets, batches, cacheBytes = 2_000, 100, 700_000
			dir := filepath.Join(t.TempDir(), "db")
			if text, err := exec.Command(program, library, "write", dir, "0",
				"1000000").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}

			t.Setenv("BATCHES", fmt.Sprint(batches))
			t.Setenv("BATCH_KEYS", "40") // RocksDB looks 32 up together
			w, counts := rocksSeen(t, program, library, dir, gets, cacheBytes)
			// RocksDB's counter of calls is of other things in each version.
			keys := counts["rocksdb.number.multiget.keys.read"]
			m := w.Watch.MultiGets
			if m == nil || m.Calls != 2*batches || m.Keys != uint64(keys) || m.Gets != m.Keys ||
				keys != 47*batches || w.Watch.Gets != gets+m.Gets {
				t.Fatalf("%d Gets and MultiGets %+v; RocksDB counted %d keys", w.Watch.Gets, m,
					keys)
			}

			found := uint64(counts["found"] + counts["rocksdb.number.multiget.keys.found"])
			if w.Watch.Found != found || w.Watch.Failed != 0 || found == gets+m.Gets {
				t.Errorf("%d keys found, and RocksDB has %d", w.Watch.Found, found)
			}

			compareRocksReads(t, &w.Watch, counts)
			v := watched.Watched{Watch: &w.Watch}
			if got := v.Verdict().Bottleneck; got == advice.MostlyBatches {
				t.Errorf("the verdict is %q: %s", got, v.Answer())
			}

			t.Setenv("BATCH_KEYS", "600")
			w, _ = rocksSeen(t, program, library, dir, gets, cacheBytes)
			read := uint64(0)
			for _, r := range w.Watch.Reads {
				if r.Purpose == subject.ForBatches {
					read = r.Reads
				}
			}

			m = w.Watch.MultiGets
			if m.Keys != 607*batches || m.Gets != 7*batches || w.Watch.Gets != gets+m.Gets ||
				read == 0 || m.BlockReads <= read {
				t.Errorf("%d Gets and MultiGets %+v; %d reads for MultiGets", w.Watch.Gets, m, read)
			}

			v = watched.Watched{Watch: &w.Watch}
			if got := v.Verdict().Bottleneck; got != advice.MostlyBatches {
				t.Errorf("the verdict is %q: %s", got, v.Answer())
			}
		})
	}
}

// TestWatchCountsSeeks: Seeks are those that RocksDB counted, and all its reads after opening are
// for Gets or for iterators, inside Seeks or where these go on.
func TestWatchCountsSeeks(t *testing.T) {
	watching(t)
	program := rocksGets(t)
	for name, library := range rocksLibraries(t) {
		t.Run(name, func(t *testing.T) {
			const gets, seeks, cacheBytes = 2_000, 300, 700_000
			dir := filepath.Join(t.TempDir(), "db")
			if text, err := exec.Command(program, library, "write", dir, "0",
				"1000000").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}

			t.Setenv("SEEKS", fmt.Sprint(seeks))
			seen, counts := rocksSeen(t, program, library, dir, gets, cacheBytes)
			w, reads := &seen.Watch, map[string]int64{}
			for _, r := range w.Reads {
				reads[r.Purpose] = int64(r.Reads)
			}

			all := counts["rocksdb.last.level.read.count"] +
				counts["rocksdb.non.last.level.read.count"]
			if w.Gets != gets || counts["rocksdb.number.db.seek"] != seeks ||
				reads[subject.ForGets]+reads[subject.ForIterators] != all {
				t.Errorf("%d Gets and reads %v; RocksDB counted %d Seeks and %d reads", w.Gets,
					reads, counts["rocksdb.number.db.seek"], all)
			}

			s := w.Seeks
			if s == nil || s.Calls != seeks || s.Reads < seeks/2 || s.ReadsBeyond < seeks/2 ||
				int64(s.Reads+s.ReadsBeyond) != reads[subject.ForIterators] {
				t.Errorf("Seeks: %+v; reads %v", s, reads)
			}

			if answer := (watched.Watched{Watch: w}).Answer(); !strings.Contains(answer,
				" are for iterators") {
				t.Error(answer)
			}
		})
	}
}

// rocksSeen is what is seen of a program that makes so many Gets, and what RocksDB counted of them.
func rocksSeen(
	t *testing.T, program, library, dir string, gets uint64, cacheBytes int64,
) (*watch.Seen, map[string]int64) {
	t.Helper()
	return commandSeen(t, exec.Command(program, library, "read", dir, fmt.Sprint(gets),
		fmt.Sprint(cacheBytes)), dir, gets, cacheBytes)
}

// started starts a program that says a line when it can be watched, and then waits for one.
func started(t *testing.T, command *exec.Cmd) (in io.WriteCloser, answer *bufio.Reader) {
	t.Helper()
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}

	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = command.Process.Kill() })
	answer = bufio.NewReader(out)
	if _, err := answer.ReadString('\n'); err != nil {
		t.Fatal(err)
	}

	return in, answer
}

// commandSeen is the same of any program that says when its library is loaded, waits for a line,
// and ends with its input.
func commandSeen(
	t *testing.T, command *exec.Cmd, dir string, gets uint64, cacheBytes int64,
) (*watch.Seen, map[string]int64) {
	t.Helper()
	in, answer := started(t, command)
	end := sync.OnceFunc(func() { _ = in.Close() }) // the program may have ended
	target, p := attach(t, command.Process.Pid, "rocksdb")
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}

	var told []byte
	reading := make(chan error)
	go func() { // its answer comes when its Gets are made
		var err error
		told, err = io.ReadAll(answer)
		reading <- err
	}()

	var seen uint64
	began := time.Now()
	options := watch.Options{Share: 1, Tell: func(result.Event) {}, Tick: func(tick result.Tick) {
		if seen += tick.Ops; seen >= gets || time.Since(began) > time.Minute {
			end()
		}
	}}

	// The cache is known when the database is open, and its LOG no longer that of the program that
	// wrote it.
	cache := watch.Cache{}
	for cache.Bytes != cacheBytes && time.Since(began) < time.Minute {
		time.Sleep(time.Millisecond)
		cache = watch.CacheOf(target, dir, 0)
	}

	w, err := watch.Traffic(context.Background(), target, p, dir, watch.LayoutOf("rocksdb", dir),
		cache, options)
	if err != nil {
		t.Fatal(err)
	}

	if err := <-reading; err != nil {
		t.Fatal(err)
	}

	if err := command.Wait(); err != nil {
		t.Error(err)
	}

	return w, tickersOf(t, string(told))
}

// A library that goes by RocksDB's name without its functions is refused by name.
func TestWatchRefusesALibraryWithoutItsFunctions(t *testing.T) {
	watching(t)
	dir := t.TempDir()
	program, library, source := filepath.Join(dir, "rocksgets"),
		filepath.Join(dir, "librocksdb.so"), filepath.Join(dir, "none.c")
	if err := os.WriteFile(source, []byte("int none(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{
		{"-o", program, "testdata/rocksgets.c", "-ldl"},
		{"-shared", "-fPIC", "-o", library, source},
	} {
		if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc (make ci installs it): %v\n%s", err, text)
		}
	}

	command := exec.Command(program, library, "read", dir, "1", "1")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}

	if err != nil {
		t.Fatal(err)
	}

	defer func() {
		_ = in.Close()     // it waits for it
		_ = command.Wait() // it has nothing to read
	}()

	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it has loaded the library
		t.Fatal(err)
	}

	refused(t, statelab(t, "watch", "--pid", fmt.Sprint(command.Process.Pid)), 1,
		"librocksdb.so, which exports none of the functions")
}

// tickersOf are RocksDB's counters of the Gets: what they grew by, and the found keys.
func tickersOf(t *testing.T, told string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for lines := bufio.NewScanner(strings.NewReader(told)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}

		switch fields[0] {
		case "before":
			counts[fields[1]] -= n
		case "after":
			counts[fields[1]] += n
		default:
			counts[fields[0]] += n
		}
	}

	return counts
}

func compareRocks(t *testing.T, w *result.Watch, counts map[string]int64, gets uint64) {
	t.Helper()
	if w.Lost != (result.WatchLost{}) {
		t.Errorf("lost: %+v", w.Lost)
	}

	if got, want := [3]uint64{w.Gets, w.Found, w.Missing},
		[3]uint64{gets, uint64(counts["found"]), gets - uint64(counts["found"])}; got != want ||
		want[2] == 0 {
		t.Errorf("Gets, found, absent: %v, and RocksDB has %v", got, want)
	}

	compareRocksReads(t, w, counts)
	// RocksDB's last level is that of the most that there can be
	last, others, deepest := int64(0), int64(0), "L6"
	for level, n := range w.BlockReadsByLevel {
		if level == deepest {
			last += n
		} else {
			others += n
		}
	}

	if want := [2]int64{counts["rocksdb.last.level.read.count"],
		counts["rocksdb.non.last.level.read.count"]}; want != [2]int64{last, others} ||
		others == 0 {
		t.Errorf(
			"block reads of the last level and the others: %d and %d, and RocksDB has %v (%v)",
			last,
			others,
			want,
			w.BlockReadsByLevel,
		)
	}

	shares := map[string]float64{}
	for _, k := range w.Keys {
		shares[k.Kind] = float64(k.Gets) / float64(gets)
	}

	for kind, want := range map[string]float64{
		"column family default":  1. / 6,
		"column family accounts": 2. / 6,
		"column family slots":    3. / 6,
	} {
		if !near(shares[kind], want, 0.05) {
			t.Errorf("%s gets %v of the Gets, not %v (%v)", kind, shares[kind], want, shares)
		}
	}
}

// compareRocksReads compares what Gets read, keys of batches among them, with RocksDB's counters.
func compareRocksReads(t *testing.T, w *result.Watch, counts map[string]int64) {
	t.Helper()
	want, got := map[string]int64{}, map[string]int64{}
	for _, kind := range []string{"data", "index", "filter"} {
		want[kind] = counts["rocksdb.block.cache."+kind+".miss"]
	}

	for kind, tally := range w.BlockReads {
		if strings.HasSuffix(kind, "index") {
			kind = "index"
		}
		got[kind] += tally.Count
	}

	if diff := cmp.Diff(want, got); diff != "" || want["index"] == 0 || want["filter"] == 0 {
		t.Errorf("block reads by type (-RocksDB +watch):\n%s", diff)
	}

	if !w.Has(figure.BlockAccessesPerGet) {
		t.Fatalf("no block accesses: %v", w.Why)
	}

	accesses := float64(counts["rocksdb.block.cache.hit"]+
		counts["rocksdb.block.cache.miss"]) / float64(w.Gets)

	if w.OrZero(figure.BlockAccessesPerGet) != accesses {
		t.Errorf("block accesses per Get: %v; RocksDB counted %v",
			w.OrZero(figure.BlockAccessesPerGet), accesses)
	}

	if s := w.Simulated; s == nil || !near(s.BlockReadsPerGet, s.Seen, 0.02) {
		t.Errorf("simulated: %+v (%v); %v were read", s, w.Why, w.OrZero(figure.BlockReadsPerGet))
	}
}

// goleveldb is told from Pebble in one binary, and what is seen of it is exactly what the run
// counted.
func TestWatchCountsWhatRunsOfLevelDBCounted(t *testing.T) {
	watching(t)
	const name = "goleveldb"
	db := database(t, name)
	target := waitingRunner(t, runnerOf(t, true))
	seen, _ := seenBy(t, target.Process.Pid, name, db, func() {
		target.run(protocol.EngineSpec{
			Engine:       name,
			Dir:          db,
			Profile:      "geth-legacy",
			CacheBytes:   1 << 20,
			CacheAsked:   "1MiB",
			Threads:      1,
			Seed:         7,
			Gets:         20_000,
			WarmupRule:   "a count",
			MissingShare: 0.3,
		})

		if err := target.Wait(); err != nil {
			t.Error(err)
		}
	})

	compareWatched(t, &seen.Watch, readRun(t, target.out))
	storedWatch(t, seen)
}

// With a limit of open files, watch sees as many opens of tables as the engine counts, simulates
// what it read, and says which limit keeps all tables open: with that, as much is read as it said.
func TestWatchCountsOpensOfTables(t *testing.T) {
	watching(t)
	const gets, cacheBytes = 10_000, 1 << 20
	for name, settings := range map[string][]string{
		"pebble1":   {"MemTableSize=512KiB", "LBaseMaxBytes=512KiB", "TargetFileSize=32KiB"},
		"pebble2":   {"MemTableSize=512KiB", "LBaseMaxBytes=512KiB", "TargetFileSize=32KiB"},
		"goleveldb": {"WriteBuffer=512KiB", "CompactionTableSize=32KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "db")
			args := []string{"load", "--db", db, "--engine", name, "--keys", "70k", "--quiet"}
			for _, s := range settings {
				args = append(args, "--set", s)
			}

			must(t, args...)
			limited := func(limit int) (*result.Watch, *result.Run) {
				return watchRun(t, db, protocol.EngineSpec{
					Engine:     name,
					CacheBytes: cacheBytes,
					Gets:       gets,
					Handles:    limit,
				})
			}

			files, err := filepath.Glob(filepath.Join(db, "*.[sl][sd][tb]"))
			if err != nil {
				t.Fatal(err)
			}

			tables := len(files)
			open, _ := limited(100_000)
			for _, limit := range []int{tables / 10, tables / 2, tables * 9 / 10, tables + 1} {
				w, run := limited(limit)
				compareLimited(t, w, limit, run.Figures.OrZero(figure.TableOpensPerGet),
					run.Figures.OrZero(figure.BlockReadsPerGet))
				o := w.OpenFiles
				if o == nil {
					continue
				}

				// a few tables are opened for the first time
				const few = 0.005
				if got, want := o.AllOpen.BlockReadsPerGet, open.Simulated.Seen; !near(got, want,
					0.02) {
					t.Errorf("limit %d: %v reads with all tables open, and then %v", limit, got,
						want)
				}

				if got := o.OpensSimulated.OrZero(); !near(got, o.OpensSeen, 0.02) &&
					!near(got, o.OpensSeen, few/o.OpensSeen) {
					t.Errorf("limit %d: %v opens simulated, %v seen", limit, got, o.OpensSeen)
				}
			}
		})
	}
}

// compareLimited compares what was seen of Gets of an engine with a limit of open files with what
// the engine counted.
func compareLimited(t *testing.T, w *result.Watch, limit int, opens, reads float64) {
	t.Helper()
	o, s := w.OpenFiles, w.Simulated
	if s == nil {
		t.Fatalf("limit %d: not simulated: %v", limit, w.Why)
	}

	t.Logf("limit %d: %.4f opens seen, the engine %.4f; %.4f reads seen, the engine %.4f; "+
		"simulated %.4f, of the same %.4f; %+v", limit, w.OrZero(figure.TableOpensPerGet), opens,
		w.OrZero(figure.BlockReadsPerGet), reads, s.BlockReadsPerGet, s.Seen, o)
	if !near(w.OrZero(figure.TableOpensPerGet), opens, 0.001) ||
		!near(w.OrZero(figure.BlockReadsPerGet), reads, 0.001) {
		t.Errorf("limit %d: %v opens and %v reads seen", limit, w.OrZero(figure.TableOpensPerGet),
			w.OrZero(figure.BlockReadsPerGet))
	}

	if !near(s.BlockReadsPerGet, s.Seen, 0.02) {
		t.Errorf("limit %d: simulated %v, and %v seen", limit, s.BlockReadsPerGet, s.Seen)
	}
}

// A RocksDB with a limit of open files: its opens of tables are those that it counts, and the limit
// is found in its LOG.
func TestWatchCountsOpensOfTablesOfRocksDB(t *testing.T) {
	watching(t)
	const gets, cacheBytes = 10_000, 1 << 20
	program, written := rocksGets(t), filepath.Join(t.TempDir(), "db")
	for name, library := range rocksLibraries(t) {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(written); err != nil {
				t.Fatal(err)
			}

			if text, err := exec.Command(program, library, "write", written, "0",
				"1000000").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}

			files, err := filepath.Glob(filepath.Join(written, "*.sst"))
			if err != nil {
				t.Fatal(err)
			}

			for _, limit := range []int{len(files) / 10, len(files) / 2, len(files) * 9 / 10,
				len(files) + 1} {
				limit = max(limit, 20) // RocksDB takes a lower one for 20
				t.Setenv("OPEN_FILES", fmt.Sprint(limit))
				dir := filepath.Join(t.TempDir(), "db")
				if err := os.CopyFS(dir, os.DirFS(written)); err != nil {
					t.Fatal(err)
				}

				seen, counts := rocksSeen(t, program, library, dir, gets, cacheBytes)
				w := &seen.Watch
				reads := counts["rocksdb.last.level.read.count"] +
					counts["rocksdb.non.last.level.read.count"]
				compareLimited(t, w, limit, float64(counts["rocksdb.no.file.opens"])/gets,
					float64(reads)/gets)
				if o := w.OpenFiles; o != nil && (o.Limit != limit || o.Tables != len(files)) {
					t.Errorf("limit %d of %d tables: %+v", limit, len(files), o)
				}
			}
		})
	}
}

// TestWatchTellsOfFiltersThatNoGetConsults: of a program that has lost its filter policy, a watch
// says what its Gets would read with the filters that the tables have, and the same Gets read that
// when the policy is set. One whose tables have no filters is told what to do, too.
func TestWatchTellsOfFiltersThatNoGetConsults(t *testing.T) {
	watching(t)
	const gets, cacheBytes = 20_000, 2 << 20
	program, dir := rocksGets(t), filepath.Join(t.TempDir(), "db")
	library := rocksLibrary(t)
	write := func(dir string) {
		if text, err := exec.Command(program, library, "write", dir, "0",
			"1000000").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}

	write(dir)
	t.Setenv("FILTERS", "none")
	lost, _ := rocksSeen(t, program, library, dir, gets, cacheBytes)
	unfiltered := filepath.Join(t.TempDir(), "unfiltered")
	write(unfiltered)

	if err := os.Unsetenv("FILTERS"); err != nil { // t.Setenv restores it
		t.Fatal(err)
	}

	restored, _ := rocksSeen(t, program, library, dir, gets, cacheBytes)
	f, s := lost.Watch.Filters, restored.Watch.Simulated
	if f == nil || f.Consulted == nil || s == nil {
		t.Fatalf("lost filters: %+v (%v); restored: %+v (%v)", f, lost.Watch.Why, s,
			restored.Watch.Why)
	}

	t.Logf("%.4f reads without filters, with them %+v; then %.4f are read", f.Consulted.Seen,
		*f.Consulted, s.Seen)
	const off = 0.02
	if low, high := f.Consulted.Low*(1-off), f.Consulted.High*(1+off); s.Seen < low ||
		s.Seen > high || f.Consulted.Seen < 1.5*s.Seen {
		t.Errorf("%v block reads per Get without filters, %+v with, and then %v are read",
			f.Consulted.Seen, *f.Consulted, s.Seen)
	}

	answer := watched.Watched{Watch: &lost.Watch}.Answer()
	for _, says := range []string{"of column families default, accounts and slots have filters, " +
		"which no Get consults", "set filter_policy=bloomfilter:10:false",
		"block reads per Get with a cache of 2.00 MiB."} {
		if !strings.Contains(answer, says) {
			t.Errorf("it does not say %q: %s", says, answer)
		}
	}

	if f := restored.Watch.Filters; f != nil {
		t.Errorf("filters that are consulted: %+v", f)
	}

	lacking, _ := rocksSeen(t, program, library, unfiltered, gets, cacheBytes)
	if answer := (watched.Watched{Watch: &lacking.Watch}).Answer(); !strings.Contains(answer,
		"have no filter, although the options name a policy (bloomfilter") {
		t.Error(answer)
	}
}

// TestAdviceForATraceOfRocksDB: for the Gets that a watch saw, the present cache reads what the
// program has read, and with the recommended one the same Gets read what was said.
func TestAdviceForATraceOfRocksDB(t *testing.T) {
	watching(t)
	withCRunners(t)
	const gets, cacheBytes = 60_000, 2 << 20
	program, library, db := rocksGets(t), rocksLibrary(t), filepath.Join(t.TempDir(), "db")
	if text, err := exec.Command(program, library, "write", db, "0", "1000000").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	seen, _ := rocksSeen(t, program, library, db, gets, cacheBytes)
	file := filepath.Join(t.TempDir(), "T")
	if err := os.WriteFile(file, seen.Trace, 0o600); err != nil {
		t.Fatal(err)
	}

	var advised advise.RocksAdvice
	if err := json.Unmarshal([]byte(must(t, "advise", db, "--trace", file, "--json").stdout),
		&advised); err != nil {
		t.Fatal(err)
	}

	now, then := advised.Now, advised.Then
	if now.CacheBytes != cacheBytes ||
		!near(now.BlockReadsPerGet, seen.Watch.Simulated.Seen, 0.02) {
		t.Errorf("the present cache: %+v; seen: %+v", now, *seen.Watch.Simulated)
	}

	again, _ := rocksSeen(t, program, library, db, gets, then.CacheBytes)
	read := again.Watch.Simulated.Seen
	t.Logf("%+v -> %+v, and then %.4f are read: %s", now, then, read, advised.Answer)
	if then.CacheBytes <= now.CacheBytes || !near(then.BlockReadsPerGet, read, 0.02) {
		t.Errorf("recommended: %+v; the same Gets then read %v", then, read)
	}

	// Half the memory of the recommended cache: what fits is recommended, and reads more.
	half := advised.OutsideBytes + then.CacheBytes/2
	if err := json.Unmarshal([]byte(must(t, "advise", db, "--trace", file, "--memory",
		fmt.Sprintf("%dKiB", half>>10), "--json").stdout), &advised); err != nil {
		t.Fatal(err)
	}

	if fits := advised.Then; fits.CacheBytes > then.CacheBytes/2 ||
		fits.BlockReadsPerGet < then.BlockReadsPerGet {
		t.Errorf("with half of it: %+v", fits)
	}

	refused(t, statelab(t, "advise", db, "--trace", filepath.Join(db, "LOG")), exitFailed,
		"--trace")
}
