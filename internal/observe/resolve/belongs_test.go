package resolve

import (
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/model/cachesim"
)

// allBlocks are all blocks of a database, as a trace of it names them.
func allBlocks(t *testing.T, dir string) (blocks []cachesim.Block) {
	t.Helper()
	r, err := Open(dir, cachesim.PebbleV2)
	must(t, err)
	for number := range r.Blocks() {
		b, err := r.Block(number)
		must(t, err)
		blocks = append(blocks, b)
	}

	must(t, r.Close())
	return blocks
}

// TestForeignBlocks: blocks of a trace fit the database that was traced, also after it has grown
// and was compacted, and no other one.
func TestForeignBlocks(t *testing.T) {
	all := flavours()
	f := all[slices.IndexFunc(all, func(f flavour) bool {
		return f.version == cachesim.PebbleV2 && !f.zstd
	})]
	dir, other := t.TempDir(), t.TempDir()
	const keys = 6000
	s := openStore(t, f, dir, false)
	s.load(t, testKeys(2*keys), 0, keys)
	must(t, s.flush())
	traced := allBlocks(t, dir)
	fits := func(when string) {
		t.Helper()
		if why, err := ForeignBlocks(dir, cachesim.PebbleV2, traced); why != "" || err != nil {
			t.Errorf("%s: %s, %v", when, why, err)
		}
	}

	fits("as it was")
	s.load(t, testKeys(2*keys), keys, 2*keys)
	must(t, s.flush())
	fits("with more keys")
	must(t, s.compactAll())
	fits("compacted")
	later := allBlocks(t, dir)
	must(t, s.close())

	s = openStore(t, f, other, false)
	short := testKeys(keys)
	short.Bytes = 20
	s.load(t, short, 0, keys)
	must(t, s.flush())
	must(t, s.close())
	for _, c := range []struct {
		when   string
		blocks []cachesim.Block
		want   string
	}{
		{"tables of the same numbers", traced, "where no block of that table begins"},
		{"later tables", later, "and the newest file of the database has the number"},
	} {
		why, err := ForeignBlocks(other, cachesim.PebbleV2, c.blocks)
		if err != nil || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, %v", c.when, why, err)
		}
	}
}
