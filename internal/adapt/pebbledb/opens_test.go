package pebbledb_test

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/resolve"
)

// TestTableCache1 and TestTableCache2: with a limit of open files, Gets open as many tables as the
// model of the table cache says, and read as many blocks.
func TestTableCache1(t *testing.T) {
	testring.Outer(t, "it loads a database of hundreds of tables")
	testTableCache(t, pebble1.Engine{}, cachesim.PebbleV1)
}

func TestTableCache2(t *testing.T) {
	testring.Outer(t, "it loads a database of hundreds of tables")
	testTableCache(t, pebble2.Engine{}, cachesim.PebbleV2)
}

const (
	tableCacheKeys = 60_000
	tableCacheGets = 10_000
)

func tableCacheKey(i uint64) []byte {
	key := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
	return key[:]
}

func testTableCache(t *testing.T, e engine.Engine, version cachesim.PebbleVersion) {
	dir := filepath.Join(t.TempDir(), "db")
	options := map[string]string{
		"MemTableSize":  "512KiB",
		"LBaseMaxBytes": "512KiB",
		"TargetFileSize": "32KiB,32KiB,32KiB,32KiB,32KiB,32KiB," +
			"32KiB",
	}

	db, err := e.Open(t.Context(), engine.Options{Dir: dir, Create: true, Overrides: options})
	must(t, err)
	w, err := db.Writer()
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 100)
	for i := range uint64(tableCacheKeys) {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}

		must(t, w.Put(tableCacheKey(i), value))
		if i%1000 == 999 {
			must(t, w.Commit())
		}
	}

	must(t, w.Close())
	must(t, db.Settle(t.Context(), nil))
	shape, err := db.Shape()
	must(t, err)
	must(t, db.Close())
	noDoubts(t, dir)
	tables := shape.Files
	for _, limit := range []int{tables / 10, tables / 2, tables * 9 / 10, tables + 11} {
		read, opened := getWithLimit(t, e, dir, limit)
		wantRead, wantOpened := traceWithLimit(t, dir, version, limit)
		t.Logf("%d tables, limit %d: %.4f reads, %d opens", tables, limit,
			float64(read)/tableCacheGets, opened)
		// Pebble itself opens tables when a database is opened, for their statistics, while others
		// are opened by us: in which order is chance. CLOCK-Pro adapts to it, and what it keeps
		// then differs for as long as the limit nearly suffices: by a part of the tables, each
		// opened once more or less. The reads that this makes are within their bound.
		chance := int64(tables) / 4
		if !near(read, wantRead, 0.01) ||
			!near(opened, wantOpened, 0.05) && !between(opened, wantOpened, chance) {
			t.Errorf("%d tables, limit %d: %d reads and %d opens, the model has %d and %d", tables,
				limit, read, opened, wantRead, wantOpened)
		}
	}
}

// between reports whether two counts differ by at most chance.
func between(a, b, chance int64) bool { return max(a-b, b-a) <= chance }

// near reports whether two counts differ by at most this share, or by ten.
func near(a, b int64, share float64) bool {
	return math.Abs(float64(a-b)) <= max(10, share*float64(b))
}

// noDoubts: this version of the library writes no option that is in no class.
func noDoubts(t *testing.T, dir string) {
	t.Helper()
	name, sections, err := optionsfile.Read(dir)
	must(t, err)
	if optionsfile.LibraryOf(sections) != optionsfile.Pebble {
		t.Errorf("%s: not known as Pebble's", name)
	}

	for _, d := range optionsfile.Doubts(sections, nil) {
		t.Errorf("%s: [%s] %s=%s is in no class", name, d.Section.Kind, d.Name, d.Value)
	}
}

// tableCacheStream are the keys that are looked up, in order.
func tableCacheStream() func() []byte {
	rng := rand.New(rand.NewPCG(2, 2))
	return func() []byte { return tableCacheKey(rng.Uint64N(tableCacheKeys)) }
}

// getWithLimit makes as many Gets to warm up as then count.
func getWithLimit(t *testing.T, e engine.Engine, dir string, limit int) (reads, opens int64) {
	t.Helper()
	db, err := e.Open(t.Context(), engine.Options{
		Dir: dir, Foreign: true, Handles: limit, CacheBytes: 1, TraceAccesses: true,
	})
	must(t, err)
	if _, err := db.Shape(); err != nil { // opens each table once, as a run does
		t.Fatal(err)
	}

	r, err := db.Reader()
	must(t, err)
	next, value := tableCacheStream(), []byte(nil)
	var before engine.Counters
	for i := range 2 * tableCacheGets {
		if i == tableCacheGets {
			before = db.Counters()
		}

		var found bool
		if value, found, err = r.Get(next(), value); err != nil || !found {
			t.Fatal(found, err)
		}
	}

	c := db.Counters().Sub(before)
	must(t, r.Close())
	must(t, db.Close())
	return c.Reads.Total().Count, *c.TableOpens
}

// traceWithLimit is what the resolver says: every access is a read, since no block is cached.
func traceWithLimit(
	t *testing.T, dir string, version cachesim.PebbleVersion, limit int,
) (reads, opens int64) {
	t.Helper()
	r, err := resolve.Open(dir, version)
	must(t, err)
	_, err = r.LimitOpenTables(limit, runtime.GOMAXPROCS(0))
	must(t, err)
	pipe, in := io.Pipe()
	go func() {
		out, err := trace.NewWriter(in, trace.Header{WarmupGets: tableCacheGets + 1, Opening: true})
		if err == nil {
			next, left := tableCacheStream(), 2*tableCacheGets
			keys := func() (key []byte, known, more bool) {
				left--
				return next(), true, left >= 0
			}

			var offered uint64
			offered, err = lookuppath.Record(t.Context(), r, r.Opening(), keys, 2*tableCacheGets,
				trace.Sample{}, out)
			if err == nil {
				_, err = out.Close(offered)
			}
		}
		in.CloseWithError(err)
	}()

	accesses, _, err := trace.Load(pipe)
	must(t, err)
	for _, number := range accesses.Accesses[accesses.Gets[len(accesses.Gets)-tableCacheGets]:] {
		b := accesses.Blocks[number]
		reads++
		if b.Type == engine.Meta && b.Marks&cachesim.Uncached != 0 && isFooter(r, b) {
			opens++
		}
	}

	must(t, r.Close())
	return reads, opens
}

// isFooter tells the first read of opening a table.
func isFooter(r *resolve.Resolver, b cachesim.Block) bool {
	for _, table := range r.All {
		if table.Base().File == b.File {
			return table.Base().Reads[0].Offset == b.Offset
		}
	}
	return false
}
