package resolve

import (
	"errors"
	"fmt"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// list2 lists a database as Pebble v2 sees it.
func list2(dir string, kept dbformat.KeptByPebble) (found manifest, err error) {
	cache := pebble2.NewCache(0)
	defer cache.Unref()
	policy := filterPolicy()
	options := &pebble2.Options{
		FS: pebble2fs.ReadOnly(vfs.Default, blockio.ReadOnly{
			IgnoreLock: true,
			Opened:     found.noteLog,
		}),
		Cache:            cache,
		ReadOnly:         true,
		ErrorIfNotExists: true,
		Filters:          map[string]pebble2.FilterPolicy{policy.Name(): policy},
		Logger:           silent{},
	}

	pebble2fs.ApplyStoredOptions(options, kept)
	before := manifestSize(dir)
	db, err := pebble2.Open(dir, options)
	if err != nil {
		return found, fmt.Errorf("open with Pebble v2: %w", duringAnEdit(dir, before,
			dbformat.RemoteObjects(dir, err)))
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	levels, err := db.SSTables()
	if err != nil {
		return found, fmt.Errorf("list tables: %w", err)
	}

	for number, tables := range levels {
		for _, t := range tables {
			if t.Virtual || t.BackingType != pebble2.BackingTypeLocal {
				found.unresolved = engine.Fail(engine.CodeUnsupported,
					"table %s is virtual or not local, which is not resolved",
					t.FileNum).WithRemedy(failure.Measure, dir)
			}

			found.tables = append(found.tables, lsmtail.Facts{
				File: uint64(t.BackingSSTNum), Level: number, Bytes: int64(t.Size),
				Bounds: lsmtail.Bounds{
					Smallest:  t.Smallest.UserKey,
					Largest:   t.Largest.UserKey,
					Exclusive: t.Largest.IsExclusiveSentinel(),
				},
				SmallestSeqNum: uint64(t.SmallestSeqNum), LargestSeqNum: uint64(t.LargestSeqNum),
			})
		}
	}

	return found, nil
}
