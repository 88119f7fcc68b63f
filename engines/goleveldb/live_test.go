package goleveldb

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/statelab/statelab/internal/base/livedir/churn"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestBesideItsOwner resolves Gets of a database, and begins to follow it, while its owner writes
// all keys anew and replaces tables and journals: every key is there at each moment, and each that
// was written before it was opened.
func TestBesideItsOwner(t *testing.T) {
	const keys, times, levelBlock = 400, 100, 4 << 10
	key := func(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }
	var written atomic.Int64

	for name, read := range map[string]func(dir string) error{
		"OpenLevel": func(dir string) error {
			latest := int(written.Load())
			r, err := blockbased.OpenLevel(dir, false, levelBlock)
			if err != nil {
				return err
			}

			walk := r.Walk()
			for i := 0; i < keys && err == nil; i += 7 {
				_, found, failed := walk.Get(key(i), false, nil)
				if err = failed; err == nil && !found {
					err = fmt.Errorf("key %d is not found", i)
				}
			}

			if err == nil {
				_, found, failed := walk.Get(key(latest), false, nil)
				if err = failed; err == nil && !found {
					err = fmt.Errorf("key %d, written before it was opened, is not found",
						latest)
				}
			}

			return errors.Join(err, r.Close())
		},
		"Follow": func(dir string) error {
			f, err := blockbased.Follow(dir, levelBlock, func() ([]string, error) {
				return filepath.Glob(filepath.Join(dir, "*"))
			})
			if err != nil {
				return err
			}

			f.Poll(1)
			f.Poll(2)
			err = f.Failed()
			if err == nil && len(f.Live) == 0 {
				err = errors.New("there are no tables")
			}

			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			owner, err := leveldb.OpenFile(dir, &opt.Options{
				WriteBuffer: 32 << 10, NoSync: true, DisableSeeksCompaction: true,
				CompactionTableSize: 16 << 10, CompactionTotalSize: 64 << 10,
			})
			must(t, err)

			write := func(number int) error {
				var batch leveldb.Batch
				for i := range keys {
					batch.Put(key(i), fmt.Appendf(nil, "%0100d", number))
				}

				batch.Put(key(keys+number), nil)
				if err := owner.Write(&batch, nil); err != nil {
					return err
				}

				written.Store(int64(keys + number))
				if number%50 != 0 {
					return nil
				}

				return owner.CompactRange(util.Range{})
			}

			must(t, write(0))
			churn.RunBeside(t, write, times, func() error { return read(dir) })
			must(t, owner.Close())
		})
	}
}
