package advise

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

var update = flag.Bool("update", false, "rewrite testdata/advice.txt with what is printed now")

const mib, gib = 1 << 20, 1 << 30

// someDisk is a virtual disk as fio saw it (4 KiB random direct reads).
func someDisk() advice.Disk {
	return advice.Disk{Points: []advice.ProbePoint{
		{InFlight: 1, ReadsPerSecond: 27e3, MeanNanos: 36e3, P99Nanos: 90e3},
		{InFlight: 4, ReadsPerSecond: 54e3, MeanNanos: 73e3, P99Nanos: 200e3},
		{InFlight: 16, ReadsPerSecond: 67e3, MeanNanos: 240e3, P99Nanos: 900e3},
	}}
}

// someEvidence is a database of the study's Medium size behind a geth that
// writes, with round figures.
func someEvidence() Evidence {
	place := func(cacheBytes int64, reads, rest float64) Place {
		p := Place{CacheBytes: cacheBytes, BlockCacheBytes: cacheBytes / 2, BlockReadsPerGet: reads}
		if rest > 0 { // most of a curve has no such figure
			p.AtRest = figure.Known(rest)
		}
		return p
	}

	at := func(p Place) *Place { return &p }
	return Evidence{
		Database: result.Database{
			Dir:   "chaindata",
			Bytes: 224 * gib,
			Files: 7105,
			Levels: []engine.Level{
				{Level: 0, Sublevels: 1},
				{
					Level:              5,
					Sublevels:          1,
					Files:              1105,
					Bytes:              20 * gib,
					Keys:               2e8,
					FilterConsulted:    true,
					FilterBytes:        240 * mib,
					FilterCacheBytes:   240 * mib,
					TopIndexCacheBytes: 4 * mib,
					IndexBlocks:        46_000,
					IndexCacheBytes:    170 * mib,
					DataCacheBytes:     30 * gib,
					InCacheKnown:       true,
				},
				{
					Level:              6,
					Sublevels:          1,
					Files:              6000,
					Bytes:              204 * gib,
					Keys:               18e8,
					FilterBytes:        2 * gib,
					FilterCacheBytes:   2 * gib,
					TopIndexCacheBytes: 40 * mib,
					IndexBlocks:        414_000,
					IndexCacheBytes:    1500 * mib,
					DataCacheBytes:     300 * gib,
					InCacheKnown:       true,
				},
			},
		},
		Engine: result.Engine{Name: "pebble1", Version: "v1.1.5"},
		Client: clients.Geth,
		Settings: advice.Settings{
			CacheBytes:    2 * gib,
			MemTableBytes: 256 * mib,
			StopMemTables: 8,
			Handles:       5000,
			Source:        "OPTIONS-000007",
		},
		Machine: result.Host{MemoryBytes: 64 * gib},
		Disk:    someDisk(),
		Curve: Curve{
			Points: []Place{place(128*mib, 5, 0), place(2*gib, 1.6, 1.05),
				place(16*gib, 0.99, 0)},
			Floor:      1,
			WholeBytes: 700 * gib,
			Now:        place(2*gib, 1.6, 1.05),
			Below2:     at(place(900*mib, 1.98, 0)),
			Below1_1:   at(place(3600*mib, 1.09, 0)),
			Near:       at(place(3800*mib, 1.05, 1)),
			Flat:       at(place(4200*mib, 1.02, 0)),
			Doubled:    at(place(8400*mib, 1.01, 0)),
		},
	}
}

func TestAnswers(t *testing.T) {
	const little = "; doubling a cache of 4.10 GiB saves less than 2% of the reads."
	writing := func(reads string) string {
		return "while the node writes, a Get needs about " + reads + " block reads"
	}
	best := writing("1.05") + " (1.00 when nothing is written, as sweep measures)"
	for _, c := range []struct {
		name   string
		change func(*Evidence)
		answer string
		keep   bool
		cache  int64
	}{
		{"a larger cache pays", func(*Evidence) {},
			"With a cache of 3.71 GiB: " + best +
				"; with the node's cache of 2.00 GiB: 1.60 (1.05)" + little, false, 3800 * mib},
		{"nothing is written", func(e *Evidence) {
			e.Writes.Known, e.Curve.Near.AtRest, e.Curve.Now.AtRest = true, figure.Known(1.05),
				figure.Known(1.6)
		},
			"With a cache of 3.71 GiB: while nothing is written, a Get needs about 1.05 block " +
				"reads; with the node's cache of 2.00 GiB: 1.60" + little, false,
			3800 * mib},
		{"what runs is enough",
			func(e *Evidence) { e.Curve.Now = Place{CacheBytes: 8 * gib, BlockReadsPerGet: 1.01} },
			"The node's cache of 8.00 GiB is large enough: " + writing("1.01") +
				"; a cache of 3.71 GiB would need 1.05" + little, true, 8 * gib},
		{"nearly enough",
			func(e *Evidence) {
				e.Curve.Now = Place{CacheBytes: 3700 * mib, BlockReadsPerGet: 1.06}
			},
			"The node's cache of 3.61 GiB is large enough: " + writing("1.06") + little, true,
			3700 * mib},
		{"data blocks are cached",
			func(e *Evidence) { e.Curve.Now = Place{CacheBytes: 64 * gib, BlockReadsPerGet: 0.9} },
			"The node's cache of 64.0 GiB is large enough: " + writing("0.900") +
				"; a cache of 3.71 GiB would need 1.05" + little, true, 64 * gib},
		{"a small database goes on gaining",
			func(e *Evidence) { e.Curve.Doubled.BlockReadsPerGet = 0.8 },
			"With a cache of 3.71 GiB: " + best + "; with the node's cache of 2.00 GiB: 1.60 " +
				"(1.05); doubling a cache of 4.10 GiB saves 22% of the reads.", false,
			3800 * mib},
		{"and gains little", func(e *Evidence) { e.Curve.Doubled.BlockReadsPerGet = 0.98 },
			"With a cache of 3.71 GiB: " + best + "; with the node's cache of 2.00 GiB: 1.60 " +
				"(1.05); doubling a cache of 4.10 GiB saves only 4% of the reads.",
			false, 3800 * mib},
		{"too little memory", func(e *Evidence) {
			e.Limits.MemoryBytes, e.Curve.AtMaxBytes = 5*gib,
				&Place{CacheBytes: 3 * gib, BlockCacheBytes: 1536 * mib, BlockReadsPerGet: 1.2}
		}, "In 5.00 GiB of memory a cache of 3.00 GiB fits: " + writing("1.20") +
			"; with the node's cache of 2.00 GiB: 1.60 (1.05); " +
			"a cache of 3.71 GiB would need 1.05.", false, 3 * gib},
		{"more than the memory runs", func(e *Evidence) {
			e.Limits.MemoryBytes, e.Curve.Now = 6*gib,
				Place{CacheBytes: 8 * gib, BlockReadsPerGet: 1.01}
		}, "The node's cache of 8.00 GiB does not fit 6.00 GiB of memory, and 3.71 GiB is " +
			"enough: " + best + little, false, 3800 * mib},
		{"nobody's cache",
			func(e *Evidence) {
				e.Client, e.Curve.Now, e.Limits.MemoryBytes = clients.Statelab, Place{}, 6*gib
			},
			"With a cache of 3.71 GiB: " + best + little, false, 3800 * mib},
		{"memory below IP1", func(e *Evidence) {
			e.Limits.MemoryBytes, e.Curve.AtMaxBytes = 256*mib,
				&Place{CacheBytes: 150 * mib, BlockCacheBytes: 75 * mib, BlockReadsPerGet: 4.4}
		}, "The largest cache that fits 256 MiB of memory is 150 MiB. It has 75.0 MiB for " +
			"blocks, too little even for the filters and top-level " +
			"indexes (IP1, 284 MiB): " + writing("4.40") + "; with the node's cache of 2.00 GiB: " +
			"1.60 (1.05); a cache of 3.71 GiB would need 1.05.", false, 150 * mib},
		{"the memory holds everything", func(e *Evidence) {
			e.Limits.MemoryBytes = 8 * gib
			e.Curve.Whole = &Place{CacheBytes: 5 * gib, BlockReadsPerGet: 0}
		}, "8.00 GiB of memory hold the whole database: with a cache of 5.00 GiB, no Get reads a " +
			"block once it is warm; with the node's cache of 2.00 GiB: 1.60 (1.05).", false,
			5 * gib},
		{"everything fits", func(e *Evidence) {
			e.Curve.WholeBytes, e.Curve.Now = 9*mib, Place{CacheBytes: 16 * mib}
		}, "The node's cache of 16.0 MiB is large enough: the whole database takes 9.00 MiB in a " +
			"cache.", true, 16 * mib},
	} {
		e := someEvidence()
		c.change(&e)
		a := Judge(e)
		if a.Answer != c.answer {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, a.Answer, c.answer)
		}

		if a.Recommendation.Keep != c.keep || a.Recommendation.CacheBytes != c.cache ||
			a.Then.CacheBytes != c.cache {
			t.Errorf("%s: keep %v, %d MiB", c.name, a.Recommendation.Keep,
				a.Recommendation.CacheBytes/mib)
		}
	}
}

// TestNobodysCache: a database that only statelab used has no present cache, and nothing says
// otherwise.
func TestNobodysCache(t *testing.T) {
	e := someEvidence()
	e.Client, e.Curve.Now, e.Engine.Profile = clients.Statelab, Place{}, "bench-kvdb"
	e.Limits = Limits{GetsPerSecond: 5000, LatencyGoal: time.Millisecond}
	a := Judge(e)
	var out strings.Builder
	if err := render.Terminal(&out, a.Document()); err != nil {
		t.Fatal(err)
	}

	for _, words := range []string{"present cache", "cache now", "the node's"} {
		if strings.Contains(out.String(), words) {
			t.Errorf("says %q:\n%s", words, out.String())
		}
	}

	if !strings.Contains(out.String(), "Memtables: those of the profile bench-kvdb") ||
		!strings.Contains(out.String(), "statelab's 5,000 keep 4,990 open") {
		t.Errorf("printed\n%s", out.String())
	}

	if text, err := json.Marshal(a); err != nil || strings.Contains(string(text), `"now"`) {
		t.Errorf("%v in %s", err, text)
	}
}

func reason(a Advice, code string) string {
	for _, r := range a.Reasons {
		if r.Code == code {
			return r.Text
		}
	}
	return ""
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		code   string
		change func(*Evidence)
		want   string // "": no such reason
	}{
		{"shape", func(*Evidence) {}, "filters and top indexes take 284 MiB of a cache (IP1), " +
			"with all indexes 1.91 GiB (IP2); a Get then reads 1.00 data " +
			"blocks, which no cache much smaller than the database saves"},
		{"shape", func(e *Evidence) { e.Database.Levels[1].FilterConsulted = false },
			"no filters are consulted; top indexes take 44.0 MiB of a cache (IP1), with"},
		{"memtables", func(*Evidence) {}, "a node that writes keeps 4 of 475 MiB, so 1.86 GiB of " +
			"the 3.71 GiB hold blocks; while it writes nothing a Get costs " +
			"1.00; in a write stall 8 of them leave nothing"},
		{"memtables",
			func(e *Evidence) { e.Writes = advice.Writes{Known: true, BytesPerSecond: 1 << 20} },
			"keeps 2 of 475 MiB"},
		{"memtables",
			func(e *Evidence) { e.Writes = advice.Writes{Known: true, BytesPerSecond: 1 << 20} },
			"one fills in 7.9 min at 1.00 MiB/s"},
		{"memtables", func(e *Evidence) { e.Writes = advice.Writes{Known: true} }, ""},
		{"disk", func(*Evidence) {}, "the disk gives 67k reads/s: enough for 63.8k Gets/s, with " +
			"the present cache 41.9k; give --gets-per-second"},
		{"disk", func(e *Evidence) { e.Limits.GetsPerSecond = 5000 },
			"At 5k Gets/s, with the present cache it needs 8k reads/s of this disk's 27k at 1 in " +
				"flight: not the disk; with 3.71 GiB it needs 5.25k reads/s"},
		{"disk", func(e *Evidence) { e.Limits.GetsPerSecond = 50_000 },
			"with the present cache it needs 80k reads/s of this disk's 67k at 16 in flight: the " +
				"disk is the limit; with 3.71 GiB it needs 52.5k reads/s of this disk's 67k at " +
				"16 in flight: close"},
		{"disk", func(e *Evidence) { e.Disk = advice.Disk{Absent: "tmpfs", Failed: true} },
			"Whether the disk is the limit cannot be told: tmpfs."},
		{"disk", func(e *Evidence) { e.Disk = advice.Disk{Absent: "--probe-seconds 0"} },
			"whether the disk is the limit cannot be told: --probe-seconds 0"},
		{"latency", func(e *Evidence) { e.Limits.LatencyGoal = 50 * time.Microsecond },
			"a Get of 1.05 x 36.0 us = 37.8 us meets the goal of 50.0 us; " +
				"with the present cache 1.60 x 36.0 us = 57.6 us misses it (device time, 1 in " +
				"flight, p99 of one read 90.0 us)"},
		{"latency", func(*Evidence) {}, ""},
		{"one_by_one", func(*Evidence) {}, "at queue depth 1 (36.0 us per read), throughput is " +
			"at most 26.5k Gets/s, with the present cache 17.4k"},
		{"handles", func(e *Evidence) { e.Database.Files = 8 }, "74 file handles for 8 tables: " +
			"Pebble makes room for at least 64, and for 10 other files"},
		{"handles", func(*Evidence) {}, "8,892 file handles for 7,105 tables, a quarter more " +
			"that compactions write, and 10 other files " +
			"(geth gives the database half of its limit: ulimit -n 17784 or more); the node's " +
			"5,000 keep 4,990 open"},
		{"handles", func(e *Evidence) { e.Settings.Handles = 8000 },
			"the node's 8,000 are just enough"},
		{"unused_filters", func(*Evidence) {}, "2.00 GiB of filters on the last level are never " +
			"consulted by a Get: without them the database, and what " +
			"compactions write, would be 0.893% smaller; they take no cache; the node's options " +
			"write no more of them"},
		{"unused_filters", func(e *Evidence) { e.Settings.LastLevelFilter = true },
			"the node's options still write them"},
		{"unused_filters", func(e *Evidence) { e.Database.Levels[2].FilterBytes = 0 }, ""},
		{"no_filters", func(*Evidence) {}, ""},
		{"no_filters",
			func(e *Evidence) {
				e.Curve.WithFilters = &Place{CacheBytes: 4 * gib, BlockReadsPerGet: 1.06}
			},
			"a Get would need about 1.06 block reads at a cache of 4.00 GiB"},
		{"level0", func(*Evidence) {}, ""},
		{"level0", func(e *Evidence) { e.Database.Levels[0].Sublevels = 9 },
			"level 0 holds 9 sublevels"},
		{"page_cache", func(e *Evidence) { e.Limits.MemoryBytes = 32 * gib },
			"of the database in the page cache"},
		{"whole", func(*Evidence) {}, ""},
		{"whole", func(e *Evidence) { e.Curve.WholeBytes = 3 * gib },
			"a cache of 3.00 GiB would hold the whole database"},
		{"geth_limit", func(*Evidence) {}, ""},
		{"geth_limit", func(e *Evidence) { e.Machine.MemoryBytes = 8 * gib },
			"geth cuts --cache to a third of the machine's memory (8.00 GiB here): the database " +
				"gets 2.40 GiB of it, not 3.71 GiB"},
		{"geth_limit", func(e *Evidence) { e.Machine.MemoryLimit = 8 * gib }, "(8.00 GiB here)"},
		{"verified",
			func(e *Evidence) {
				e.Verified = []Verified{{ErrorPercent: -1.2}, {ErrorPercent: 0.3}}
			}, "the prediction is off by at most 1.2%"},
		{"verified",
			func(e *Evidence) { e.Verified, e.SampleKeys = []Verified{{ErrorPercent: 1}}, 200_000 },
			"the 200,000 sampled keys ask for part of the 460,000 index blocks only"},
		{"verified", func(e *Evidence) { e.Verified = []Verified{{ErrorPercent: 15}} },
			"off by up to 15%: trust what was measured"},
		{"verified", func(*Evidence) {}, ""},
	} {
		e := someEvidence()
		c.change(&e)
		a := Judge(e)
		got := reason(a, c.code)
		if c.code == "disk" && got == "" {
			got = a.Answer // where the disk was asked about
		}

		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.code, got, c.want)
		}
	}
}

// TestFlagsOfTheNodeThatRuns: what it was started with is changed as little as possible.
func TestFlagsOfTheNodeThatRuns(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"geth", "--cache", "8192", "--cache.database", "25"},
			[]string{"--cache.database 47"}},
		{[]string{"geth", "--cache", "16384"}, // not what its database has: its flags do not tell
			[]string{"--cache 4223", "--cache.database 90"}},
	} {
		e := someEvidence()
		e.Client = clients.Geth
		e.Running = &advice.RunningNode{Config: advice.FlagsAlone(clients.Geth, c.args)}
		if got := Judge(e).Recommendation.Flags; !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.args, got, c.want)
		}
	}
}

func TestRecommendedFlagsAreTheClients(t *testing.T) {
	for client, want := range map[clients.Client][]string{
		clients.Geth:     {"--cache 4223", "--cache.database 90"},
		clients.Statelab: {"--cache 3800MiB"},
		clients.AnyPebble: {"Options.Cache = pebble.NewCache(3984588800)",
			"Options.MemTableSize = 498073600"},
	} {
		e := someEvidence()
		e.Client = client
		a := Judge(e)
		if !slices.Equal(a.Recommendation.Flags, want) || a.Recommendation.Client != client {
			t.Errorf("%s: %v, want %v", client, a.Recommendation.Flags, want)
		}

		for _, s := range a.Settings {
			if s.BlockCacheBytes < a.Recommendation.BlockCacheBytes {
				t.Errorf("%s, told to %s: %d for blocks, fewer than %d", client, s.Client,
					s.BlockCacheBytes, a.Recommendation.BlockCacheBytes)
			}
		}
	}
}

// The flags that are called those of the present cache give it.
func TestFlagsOfThePresentCache(t *testing.T) {
	e := someEvidence()
	e.Client, e.Curve.Now = clients.Geth, Place{CacheBytes: 8 * gib, BlockReadsPerGet: 1.01}
	a := Judge(e)
	if !a.Recommendation.Keep || a.Settings[0].CacheBytes != 8*gib ||
		!slices.Equal(a.Recommendation.Flags, []string{"--cache 16384"}) {
		t.Errorf("keep %v: %v give %d bytes", a.Recommendation.Keep, a.Recommendation.Flags,
			a.Settings[0].CacheBytes)
	}

	var text strings.Builder
	if err := render.Terminal(&text, a.Document()); err != nil ||
		!strings.Contains(text.String(), "These set the present cache:") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// Nobody is told flags that need more memory than there is.
func TestFlagsFitTheMemory(t *testing.T) {
	e := someEvidence()
	e.Client, e.Database.Files, e.Limits.MemoryBytes = clients.Statelab, 2, 4*mib
	e.Settings = advice.Settings{CacheBytes: 3 * mib, MemTableBytes: 256 << 10, StopMemTables: 2}
	e.Curve.AtMaxBytes = &Place{
		CacheBytes:       3 * mib,
		BlockCacheBytes:  2 * mib,
		BlockReadsPerGet: 1.5,
	}

	for _, s := range Judge(e).Settings {
		if s.CacheBytes+s.OtherCacheBytes > e.Limits.MemoryBytes {
			t.Errorf("%s: %v take %d bytes", s.Client, s.Flags, s.CacheBytes+s.OtherCacheBytes)
		}
	}

	if minimum := advice.MinMemory(clients.Geth, 2); minimum < advice.GethLeastCache ||
		minimum > 64*mib {
		t.Errorf("geth needs %d bytes", minimum)
	}
}

func TestMemoryAddsUp(t *testing.T) {
	e := someEvidence()
	e.Limits.MemoryBytes = 8 * gib
	a := Judge(e)
	var sum int64
	for _, s := range a.Memory {
		sum += s.Bytes
	}

	if sum != 8*gib || len(a.Memory) != 5 {
		t.Errorf("%+v: %d in all", a.Memory, sum)
	}
}

// The names are a contract.
func TestAdviceAsJSON(t *testing.T) {
	e := someEvidence()
	e.Limits.GetsPerSecond = 5000
	text, err := json.Marshal(Judge(e))
	if err != nil {
		t.Fatal(err)
	}

	var a struct {
		Schema         string
		Recommendation struct {
			CacheBytes int64 `json:"cache_bytes"`
			Flags      []string
		}
		Now, Then struct {
			CacheBytes          int64   `json:"cache_bytes"`
			BlockReadsPerGet    float64 `json:"block_reads_per_get"`
			BlockReadsPerSecond float64 `json:"block_reads_per_second"`
		}
		Reasons []Reason
	}

	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}

	if a.Schema != "statelab.advise/1" || a.Recommendation.CacheBytes != 3800*mib ||
		len(a.Recommendation.Flags) != 2 || len(a.Reasons) < 5 {
		t.Errorf("%+v", a)
	}

	if a.Now.CacheBytes != 2*gib || a.Now.BlockReadsPerGet != 1.6 ||
		a.Now.BlockReadsPerSecond != 8000 || a.Then.BlockReadsPerSecond != 5250 {
		t.Errorf("now %+v, then %+v", a.Now, a.Then)
	}
}

func TestText(t *testing.T) {
	e := someEvidence()
	e.Limits = Limits{MemoryBytes: 8 * gib, GetsPerSecond: 5000, LatencyGoal: time.Millisecond}
	e.Verified = []Verified{{CacheBytes: 2 * gib, Predicted: 1.05, Measured: 1.06,
		ErrorPercent: -0.9, DeviceReadsPerGet: figure.Known(1.05)},
		{CacheBytes: 3800 * mib, Predicted: 1, Measured: 0.99, ErrorPercent: 1}}
	var out strings.Builder
	if err := render.Terminal(&out, Judge(e).Document()); err != nil {
		t.Fatal(err)
	}

	const path = "testdata/advice.txt"
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if out.String() != string(want) {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}

	const columns = 80 // of a terminal nobody has resized
	for _, line := range strings.Split(out.String(), "\n") {
		if utf8.RuneCountInString(line) > columns {
			t.Errorf("wider than %d: %s", columns, line)
		}
	}
}
