package watched

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestOpenFilesAreNamed: a limit of open files that costs reads is in the answer, on the page and
// in the JSON.
func TestOpenFilesAreNamed(t *testing.T) {
	w := Watched{Watch: &result.Watch{
		Process: result.WatchedProcess{Name: "node", PID: 7, Engine: "rocksdb"},
		Gets:    100_000,
		Watched: 10,
		Seconds: 10,
		Cache:   result.WatchedCache{Bytes: 1 << 20, Source: "LOG"},
		Simulated: &result.WatchSimulated{
			CacheBytes:       1 << 20,
			BlockReadsPerGet: 4.71,
			Low:              4.71,
			High:             4.71,
			Seen:             4.7,
		},
		OpenFiles: &result.WatchedOpenFiles{
			Limit:          64,
			Source:         "LOG",
			Option:         "max_open_files",
			Tables:         245,
			Enough:         331,
			OpensSeen:      0.93,
			OpensSimulated: figure.Known(0.94),
			AllOpen: &result.WatchSimulated{
				CacheBytes:       1 << 20,
				BlockReadsPerGet: 0.96,
				Low:              0.96,
				High:             0.96,
				Seen:             4.7,
			},
		},
	}}
	for f, value := range map[figure.Figure]float64{
		figure.BlockReadsPerGet:     4.7,
		figure.GetsPerSecond:        10_000,
		figure.TableOpensPerGet:     0.935,
		figure.TableOpenReadsPerGet: 3.74,
		figure.InFlight:             0.8,
		figure.ReadingShare:         0.9,
	} {
		w.Record(f, value)
	}

	const raise = "Raise max_open_files from 64 to at least 331, so that all 245 tables stay " +
		"open: 4.70 -> 0.960 block reads per Get with a cache of 1.00 MiB."
	if answer := w.Answer(); !strings.HasPrefix(answer,
		"The limit of open files is too low: Gets ") || !strings.Contains(answer, raise) {
		t.Error(answer)
	}

	const opens = "A Get opened 0.935 tables, which took 3.74 of its block reads: the limit of " +
		"open files, max_open_files=64 (LOG), does not keep 245 tables open, and 331 does. For " +
		"the second half of the Gets, a model of the open tables with that limit has 0.940; " +
		"observed: 0.930."
	if got := w.opens(); got != opens {
		t.Error(got)
	}

	// Without a simulated cache, what was read to open tables tells as much.
	unknown := *w.Watch
	unknown.Cache, unknown.Simulated = result.WatchedCache{}, nil
	unknown.OpenFiles = &result.WatchedOpenFiles{Option: "max_open_files", Tables: 245, Enough: 331}
	const alone = "Raise max_open_files to at least 331, so that all 245 tables stay open: 4.70 " +
		"-> 0.960 block reads per Get."
	if answer := (Watched{Watch: &unknown}).Answer(); !strings.Contains(answer, alone) {
		t.Error(answer)
	}

	text, err := json.Marshal(w.Watch)
	if err != nil {
		t.Fatal(err)
	}

	var again result.Watch
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(*w.OpenFiles, *again.OpenFiles, cmp.Comparer(
		func(a, b figure.Value) bool { return a.OrZero() == b.OrZero() })); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// TestOtherMemoryIsNamed: the answer on a process that maps its database names the memory that is
// worth having, and where to set it.
func TestOtherMemoryIsNamed(t *testing.T) {
	w := Watched{Watch: &result.Watch{
		Process:    result.WatchedProcess{Name: "reth", PID: 7, Engine: "mdbx"},
		Watched:    10,
		Seconds:    10,
		Faults:     []result.WatchedFaults{{Table: "(main)", Major: 60_000, MajorRate: 6000}},
		FaultNanos: &result.Latency{P50: 100_000, P99: 500_000, Mean: 130_000},
		OtherMemory: &result.WatchedOtherMemory{
			Bytes:          40 << 20,
			Group:          "reth.service",
			CacheBytes:     33 << 20,
			Evicted:        60_000,
			Replaced:       7.1,
			PagesPerSecond: 6000,
			Sizes: []result.WatchedMemoryReads{
				{Bytes: 30 << 20, PagesPerSecond: 7500, Low: 7000, High: 8000},
				{Bytes: 60 << 20, PagesPerSecond: 3700, Low: 3500, High: 4000},
				{Bytes: 80 << 20, PagesPerSecond: 1500, Low: 1200, High: 1800},
			},
		},
	}}

	const want = "The memory is too small: waiting for pages of the database takes 78% of the " +
		"time of one thread. reth (pid 7) read 6k pages a second of its database that were not " +
		"in the page cache (major page faults); half of these took less than 100 us, 1% more " +
		"than 500 us. The limit of its memory is 40 MiB; for the same accesses it would read " +
		"1.5k (1.2k to 1.8k) pages a second with 80 MiB, and 7.5k (7k to 8k) pages a second " +
		"with 30 MiB. To set it: MemoryMax=80M of reth.service."
	if got := w.Answer(); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// TestLargerCacheIsTheVerdicts: the larger cache in the answer is the one that the verdict means,
// and a process that looks many keys up at once is not said to make no Get.
func TestLargerCacheIsTheVerdicts(t *testing.T) {
	simulated := func(size int64, reads float64) result.WatchSimulated {
		return result.WatchSimulated{
			CacheBytes:       size,
			BlockReadsPerGet: reads,
			Low:              reads,
			High:             reads,
			Seen:             0.6,
		}
	}

	w := Watched{Watch: &result.Watch{
		Process:   result.WatchedProcess{Name: "node", PID: 7, Engine: "rocksdb"},
		Gets:      100_000,
		Watched:   10,
		Seconds:   10,
		Cache:     result.WatchedCache{Bytes: 4 << 20, Source: "LOG"},
		Simulated: new(simulated(4<<20, 0.6)),
		WhatIf: []result.WatchSimulated{simulated(2<<20, 0.7), simulated(8<<20, 0.4),
			simulated(16<<20, 0.01), simulated(32<<20, 0.01)},
	}}
	for f, value := range map[figure.Figure]float64{
		figure.BlockReadsPerGet: 0.6,
		figure.GetsPerSecond:    10_000,
		figure.InFlight:         0.8,
		figure.ReadingShare:     0.9,
	} {
		w.Record(f, value)
	}

	const want = " With 16 MiB 0.010, with 2 MiB 0.700."
	if answer := w.Answer(); !strings.Contains(answer, want) {
		t.Error(answer)
	}

	batches := *w.Watch
	batches.Gets, batches.MultiGets = 0, &result.WatchedBatches{Calls: 1000, Keys: 7500}
	const many = "node (pid 7) looked up 750 keys a second by MultiGet, 7.5 keys at a time, and " +
		"made no single Get. The block reads of these keys are not known, so what limits the " +
		"process is not known either."
	if answer := (Watched{Watch: &batches}).Answer(); answer != many {
		t.Error(cmp.Diff(many, answer))
	}

	batches.Gets, batches.MultiGets.Gets = 30_000, 7500
	const some = "node (pid 7) made 10k Gets a second, 25.0% of them as keys of MultiGets (7.5 " +
		"keys each): 0.600 block reads per Get."
	if answer := (Watched{Watch: &batches}).Answer(); !strings.Contains(answer, some) {
		t.Error(answer)
	}
}

// TestKeysAskedForOnceAreNoSkew: a tenth of them gets a tenth of the Gets, which is no skew.
func TestKeysAskedForOnceAreNoSkew(t *testing.T) {
	for _, c := range []struct {
		gets, keys uint64
		tenth      float64
		want       string
	}{
		{1000, 1000, 0.1, "Each of the 1,000 keys was asked for once."},
		{1000, 980, 0.118, "Nearly all of the 980 keys were asked for once: 2.00% of the Gets " +
			"are for a key that was asked for before."},
		{1000, 500, 0.4, "Access skew: the most requested tenth of the 500 keys gets 40.0% of " +
			"the Gets."},
	} {
		w := Watched{Watch: &result.Watch{Found: c.gets, DistinctKeys: c.keys,
			Tenths: []float64{c.tenth}}}
		if got := w.skew(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
