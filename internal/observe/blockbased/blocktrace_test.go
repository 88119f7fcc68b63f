package blockbased

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

func readBlocks(trace []byte) (*BlockTrace, error) {
	return ReadBlockTrace(bufio.NewReader(bytes.NewReader(trace)), "T", func(uint64) error {
		return nil
	})
}

// TestBlockTraces reads traces of the block cache that RocksDB's own benchmark has written: they
// have as many Gets as it has made, and a simulation of its cache with these accesses has the
// misses that RocksDB itself has counted.
func TestBlockTraces(t *testing.T) {
	dir := t.TempDir()
	traced(t, dir, "fillrandom", "--num=20000")
	for _, form := range [][]string{{"--threads=1"}, {"--threads=3", "--reads=500"}} {
		file := filepath.Join(dir, "blocks.trace")
		const cacheBytes = 256 << 10
		_, said := traced(t, dir, "readrandom",
			append([]string{"--num=20000", "--use_existing_db", "--block_cache_trace_file=" + file,
				"--cache_size=262144",
				"--cache_high_pri_pool_ratio=0.5", "--cache_numshardbits=0"}, form...)...)

		trace, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		got, err := readBlocks(trace)
		if err != nil {
			t.Fatal(err)
		}

		misses := uint64(counted(t, said, "block.cache.data.miss"))
		accesses := int(misses) + counted(t, said, "block.cache.data.hit")
		if got.Misses != misses || len(got.Accesses) != accesses ||
			len(got.Gets) != len(got.Found) || len(got.Gets) == 0 || len(got.Gets) > 1500 {
			t.Errorf("%v: %d Gets, %d accesses, %d misses; RocksDB: %d accesses, %d misses", form,
				len(got.Gets), len(got.Accesses), got.Misses, accesses, misses)
		}

		found := 0
		for _, is := range got.Found {
			if is {
				found++
			}
		}

		if slices.Contains(form, "--threads=1") &&
			!strings.Contains(said, "("+strconv.Itoa(found)+" of 1500 found)") || found == 0 {
			t.Errorf("%v: %d Gets find a key\n%s", form, found, said)
		}

		setup := cachesim.Setup{Policy: cachesim.PooledLRUPolicy, Cores: 1}
		setup.HashSeed, setup.Before83 = CacheOf(got.Version)
		points, err := cachesim.Curve(t.Context(), got.Trace, setup, []int64{cacheBytes})
		if err != nil {
			t.Fatal(err)
		}

		simulated := uint64(0)
		for _, n := range points[0].Reads {
			simulated += uint64(n)
		}

		if slices.Contains(form, "--threads=1") && simulated != misses || simulated == 0 {
			t.Errorf("%v: %d misses are simulated, RocksDB has %d of %d", form, simulated, misses,
				accesses)
		}

		t.Logf("RocksDB %s, %v: %d Gets, %d accesses, %d misses, simulated %d", got.Version, form,
			len(got.Gets), accesses, misses, simulated)
		for _, cut := range []int{len(trace) - 20, len(trace) - 1, 7} {
			if _, err := readBlocks(trace[:cut]); engine.CodeOf(err) != engine.CodeDamaged ||
				!strings.Contains(err.Error(), "record ") {
				t.Errorf("%d of %d bytes: %v", cut, len(trace), err)
			}
		}
	}

	queries, _ := traced(t, dir, "readrandom", "--use_existing_db")
	if _, err := readBlocks(queries); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("a trace of queries: %v", err)
	}
}
