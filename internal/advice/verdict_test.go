package advice

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/result/figure"
)

// TestVerdicts: what limits a node follows from the time of its Gets, what part of it reads take,
// and what other caches would read.
func TestVerdicts(t *testing.T) {
	evidence := func(inFlight, reading, busy float64, others ...CacheReads) Evidence {
		return Evidence{Program: "geth", Gets: 1e5, Seconds: 10,
			InFlight: figure.Known(inFlight), Reading: figure.Known(reading),
			DiskBusy: figure.Known(busy),
			Present:  CacheReads{CacheBytes: 16 * mib, PerGet: 0.162, Least: 0.162, Most: 0.162},
			Others:   others}
	}

	helps := CacheReads{CacheBytes: 32 * mib, PerGet: 0.006, Least: 0, Most: 0.01}
	unsure := CacheReads{CacheBytes: 32 * mib, PerGet: 0.05, Least: 0, Most: 0.16}
	little := CacheReads{CacheBytes: 32 * mib, PerGet: 0.15, Least: 0.15, Most: 0.15}
	large := CacheReads{CacheBytes: 64 * mib, PerGet: 0.01, Least: 0.01, Most: 0.01}
	slow := evidence(0.9, 0.9, 0, little)
	slow.ReadWait, slow.DiskBusy = figure.Known(0.0021), figure.Value{}
	waiting := slow
	waiting.Waiting = figure.Known(0.5)
	small := CacheReads{CacheBytes: 8 * mib, PerGet: 0.01, Least: 0.01, Most: 0.01}

	for _, c := range []struct {
		name     string
		evidence Evidence
		want     Bottleneck
		larger   int64 // MiB
		sentence string
	}{
		{"idle Gets", evidence(0.03, 0.9, 0.04, helps), NotGets, 32, "The database is not what " +
			"slows this geth: its Gets take 3% of the time of one thread, and the disk is " +
			"4% busy."},
		{"somebody else's disk", evidence(0.03, 0.9, 0.95, helps), DiskReads, 32,
			"The disk is 95% busy, but not with Gets: they take 3% of the time of one thread."},
		{"a small cache", evidence(0.7, 0.9, 0.5, helps), SmallCache, 32, "The cache is too " +
			"small: Gets take 70% of the time of one thread, 90% of that in Gets that read " +
			"blocks; the disk is 50% busy."},
		{"nothing helps", evidence(2.3, 0.9, 0.5, little), DiskReads, 0, "Block reads limit the " +
			"Gets, which take the time of 2.3 threads, 90% of that in Gets that read blocks; " +
			"the disk is 50% busy; with a cache of 32.0 MiB, a Get would still need 0.150 block " +
			"reads."},
		{"a slow disk", slow, SlowDisk, 0, "The disk is slow: Gets that read blocks take 2.1 ms " +
			"for each block, and Gets take 90% of the time of one thread; with a cache of 32.0 " +
			"MiB, a Get would still need 0.150 block reads."},
		{"no processor", waiting, DiskReads, 0, "Block reads limit the Gets"},
		{"the smallest that is certain", evidence(0.7, 0.9, 0.5, unsure, large), SmallCache, 64,
			""},
		{"none is certain", evidence(0.7, 0.9, 0.5, unsure), SmallCache, 32, ""},
		{"a smaller one is none", evidence(0.7, 0.9, 0.5, small), DiskReads, 0, ""},
		{"the processor", evidence(0.7, 0.1, 0.1, helps), Processor, 32, "90% of the time in " +
			"Gets passes in Gets whose blocks were all in the cache: the processor limits them, " +
			"and a larger cache saves at most 10% of their time."},
		{"too few", Evidence{Program: "geth", Gets: 20, Seconds: 10}, TooFewGets, 0,
			"geth made 20 Gets in 10.0 s: too few to judge its database. Watch it for 9 min or " +
				"longer."},
		{"none", Evidence{Program: "geth", Seconds: 10}, TooFewGets, 0,
			"geth made 0 Gets in 10.0 s: too few to judge its database. Watch it while it " +
				"has work."},
		{"an old watch", Evidence{Program: "geth", Gets: 1e5, Seconds: 10}, "", 0, ""},
	} {
		v := Judge(c.evidence)
		var larger int64
		if v.Larger != nil {
			larger = v.Larger.CacheBytes / mib
		}

		if v.Bottleneck != c.want || larger != c.larger ||
			!strings.HasPrefix(v.Sentence, c.sentence) {
			t.Errorf("%s: %q, %d MiB: %s", c.name, v.Bottleneck, larger, v.Sentence)
		}
	}
}

// TestVerdictsOfBusyMachines: a verdict says that threads wait for a processor where they do so for
// much of the time, and that the disk is busy with other reads than the node's where it is.
func TestVerdictsOfBusyMachines(t *testing.T) {
	evidence := Evidence{Program: "geth", Gets: 1e5, Seconds: 10, InFlight: figure.Known(0.7),
		Reading: figure.Known(0.9), DiskBusy: figure.Known(0.22)}
	for _, c := range []struct {
		own, waiting figure.Value
		end          string
	}{
		{figure.Known(0.5), figure.Known(0.1), "; the disk is 22% busy."},
		{figure.Value{}, figure.Value{}, "; the disk is 22% busy."},
		{figure.Known(0.001), figure.Known(0.1), "; the disk is 22% busy, but not with reads of " +
			"this geth."},
		{figure.Known(0.5), figure.Known(0.45), "; the disk is 22% busy. When its threads could " +
			"run, they wait 45% of the time for a processor, also inside Gets."},
	} {
		e := evidence
		e.OwnReads, e.Waiting = c.own, c.waiting
		if v := Judge(e); !strings.HasSuffix(v.Sentence, c.end) {
			t.Errorf("%s\nwant %s", v.Sentence, c.end)
		}
	}
}

// TestVerdictsOfOpenFiles: a limit of open files is named where all tables open read less; where
// most reads go, it is what limits the node.
func TestVerdictsOfOpenFiles(t *testing.T) {
	evidence := func(open float64) Evidence {
		return Evidence{Program: "node", Gets: 1e5, Seconds: 10, InFlight: figure.Known(0.7),
			Reading: figure.Known(0.9),
			Present: CacheReads{CacheBytes: 4 * mib, PerGet: 8.4, Least: 8.4, Most: 8.4},
			OpenFiles: &OpenFileLimit{Limit: 80, Tables: 331, Enough: 341, CacheBytes: 4 * mib,
				Reads: 8.4, ReadsOpen: open}}
	}

	for _, c := range []struct {
		open  float64
		want  Bottleneck
		named bool
	}{{0.71, LowOpenFiles, true}, {8, DiskReads, true}, {8.39, DiskReads, false}} {
		v := Judge(evidence(c.open))
		if v.Bottleneck != c.want || (v.OpenFiles != nil) != c.named {
			t.Errorf("%v reads with all tables open: %q, %+v: %s", c.open, v.Bottleneck,
				v.OpenFiles, v.Sentence)
		}
	}

	e := evidence(0.71)
	const want = "Raise max_open_files from 80 to at least 341, so that all 331 tables stay " +
		"open: 8.40 -> 0.710 block reads per Get with a cache of 4.00 MiB."
	if got := e.OpenFiles.Raise("max_open_files"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}

	e.OpenFiles.Limit = 0
	if got := e.OpenFiles.Raise("max_open_files"); !strings.HasPrefix(got,
		"Raise max_open_files to at least 341, ") {
		t.Error(got)
	}
}

// TestVerdictsOfFilters: filters that no Get consults are named where they save reads; where they
// save most of them, they are what limits the node, and no larger cache is named, whose figures are
// of Gets without filters.
func TestVerdictsOfFilters(t *testing.T) {
	evidence := func(consulted *CacheReads) Evidence {
		return Evidence{Program: "node", Gets: 1e5, Seconds: 10, InFlight: figure.Known(0.7),
			Reading: figure.Known(0.9),
			Present: CacheReads{CacheBytes: 4 * mib, PerGet: 3.1, Least: 3.1, Most: 3.1},
			Others:  []CacheReads{{CacheBytes: 8 * mib, PerGet: 1, Least: 1, Most: 1}},
			Filters: &FilterUse{Families: []string{"default"}, Tables: 12, Filtered: 12,
				BitsPerKey: 10, Reads: 3.1, Consulted: consulted}}
	}

	reads := func(perGet float64) *CacheReads {
		return &CacheReads{CacheBytes: 4 * mib, PerGet: perGet, Least: perGet, Most: perGet}
	}

	for _, c := range []struct {
		consulted     *CacheReads
		want          Bottleneck
		named, larger bool
	}{
		{reads(1.02), NoFilters, true, false},
		{reads(2.9), SmallCache, true, true},
		{reads(3.09), SmallCache, false, true},
		{nil, SmallCache, true, true}, // how much they save is not known
	} {
		v := Judge(evidence(c.consulted))
		if v.Bottleneck != c.want || (v.Filters != nil) != c.named ||
			(v.Larger != nil) != c.larger {
			t.Errorf("%v with filters: %q, %+v, larger %+v: %s", c.consulted, v.Bottleneck,
				v.Filters, v.Larger, v.Sentence)
		}
	}
}

// TestFilterSentences: the sentence says which tables, what to set in the words of the client's
// library, and what it saves, as a range where one is known.
func TestFilterSentences(t *testing.T) {
	ignored := FilterUse{Families: []string{"a"}, Tables: 12, Filtered: 9, BitsPerKey: 15,
		Reads: 3.1, Consulted: &CacheReads{CacheBytes: 4 * mib, PerGet: 1.02, Least: 1,
			Most: 1.05}}
	const save = ": 3.10 -> 1.02 (1.00 to 1.05) block reads per Get with a cache of 4.00 MiB."
	const noPolicy = "9 of 12 tables of column family a have filters, which no Get consults, " +
		"because the options name no filter policy: set "

	for client, option := range map[clients.Client]string{
		clients.Besu:       "BlockBasedTableConfig.setFilterPolicy(new BloomFilter(15))",
		clients.Reth:       "BlockBasedOptions::set_bloom_filter(15.0, false)",
		clients.AnyRocksDB: "filter_policy=bloomfilter:15:false in the options of its tables",
	} {
		if got := ignored.Sentence(client); got != noPolicy+option+save {
			t.Errorf("%s: %s", client, got)
		}
	}

	pebble := FilterUse{Tables: 2, Filtered: 2}
	if got := pebble.Sentence(clients.AnyPebble); got != "2 of 2 tables have filters, "+
		"which no Get consults, because the options name no filter policy: set "+
		"Options.Levels[].FilterPolicy = bloom.FilterPolicy(10)." {
		t.Error(got)
	}

	lacking := FilterUse{Families: []string{"a", "b", "c"}, Policy: "bloomfilter:10:false",
		Tables: 1200, Filtered: 1100, Lacking: 100}
	if got := lacking.Sentence(clients.Besu); !lacking.Worth() || got != "100 of 1200 "+
		"tables of column families a, b and c have no filter, although the options name a policy "+
		"(bloomfilter:10:false): a full compaction gives filters to all, since only "+
		"new tables get them." {
		t.Error(got)
	}

	for _, fine := range []FilterUse{{Tables: 3}, {Tables: 3, Lacking: 3},
		{Tables: 3, Filtered: 3, Policy: "bloomfilter:10:false"}} {
		if fine.Worth() {
			t.Errorf("%+v is worth a change", fine)
		}
	}
}

// TestChangeGeth: the smallest change of the flags that a geth runs with.
func TestChangeGeth(t *testing.T) {
	for _, c := range []struct {
		args                   string
		present, want, machine int64 // MiB
		sentence, refused      string
		gives                  int64 // MiB
	}{
		{"geth --cache 32", 16, 19, 64 << 10, "To set it: --cache.database 60 with your " +
			"--cache 32 (the rest of your flags stays).", "", 19},
		{"geth --syncmode full", 2048, 3000, 64 << 10, "To set it: --cache.database 74 (geth's " +
			"default --cache 4096 and your other flags stay).", "", 3031},
		{"geth -cache=8192 --cache.database=50", 4096, 16384, 96 << 10, "To set it: " +
			"--cache 18205 --cache.database 90 (the rest of your flags stays; geth's other " +
			"caches get 4.89 GiB more, too).", "", 16384},
		{"geth", 1024, 2048, 64 << 10, "", "its settings (geth's default --cache 4096) " +
			"give the database 2.00 GiB, and it runs with 1.00 GiB", 0},
		{"geth", 1024, 4096, 6 << 10, "", "at most a third of the memory: 2.00 GiB", 0},
		{"geth --cache many", 16, 32, 0, "", `"--cache many" on the command line of the process ` +
			"is not a number", 0},
		{"geth --cache", 16, 32, 0, "", `"--cache " on the command line`, 0},
		{"geth --cache 10", 16, 32, 0, "To set it: --cache 36 --cache.database 90 (the rest of " +
			"your flags stays; geth's other caches get 13.0 MiB more, too).", "", 32},
	} {
		config := FlagsAlone(clients.Geth, strings.Fields(c.args))
		change, err := ChangeGeth(config, c.present*mib, c.want*mib,
			Memory{MachineBytes: c.machine * mib})
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %q", c.args, err, c.refused)
			}
		case err != nil || change.Sentence() != c.sentence || change.CacheBytes != c.gives*mib:
			t.Errorf("%s: %v, %d MiB: %s", c.args, err, change.CacheBytes/mib, change.Sentence())
		}
	}
}
