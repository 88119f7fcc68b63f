package estimate

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
)

const (
	gib  = 1 << 30
	pair = 142 // bytes of the default key and value
)

// load is of pairs as they are by default.
func load(spec protocol.EngineSpec, m Machine) Step {
	spec.KeyBytes, spec.ValueBytes, spec.ValueModel = 32, pair-32,
		cmp.Or(spec.ValueModel, keyspace.Random)
	s, err := Load(&spec, m)
	if err != nil {
		panic(err)
	}
	return s
}

var studyMachine = Machine{Cores: 2, AvailableMemory: 20 * gib}

func within(t *testing.T, about string, got, want, factor float64) {
	t.Helper()
	if !(got >= want/factor && got <= want*factor) {
		t.Errorf("%s: %.4g, want %.4g within a factor of %g", about, got, want, factor)
	}
}

// The study's Small set as it was measured: docs/speed.md and its command.
func TestTheSmallSetOfTheStudy(t *testing.T) {
	sorted := load(protocol.EngineSpec{
		Engine:     "pebble1",
		Workload:   workload.FillSorted,
		Keys:       200e6,
		ValueModel: keyspace.Table32,
		CacheBytes: 512 << 20,
	}, studyMachine)

	within(t, "seconds of fillsorted", sorted.Seconds, 60, 2)
	within(t, "bytes of fillsorted", float64(sorted.DiskBytes), 22.1*gib, 1.2)
	random := load(protocol.EngineSpec{Engine: "pebble1", Keys: 200e6, ValueModel: keyspace.Table32,
		CacheBytes: 512 << 20}, studyMachine)
	within(t, "seconds of fillrandom", random.Seconds, 744, 2)

	sweep := func(warmup uint64, megabytes ...int64) float64 {
		var steps []Step
		for _, cache := range megabytes {
			steps = append(steps,
				Read(ReadSpec{
					EngineSpec: protocol.EngineSpec{
						Engine:     "pebble1",
						Keys:       200e6,
						CacheBytes: cache << 20,
						Threads:    8,
						Gets:       200e3,
						WarmupGets: warmup,
						PageCache:  protocol.Direct,
					},
					DatabaseBytes: 22 * gib,
				}, studyMachine))
		}

		return Total(steps).Seconds
	}

	small := ReadSpec{
		EngineSpec: protocol.EngineSpec{
			Engine:     "pebble1",
			Keys:       5e6,
			CacheBytes: 16 << 20,
			Threads:    8,
			Gets:       200e3,
			WarmupAuto: true,
			AccessGets: 20e3,
			PageCache:  protocol.Direct,
		},
		DatabaseBytes: 769e6,
	}

	next := small
	next.CacheBytes, next.AccessGets = 64<<20, 0
	within(t, "two caches of a small database", Read(small, studyMachine).Seconds+
		Read(next, studyMachine).Seconds, 39, 2)
	within(t, "five caches, a million Gets to warm", sweep(1e6, 32, 45, 90, 210, 225), 338, 2)
}

// Measured with the commands beside the constants.
func TestMeasuredLoads(t *testing.T) {
	for _, c := range []struct {
		engine     string
		keys       uint64
		sorted     bool
		disk, peak float64
	}{
		{"pebble1", 20e3, false, 298e6, 592e6},
		{"pebble1", 100e3, false, 311e6, 900e6},
		{"pebble1", 500e3, false, 372e6, 1255e6},
		{"pebble1", 1e6, false, 449e6, 1433e6},
		{"pebble1", 5e6, false, 1359e6, 1454e6},
		{"pebble1", 4e6, true, 910e6, 1343e6},
		{"pebble2", 5e6, false, 1359e6, 1430e6},
		{"rocksdb", 1e6, false, 154e6, 263e6},
		{"rocksdb", 5e6, false, 768e6, 1321e6},
		{"goleveldb", 1e6, false, 154e6, 299e6},
		{"goleveldb", 5e6, false, 771e6, 978e6},
		{"badger", 1e6, false, 164e6, 322e6},
		{"bbolt", 1e6, false, 246e6, 246e6},
		{"mdbx", 1e6, false, 249e6, 249e6},
		{"lmdb", 1e6, false, 248e6, 248e6},
	} {
		s := load(protocol.EngineSpec{
			Engine:     c.engine,
			Keys:       c.keys,
			Workload:   map[bool]string{true: workload.FillSorted}[c.sorted],
			CacheBytes: 512 << 20,
		}, studyMachine)

		within(t, c.engine+" at the end", float64(s.DiskBytes), c.disk, 1.7)
		within(t, c.engine+" at most", float64(s.PeakDiskBytes), c.peak, 1.6)
		if s.PeakDiskBytes < s.DiskBytes {
			t.Errorf("%s: %d at most, %d at the end", c.engine, s.PeakDiskBytes, s.DiskBytes)
		}
	}

	// A share for the cache is of the tables: write-ahead logs are most of a small database.
	small := load(protocol.EngineSpec{Engine: "pebble1", Keys: 50e3, CacheBytes: 512 << 20},
		studyMachine)
	within(t, "tables of 50k keys", float64(small.TableBytes), 7.3*(1<<20), 1.1)
}

func TestNullKeepsNothing(t *testing.T) {
	if s := load(protocol.EngineSpec{Engine: "null", Keys: 1e6, CacheBytes: 512 << 20},
		Machine{}); s.PeakDiskBytes != 0 || s.DiskBytes != 0 ||
		!(s.Seconds > 0) {
		t.Errorf("%+v", s)
	}
}

func TestScaleIsLinear(t *testing.T) {
	for about, step := range map[string]func(n uint64) Step{
		"load": func(n uint64) Step {
			return load(protocol.EngineSpec{
				Engine:   "pebble1",
				Workload: workload.FillSorted,
				Keys:     n,
			}, studyMachine)
		},
		"layout": func(n uint64) Step {
			return Layout(protocol.LayoutSpec{
				Layout: "pagetrie",
				Chain:  protocol.Chain{Accounts: n, ContractShare: 0.1, SlotsPer: 16},
			}, true, studyMachine)
		},
		"replay": func(n uint64) Step {
			return Replay(ReplaySpec{Tree: "iavl1", Changes: int64(n), Bytes: 500 * int64(n)},
				studyMachine)
		},
	} {
		one, ten := step(100e6), step(1e9)
		within(t, about+": seconds", ten.Seconds, 10*one.Seconds, 1.1)
		within(t, about+": bytes", float64(ten.DiskBytes), 10*float64(one.DiskBytes), 1.01)
		within(t, about+": bytes at most", float64(ten.PeakDiskBytes),
			10*float64(one.PeakDiskBytes), 1.01)
	}

	spec := ReadSpec{
		EngineSpec: protocol.EngineSpec{
			Engine:     "rocksdb",
			CacheBytes: gib,
			Threads:    4,
			Gets:       1e7,
			PageCache:  protocol.Direct,
		},
		DatabaseBytes: 100 * gib,
	}

	one := Read(spec, studyMachine)
	spec.Gets *= 10
	within(t, "read: seconds", Read(spec, studyMachine).Seconds, 10*one.Seconds, 1.1)
}

func TestRefusalSaysWhatFits(t *testing.T) {
	load := func(keys uint64) Step {
		return load(protocol.EngineSpec{Engine: "pebble1", Keys: keys, CacheBytes: 512 << 20},
			studyMachine)
	}

	refused := Total([]Step{load(2e9)}).Fits(75*gib, 20*gib)
	if refused == nil {
		t.Fatal("two billion keys fit into 75 GiB")
	}

	text := refused.Error()
	for _, want := range []string{"loading 2B keys with pebble1 needs about ", " of disk",
		"75.0 GiB is free", ": --keys ", " fits"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}

	_, after, _ := strings.Cut(text, "--keys ")
	keys, err := unit.ParseCount(strings.TrimSuffix(after, " fits"))
	if err != nil {
		t.Fatal(err)
	}

	if err := Total([]Step{load(keys)}).Fits(75*gib, 20*gib); err != nil {
		t.Errorf("what is said to fit does not: %v", err)
	}

	if err := Total([]Step{load(keys + keys/5)}).Fits(75*gib, 20*gib); err == nil {
		t.Errorf("%d keys are said to fit, and a fifth more do", keys)
	}

	both := Total([]Step{load(2e8),
		Read(ReadSpec{EngineSpec: protocol.EngineSpec{
			Engine:     "pebble1",
			Keys:       2e8,
			CacheBytes: 64 * gib,
			Threads:    1,
		}}, studyMachine)})

	if err := both.Fits(100*gib, 20*gib); err == nil || strings.Contains(err.Error(), "of disk") ||
		!strings.Contains(err.Error(), "of memory, but only 20.0 GiB is available: use a smaller "+
			"--cache or --memory") {
		t.Errorf("a cache of 64 GiB: %v", err)
	}

	if err := both.Fits(gib/4, 1<<40); err == nil ||
		!strings.Contains(err.Error(), "use a disk with more free space") {
		t.Errorf("not even the logs fit: %v", err)
	}
}

// Databases of several engines are on the disk together; a layout's states go away.
func TestTotalKeepsWhatStays(t *testing.T) {
	steps := []Step{
		{
			DiskBytes:     10,
			PeakDiskBytes: 30,
			MemoryBytes:   7,
			Seconds:       1,
			Flag:          "--keys",
			Count:         100,
			Name:          "a",
		},
		{
			DiskBytes:     10,
			PeakDiskBytes: 40,
			MemoryBytes:   5,
			Seconds:       2,
			Flag:          "--keys",
			Count:         100,
			Name:          "b",
		},
		{PeakDiskBytes: 20, Seconds: 4, Name: "c"},
	}

	e := Total(steps)
	if e.DiskBytes != 20 || e.PeakDiskBytes != 50 || e.MemoryBytes != 7 || e.Seconds != 7 {
		t.Errorf("%+v", e)
	}

	const refusal = "b needs about 50 B of disk (20 B when it is done), but only 25 B is free: " +
		"--keys 50 fits"
	if err := e.Fits(25, 7); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("%v", err)
	}

	if err := e.Fits(50, 7); err != nil {
		t.Error(err)
	}

	whole := Total([]Step{
		{DiskBytes: math.MaxInt64, PeakDiskBytes: math.MaxInt64},
		{PeakDiskBytes: 1},
	})

	if whole.PeakDiskBytes != math.MaxInt64 {
		t.Errorf("%+v", whole)
	}
}

func TestFinishedPointsCorrectTheRest(t *testing.T) {
	e := Total([]Step{
		{Kind: LoadKind, Seconds: 100},
		{Kind: ReadKind, Seconds: 10},
		{Kind: ReadKind, Seconds: 20},
		{Kind: ReadKind, Seconds: 40},
	})

	for _, c := range []struct {
		actual  []float64
		running float64
		want    float64
	}{
		{nil, 0, 170},
		{[]float64{300}, 0, 70},
		{[]float64{300, 30}, 0, 180},
		{[]float64{300, 30, 30}, 0, 80},
		{[]float64{1, 1, 1, 1, 1}, 0, 0},
		{nil, 60, 110},
		{nil, 200, 50 + 70}, // overdue: a quarter more; of another kind
		{[]float64{300}, 8, 2 + 60},
		{[]float64{300}, 16, 4 + 2*60}, // 20 in place of 10, and so those after it
		{[]float64{1, 1, 1, 1, 1}, 9, 0},
	} {
		if got := e.Remaining(c.actual, c.running); got != c.want {
			t.Errorf("after %v and %g s: %g s, want %g", c.actual, c.running, got, c.want)
		}
	}
}

func TestTheDisksOwnReadsCount(t *testing.T) {
	spec := ReadSpec{
		EngineSpec: protocol.EngineSpec{
			Engine:     "pebble1",
			Keys:       200e6,
			CacheBytes: 64 << 20,
			Threads:    8,
			Gets:       5e6,
			PageCache:  protocol.Direct,
		},
		DatabaseBytes: 22 * gib,
	}

	usual := Read(spec, studyMachine).Seconds
	slow := studyMachine
	slow.Disk = &result.Disk{Points: []result.DiskPoint{{InFlight: 1, ReadsPerSecond: 200}}}
	if got := Read(spec, slow).Seconds; got < 20*usual {
		t.Errorf("%g s on a slow disk, %g s on a usual one", got, usual)
	}

	slow.Disk.Contradicted = "it was busy"
	if got := Read(spec, slow).Seconds; got != usual {
		t.Errorf("%g s by a probe that is contradicted, %g s without", got, usual)
	}

	spec.PageCache = protocol.AsIs
	large := Machine{Cores: 2, AvailableMemory: 64 * gib}
	if got := Read(spec, large).Seconds; got > usual/2 {
		t.Errorf("%g s from the page cache, %g s from the disk", got, usual)
	}
}

// Layouts of 100,000 accounts took so long here, each with others beside it.
func TestMeasuredLayouts(t *testing.T) {
	for layout, seconds := range map[string]float64{
		"flat-pebble": 12,
		"flat-mdbx":   4,
		"pagetrie":    10,
		"chunktrie":   26,
		"geth-flat":   49,
		"geth-path":   60,
		"geth-hash":   64,
		"nomt":        10,
		"qmdb":        63,
	} {
		s := Layout(protocol.LayoutSpec{Layout: layout, Reads: 2000, MemoryBytes: 64 << 20,
			Chain: protocol.Chain{Accounts: 100e3, ContractShare: 0.1, SlotsPer: 16}}, false,
			studyMachine)
		within(t, layout, s.Seconds, seconds, 2)
	}

	// The price table of docs/prices.md took 718 s on an idle machine.
	table := 0.0
	for layout, largest := range map[string]float64{
		"flat-pebble": 18,
		"flat-mdbx":   10,
		"pagetrie":    24,
		"chunktrie":   144,
		"geth-path":   104,
		"geth-hash":   111,
	} {
		for _, accounts := range []uint64{10e3, 100e3, 1e6} {
			s := Layout(protocol.LayoutSpec{
				Layout:      layout,
				Reads:       20e3,
				MemoryBytes: 64 << 20,
				Chain:       protocol.Chain{Accounts: accounts},
			}, false, studyMachine)

			table += s.Seconds
			if accounts == 1e6 {
				within(t, layout+" in the price table", s.Seconds, largest, 2)
			}
		}
	}

	within(t, "the price table", table, 718, 2)
	s := Layout(protocol.LayoutSpec{Layout: "unheard-of", Chain: protocol.Chain{Accounts: 1e6}},
		false, studyMachine)
	if !strings.Contains(s.Basis, "no measurement of unheard-of") || s.PeakDiskBytes == 0 {
		t.Errorf("%+v", s)
	}
}

// 120 versions of the generated set of docs/trees.md.
func TestMeasuredReplays(t *testing.T) {
	for tree, c := range map[string]struct{ memory, disk float64 }{
		"iavl1":       {900, 279e6},
		"iavl1-map":   {1228, 0},
		"avlite":      {1026, 106e6},
		"iavl2":       {253, 258e6},
		"memiavl":     {400, 103e6},
		"cosmosstore": {959, 280e6},
	} {
		s := Replay(ReplaySpec{Tree: tree, Changes: 175_563, Bytes: 101_451_056, Stores: 4},
			studyMachine)
		within(t, tree+": memory", float64(s.MemoryBytes), c.memory*(1<<20), 1.3)
		if c.disk == 0 && s.DiskBytes != 0 {
			t.Errorf("%s: %d bytes on disk", tree, s.DiskBytes)
		} else if c.disk > 0 {
			within(t, tree+": disk", float64(s.DiskBytes), c.disk, 2)
		}
	}

	few := Replay(
		ReplaySpec{Tree: "iavl1", Changes: 100e6, Bytes: 50e9, Stores: 1, CacheNodes: 1e5},
		studyMachine,
	)

	if few.MemoryBytes > gib {
		t.Errorf("a cache of 100k nodes takes %d bytes", few.MemoryBytes)
	}
}
