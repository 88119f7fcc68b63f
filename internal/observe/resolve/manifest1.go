package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	pebble1 "github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble1fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// list1 lists a database as Pebble v1 sees it.
func list1(dir string, kept dbformat.KeptByPebble) (found manifest, err error) {
	cache := pebble1.NewCache(0)
	defer cache.Unref()
	policy := bloom.FilterPolicy(10)
	options := &pebble1.Options{
		FS: pebble1fs.ReadOnly(vfs.Default, blockio.ReadOnly{
			IgnoreLock: true,
			Opened:     found.noteLog,
		}),
		Cache:            cache,
		ReadOnly:         true,
		ErrorIfNotExists: true,
		Filters:          map[string]pebble1.FilterPolicy{policy.Name(): policy},
		Logger:           silent{},
	}

	pebble1fs.ApplyStoredOptions(options, kept)
	before := manifestSize(dir)
	db, err := pebble1.Open(dir, options)
	if err != nil {
		return found, fmt.Errorf("open with Pebble v1: %w", duringAnEdit(dir, before,
			dbformat.RemoteObjects(dir, err)))
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	levels, err := db.SSTables()
	if err != nil {
		return found, fmt.Errorf("list tables: %w", err)
	}

	for number, tables := range levels {
		for _, t := range tables {
			if t.Virtual || t.BackingType != pebble1.BackingTypeLocal {
				found.unresolved = engine.Fail(engine.CodeUnsupported,
					"table %s is virtual or not local, which is not resolved",
					t.FileNum).WithRemedy(failure.Measure, dir)
			}

			found.tables = append(found.tables, lsmtail.Facts{
				File: uint64(t.FileNum), Level: number, Bytes: int64(t.Size),
				Bounds: lsmtail.Bounds{
					Smallest:  t.Smallest.UserKey,
					Largest:   t.Largest.UserKey,
					Exclusive: t.Largest.IsExclusiveSentinel(),
				},
				SmallestSeqNum: t.SmallestSeqNum, LargestSeqNum: t.LargestSeqNum,
			})
		}
	}

	return found, nil
}

// manifestSize tells how much the manifest in dir holds. Pebble adds an edit to it before it
// deletes the tables that the edit removes.
func manifestSize(dir string) string {
	name, _ := dbformat.PebbleManifest(dir) // of one that cannot be read, Pebble says why
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return name
	}
	return fmt.Sprint(name, info.Size())
}

// duringAnEdit marks the error of an opening during which the database's owner edited the manifest
// as one of a file that vanished: Pebble says in words alone that a table is not there.
func duringAnEdit(dir, before string, err error) error {
	if manifestSize(dir) == before {
		return err
	}
	return vanished{err}
}

type vanished struct{ error }

func (v vanished) Unwrap() error { return v.error }

func (v vanished) Is(target error) bool { return target == fs.ErrNotExist }

// silent drops the messages of an engine that is opened to look only. What
// stops it comes back as an error.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

// Fatalf is called where Pebble cannot go on and expects no return.
func (silent) Fatalf(format string, args ...any) {
	panic("resolve: " + fmt.Sprintf(format, args...))
}
