package resolve

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

// TestReplayReadsWhatTheEngineReads closes the circle: a resolved trace,
// replayed through the simulated cache, reads as many blocks as the engine
// reads with a real one. Exactly as many.
func TestReplayReadsWhatTheEngineReads(t *testing.T) {
	gets := 50_000
	if testing.Short() {
		gets = 15_000
	}

	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			if testing.Short() && !strings.HasSuffix(f.name, "newest") {
				t.Skip("TestAccessesAreTheEngines has its accesses")
			}

			dir := t.TempDir()
			buildPlain(t, f, dir, recordedKeys)
			replayAgrees(t, f, dir, openResolver(t, f, dir),
				func() lookuppath.Keys { return recordedStream(gets) },
				400<<10, 800<<10, 1600<<10, 64<<20)
		})
	}
}

// replayAgrees compares what the engine reads of a stream, with caches of these sizes, with what
// the replay of a resolved trace reads.
func replayAgrees(
	t *testing.T, f flavour, dir string, r *Resolver, stream func() lookuppath.Keys,
	sizes ...int64,
) {
	t.Helper()
	recorded, _ := recordAll(t, r, stream(), trace.Sample{})
	// for the memtable
	setup := cachesim.Setup{
		Policy:        cachesim.ClockPro2Policy,
		Cores:         runtime.GOMAXPROCS(0),
		ReservedBytes: 256 << 10,
	}

	if f.version == cachesim.PebbleV1 {
		setup.Policy, setup.ReservedBytes = cachesim.ClockPro1Policy, 0
		recorded = afterOpening(t, f, dir, recorded, r)
	}

	points, err := cachesim.Curve(t.Context(), recorded, setup, sizes)
	must(t, err)
	for i, size := range sizes {
		t.Run(fmt.Sprintf("%d KiB", size>>10), func(t *testing.T) {
			o, keys := openOracle(t, f, dir, size), stream()
			engineReads := int64(0)
			for key, _, more := keys(); more; key, _, more = keys() {
				reads, _ := o.ask(t, key)
				engineReads += int64(len(reads))
			}

			replayed := int64(0)
			for _, n := range points[i].Reads {
				replayed += n
			}

			t.Logf("%d blocks read, %d replayed: %.5f per Get", engineReads, replayed,
				points[i].BlockReadsPerGet())
			if replayed != engineReads {
				t.Error("they differ")
			}
		})
	}
}

// afterOpening puts before the first Get what v1 does when it opens the tables
// and the resolver does not: it reads their property blocks through the cache.
func afterOpening(
	t *testing.T, f flavour, dir string, recorded *cachesim.Trace, r *Resolver,
) *cachesim.Trace {
	var reads []read
	t.Run("opening",
		func(t *testing.T) { reads = openOracle(t, f, dir, admitsNothing).notes.reads })
	// of the three reads of a table that is opened: footer, metaindex, properties
	const properties = 2
	if len(reads)%3 != 0 {
		t.Fatalf("%d reads to open tables", len(reads))
	}

	opened := *recorded
	opened.Accesses, opened.Gets, opened.Blocks = nil, nil, slices.Clone(recorded.Blocks)
	for i := properties; i < len(reads); i += 3 {
		seen, table := reads[i], r.All[i/3]
		if seen.file != table.File || seen.offset != table.propertiesAt.Offset ||
			seen.bytes != int(table.propertiesAt.Bytes)+lookuppath.TrailerBytes {
			t.Fatalf("opening read %+v, the resolver has %+v of table %d", seen,
				table.propertiesAt, table.File)
		}

		opened.Accesses = append(opened.Accesses, uint32(len(opened.Blocks)))
		opened.Blocks = append(opened.Blocks, cachesim.Block{
			File:      seen.file,
			Offset:    seen.offset,
			DiskBytes: int32(seen.bytes),
			Bytes:     int32(seen.bytes) - lookuppath.TrailerBytes,
			Type:      engine.Meta,
		})
	}

	shift := uint32(len(opened.Accesses))
	opened.Accesses = append(opened.Accesses, recorded.Accesses...)
	for _, start := range recorded.Gets {
		opened.Gets = append(opened.Gets, start+shift)
	}

	return &opened
}
