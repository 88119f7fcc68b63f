package goleveldb

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// TestWrittenBlockSize: the block size of the program that wrote a database is found, unless too
// few entries fit into a block.
func TestWrittenBlockSize(t *testing.T) {
	const assumed = 4 << 10
	for _, c := range []struct{ block, value, want int }{
		{1 << 10, 100, 1 << 10},
		{4 << 10, 100, 4 << 10},
		{4 << 10, 900, 4 << 10},
		{32 << 10, 100, 32 << 10},
		{64 << 10, 1000, 64 << 10},
		{4 << 10, 4000, assumed},
		{16 << 10, 9000, assumed},
	} {
		t.Run(fmt.Sprintf("%d of values of %d", c.block, c.value), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			db, err := leveldb.OpenFile(dir, &opt.Options{BlockSize: c.block, NoSync: true})
			must(t, err)
			for i := range 2000 {
				must(t, db.Put(fmt.Appendf(nil, "key %06d", i), make([]byte, c.value), nil))
			}

			flush, err := db.OpenTransaction()
			must(t, err)
			flush.Discard()
			must(t, db.Close())

			if got := writtenBlockSize(dir, assumed); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}

	if got := writtenBlockSize(t.TempDir(), assumed); got != assumed {
		t.Errorf("without tables: %d", got)
	}
}
