//go:build linux && amd64

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// constraint is what holds back the Gets of a process on purpose.
type constraint struct {
	name       string
	want       advice.Bottleneck
	keys       string  // of the database
	cache      int64   // bytes
	openFiles  int     // 0: enough
	unfiltered bool    // Gets consult no filter
	rate       float64 // Gets a second; 0: as many as there can be
	warmup     uint64  // Gets
	far        bool    // the disk is slow
}

// constraints have one bottleneck each.
func constraints() []constraint {
	const small, medium, large = "30k", "70k", "200k"
	return []constraint{
		{name: "small cache", want: advice.SmallCache, keys: small, cache: 2 << 20},
		{name: "few open files", want: advice.LowOpenFiles, keys: medium, cache: 16 << 20,
			openFiles: 10},
		{name: "all in the cache", want: advice.Processor, keys: small, cache: 64 << 20,
			warmup: 100_000},
		{name: "few Gets", want: advice.NotGets, keys: small, cache: 1 << 20, rate: 250},
		{name: "large database", want: advice.SmallCache, keys: large, cache: 2 << 20},
		{name: "slow disk", want: advice.SlowDisk, keys: large, cache: 2 << 20, far: true},
	}
}

// TestVerdictNamesTheBottleneck: of processes that are held back on purpose, the verdict names what
// holds them back; and when the change that it names is made, the Gets read what it said.
func TestVerdictNamesTheBottleneck(t *testing.T) {
	watching(t)
	engines := []string{"pebble2", "pebble1", "goleveldb"}
	if testing.Short() {
		engines = engines[:1]
	}

	for _, name := range engines {
		t.Run(name, func(t *testing.T) {
			databases := map[string]string{}
			for _, c := range constraints() {
				db := databases[c.keys]
				if db == "" {
					db = filepath.Join(t.TempDir(), "db")
					databases[c.keys] = db
					args := []string{"load", "--db", db, "--engine", name, "--keys", c.keys,
						"--quiet"}
					if c.openFiles > 0 {
						args = append(args, smallTables(name)...)
					}
					must(t, args...)
				}

				judgeConstrained(t, c, func(c constraint) *result.Watch {
					return watchConstrained(t, name, db, c)
				})
			}
		})
	}
}

// smallTables are options with which small databases have many tables.
func smallTables(name string) (args []string) {
	settings := []string{"MemTableSize=256KiB", "LBaseMaxBytes=512KiB", "TargetFileSize=32KiB"}
	if name == "goleveldb" {
		settings = []string{"WriteBuffer=256KiB", "CompactionTableSize=32KiB"}
	}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// watchConstrained watches a run that is held back.
func watchConstrained(t *testing.T, name, db string, c constraint) *result.Watch {
	t.Helper()
	gets := uint64(20_000)
	if c.rate > 0 {
		gets = uint64(5 * c.rate) // more than are needed to judge
	}

	if c.far {
		gets, db = 2000, onFarDisk(t, db)
	}

	w, _ := watchRun(t, db, protocol.EngineSpec{
		Engine:     name,
		CacheBytes: c.cache,
		Gets:       gets,
		WarmupGets: c.warmup,
		Rate:       c.rate,
		Handles:    c.openFiles,
	})

	return w
}

// onFarDisk is a database by way of a slow disk.
func onFarDisk(t *testing.T, db string) string {
	t.Helper()
	at := t.TempDir()
	disk, err := mountFaulty(db, at, farDisk, rand.New(rand.NewPCG(1, 1)), 0)
	if err != nil {
		t.Skipf("this machine does not let root mount FUSE: %v", err)
	}

	t.Cleanup(func() {
		if err := disk.server.Unmount(); err != nil {
			t.Error(err)
		}
	})

	return at
}

// watchRun watches a run of one thread in Pebble or goleveldb from its first Get to its last.
func watchRun(
	t *testing.T, db string, spec protocol.EngineSpec,
) (*result.Watch, *result.Run) {
	t.Helper()
	spec.Dir, spec.CacheAsked = db, fmt.Sprint(spec.CacheBytes)
	spec.Threads, spec.Seed, spec.WarmupRule = 1, 7, "a count"
	if spec.Engine == "goleveldb" {
		spec.Profile = "geth-legacy"
	}

	target := waitingRunner(t, runnerOf(t, true))
	found, p := attach(t, target.Process.Pid, spec.Engine)
	done := make(chan struct{})
	go func() {
		defer close(done)
		target.run(spec)
		if err := target.Wait(); err != nil {
			t.Error(err)
		}
	}()

	cache := watch.CacheOf(found, db, spec.CacheBytes)
	if spec.Engine != "goleveldb" { // it is opened for reading, and no file tells
		cache = watch.Cache{
			WatchedCache: result.WatchedCache{Bytes: spec.CacheBytes},
			OpenFiles: watch.OpenFiles{
				Option: "MaxOpenFiles",
				Limit:  spec.Handles,
				Shards: 2, // GOMAXPROCS of the runner
			},
		}
	}

	if spec.Engine == "pebble1" { // opened for reading, it has no memtable if the log is empty
		cache.MemTable = func(int64) int64 { return 0 }
	}

	seen, err := watch.Traffic(t.Context(), found, p, db, watch.LayoutOf(spec.Engine, db), cache,
		watch.Options{Share: 1, Tell: func(result.Event) {}})
	<-done
	if err != nil {
		t.Fatal(err)
	}

	return &seen.Watch, readRun(t, target.out)
}

// TestVerdictNamesTheBottleneckOfRocksDB is the same for a program in C.
func TestVerdictNamesTheBottleneckOfRocksDB(t *testing.T) {
	watching(t)
	for _, option := range []string{"OPEN_FILES", "FILTERS"} {
		t.Setenv(option, "") // what it was is restored at the end
		os.Unsetenv(option)
	}

	program, library, db := rocksGets(t), rocksLibrary(t), filepath.Join(t.TempDir(), "db")
	if text, err := exec.Command(program, library, "write", db, "0",
		"1000000").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	for _, c := range []constraint{
		{name: "small cache", want: advice.SmallCache, cache: 4 << 20},
		{name: "few open files", want: advice.LowOpenFiles, cache: 64 << 20, openFiles: 20},
		{name: "filters not consulted", want: advice.NoFilters, cache: 2 << 20, unfiltered: true},
		{name: "all in the cache", want: advice.Processor, cache: 64 << 20},
		{name: "large database", want: advice.SmallCache, cache: 1 << 20},
	} {
		judgeConstrained(t, c, func(c constraint) *result.Watch {
			for option, value := range map[string]string{
				"OPEN_FILES": fmt.Sprint(cmp.Or(c.openFiles, -1)),
				"FILTERS":    map[bool]string{true: "none"}[c.unfiltered],
			} {
				if value == "" {
					os.Unsetenv(option)
				} else {
					os.Setenv(option, value)
				}
			}

			seen, _ := rocksSeen(t, program, library, db, 60_000, c.cache)
			return &seen.Watch
		})
	}
}

// judgeConstrained watches a process, and once more with the change that the verdict names.
func judgeConstrained(t *testing.T, c constraint, observe func(constraint) *result.Watch) {
	t.Helper()
	w := observe(c)
	v := watched.Watched{Watch: w}.Verdict()
	t.Logf("%s: %s; %s", c.name, v.Bottleneck, watched.Watched{Watch: w}.Answer())
	// The disk and the processors are the machine's: what else runs on it may keep them busy.
	busy := v.Bottleneck == advice.DiskReads &&
		(c.want == advice.NotGets && w.OrZero(figure.DeviceBusy) >= 0.8 ||
			c.want == advice.SlowDisk && w.OrZero(figure.ProcessorWait) >= 0.2)
	if v.Bottleneck != c.want && !busy {
		t.Errorf("%s: the verdict is %q, not %q", c.name, v.Bottleneck, c.want)
	}

	changed := c
	var least, most float64
	switch v.Bottleneck {
	case advice.SmallCache:
		changed.cache, least, most = v.Larger.CacheBytes, v.Larger.Least, v.Larger.Most
	case advice.LowOpenFiles:
		changed.openFiles = v.OpenFiles.Enough
		least, most = v.OpenFiles.ReadsOpen, v.OpenFiles.ReadsOpen
	case advice.NoFilters:
		changed.unfiltered = false
		least, most = v.Filters.Consulted.Least, v.Filters.Consulted.Most
	default:
		return
	}

	after := observe(changed)
	if after.Simulated == nil {
		t.Fatalf("%s, changed: %v", c.name, after.Why)
	}

	const off = 0.02
	t.Logf("%s: predicted %.4f to %.4f, then %.4f", c.name, least, most, after.Simulated.Seen)
	if got := after.Simulated.Seen; got < least*(1-off)-0.005 || got > most*(1+off)+0.005 {
		t.Errorf("%s: predicted %v to %v, and then %v block reads per Get", c.name, least, most,
			got)
	}
}
