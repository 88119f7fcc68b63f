package blockbased

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Following follows a database while its owner writes into it: which tables there are from when to
// when, by the changes of its manifest, and which keys are in memory, by its logs. Times are the
// caller's. For one goroutine.
type Following struct {
	lsmtail.Database
	levelBlock int // see Follow
	manifest   *manifest
	opened     []uint64
	made       []*Resolver
}

// Follow begins. levelBlock is the option of that name with which a database of LevelDB is opened,
// see OpenLevel; 0: it is RocksDB's. appeared returns the paths of files that came into its Folders
// since it was last called, or since Follow was.
func Follow(
	dir string, levelBlock int, appeared func() ([]string, error),
) (f *Following, err error) {
	f = &Following{levelBlock: levelBlock}
	format := lsmtail.Format{
		Manifest: func() (string, error) {
			name, err := manifestName(dir)
			return filepath.Join(dir, name), err
		},
		Begin: func() { f.manifest = newManifest() },
		Edits: func(record []byte) ([]lsmtail.Edit, error) { return f.manifest.edits(record) },
		Began: func(string, []lsmtail.Edit) error { return nil },
		Entries: func(_ uint64, batch []byte, _ time.Duration, visit visitor) error {
			return entries(batch, visit)
		},
	}

	logs, err := logFolder(dir, levelBlock)
	if err == nil {
		err = f.Begin(dir, format, []string{logs}, appeared)
	}

	if err != nil {
		return f, errors.Join(fmt.Errorf("follow %s: %w", dir, err), f.Close())
	}

	for _, family := range f.manifest.families {
		f.opened = append(f.opened, family.opened()...)
	}

	return f, nil
}

// OpenedTables are those that there were when Follow began, in the order in which RocksDB opens
// tables with a database: with a limit of open files, the first ones stay open.
func (f *Following) OpenedTables() []uint64 { return f.opened }

// Folders are where files of the database come and go.
func Folders(dir string, levelBlock int) []string {
	logs, err := logFolder(dir, levelBlock)
	return lsmtail.Folders(dir, []string{logs}, err)
}

func logFolder(dir string, levelBlock int) (logs string, err error) {
	if levelBlock > 0 {
		return dir, nil
	}
	_, logs, _, err = readOptions(dir, defaultFamily, "")
	return logs, err
}

// Changes are when tables came and went. Memtables are not in the cache.
func (f *Following) Changes(int64, bool) (changes []lsmtail.Change, held int64) {
	return f.Database.Changes(), 0
}

// Source resolves the Gets of some families, each at its moment (lsmtail.AppendTime); LevelDB's is
// the default one. The first byte of a key says which of them is asked. Nothing may be followed any
// more, and it can be called once. The Following stays open.
func (f *Following) Source(names []string) (*Mix, error) {
	if err := f.Failed(); err != nil {
		return nil, err
	}

	for _, name := range names {
		r, err := f.resolver(name)
		if err != nil {
			return nil, err
		}
		f.made = append(f.made, r)
	}

	return NewMix(f.made...), nil
}

// resolver resolves the Gets of a family.
func (f *Following) resolver(name string) (*Resolver, error) {
	name = cmp.Or(name, defaultFamily)
	family, err := f.manifest.family(name)
	if err != nil {
		return nil, err
	}

	r := &Resolver{memory: f.Memory(family.Number), reading: levelReading(true, f.levelBlock)}
	if f.levelBlock == 0 {
		own, _, _, err := readOptions(f.Dir, name, "")
		if err == nil {
			r.reading, err = own.Reading()
		}

		if err != nil {
			return nil, err
		}
	}

	r.memory.Sort()
	var all []Facts
	files := map[uint64]*os.File{} // they are the resolver's from now on
	for number, t := range f.Known {
		// else it came and went between two looks
		if file := f.Files[number]; t.Family == family.Number && file != nil {
			all, files[number] = append(all, t), file
			delete(f.Files, number)
		}
	}

	slices.SortFunc(all, inLevelOrder)
	tables, err := lsmtail.EachTable(all, func(facts Facts) (*table, error) {
		return readTable(files[facts.File], facts, &r.reading)
	})
	if r.Tables = lookuppath.Opened(tables,
		slices.SortedFunc(maps.Values(family.tables), inLevelOrder)); err == nil {
		err = r.number(family)
	}

	if err == nil {
		opened := map[uint64]*table{}
		for _, t := range r.All {
			opened[t.File] = t
		}

		r.states, err = lsmtail.States(&f.Database, family.Number, opened, func(
			number int, tables []*table,
		) ([]level, error) {
			if len(tables) == 0 {
				return nil, nil
			}
			l, err := levelOf(number, tables)
			return []level{l}, err
		})
	}

	if err != nil {
		return nil, errors.Join(err, r.Close())
	}

	return r, nil
}

// Close closes all tables and logs, also those of what was made of them.
func (f *Following) Close() error {
	errs := []error{f.Database.Close()}
	for _, r := range f.made {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
