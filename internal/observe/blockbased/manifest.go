package blockbased

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Facts are what the manifest says of a table.
type Facts = lsmtail.Facts

// Family is a column family: a tree of tables of its own. LevelDB's databases have one.
type Family struct {
	Name   string
	Tables []Facts // by level; those of level 0 from the newest to the oldest

	Number     uint32
	comparator string
	firstLog   uint64 // older logs hold nothing of it
	blobs      map[uint64]lsmtail.BlobFile
	dropped    bool
	tables     map[uint64]Facts
	// byLevel are the tables of each level in the order in which RocksDB opens them with the
	// database.
	byLevel map[int]*hashOrder
}

// manifest is what a database consists of.
type manifest struct {
	families []*Family
	torn     string         // the manifest, where its last record is not whole; "": it is
	group    []lsmtail.Edit // that count together, as far as they have come
}

// Comparators whose order is that of bytes.
var byteComparators = []string{"leveldb.BytewiseComparator", ""}

// readManifest reads the manifest that CURRENT names.
func readManifest(dir string) (*manifest, error) {
	name, err := manifestName(dir)
	if err != nil {
		return nil, err
	}

	log, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}

	m := newManifest()
	err = eachRecord(log, 0, func(record []byte) error {
		_, err := m.edits(record)
		return err
	})
	if err == errCut { // RocksDB, too, opens it as it stood before, and says nothing
		m.torn, err = name, nil
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	m.families = slices.DeleteFunc(m.families, func(f *Family) bool { return f.dropped })
	for _, f := range m.families {
		f.Tables = slices.SortedFunc(maps.Values(f.tables), inLevelOrder)
	}

	return m, nil
}

// manifestName is the one that CURRENT names.
func manifestName(dir string) (string, error) {
	current, err := os.ReadFile(filepath.Join(dir, "CURRENT"))
	if err != nil {
		return "", err
	}

	name := strings.TrimSpace(string(current))
	if !strings.HasPrefix(name, "MANIFEST-") || !filepath.IsLocal(name) {
		return "", engine.Fail(engine.CodeUnsupported, "CURRENT names no manifest: the files are "+
			"encrypted, which is not supported, or damaged")
	}

	return name, nil
}

func newManifest() *manifest {
	return &manifest{families: []*Family{newFamily(0, defaultFamily)}}
}

// edits applies those that count from the next record on, which may have to wait for others that
// count together with it.
func (m *manifest) edits(record []byte) (counting []lsmtail.Edit, err error) {
	e, err := lsmtail.ReadEdit(record, true)
	if err != nil {
		return nil, err
	}

	if m.group = append(m.group, e); e.Following > 0 {
		return nil, nil
	}

	counting, m.group = m.group, nil
	for _, e := range counting {
		m.apply(&e)
	}

	return counting, nil
}

func (m *manifest) apply(e *lsmtail.Edit) {
	at := slices.IndexFunc(m.families, func(f *Family) bool {
		return f.Number == e.Family && !f.dropped
	})
	if at < 0 {
		m.families = append(m.families, newFamily(e.Family, ""))
		at = len(m.families) - 1
	}

	f := m.families[at]
	f.Name, f.comparator, f.firstLog = cmp.Or(e.Name, f.Name), cmp.Or(e.Comparator, f.comparator),
		cmp.Or(e.MinLog, f.firstLog)
	f.dropped = f.dropped || e.Dropped
	for _, t := range e.Removed {
		delete(f.tables, t.File)
		f.level(t.Level).erase(t.File)
	}

	for _, t := range e.Added {
		f.tables[t.File] = t
		f.level(t.Level).insert(t.File)
	}

	for _, b := range e.Blobs {
		f.blobs[b.Number] = b
	}
}

// family is the one of a name, whose order of keys is supported.
func (m *manifest) family(name string) (*Family, error) {
	var have []string
	for _, f := range m.families {
		if !f.dropped && unit.Is(f.Name, name) {
			return f, f.supported()
		}
		have = append(have, unit.Printable(f.Name))
	}

	return nil, fmt.Errorf("there is no column family %q; those of the database: %s", name,
		strings.Join(have, ", "))
}

// level is the order of a level's tables.
func (f *Family) level(number int) *hashOrder {
	if f.byLevel[number] == nil {
		f.byLevel[number] = &hashOrder{}
	}
	return f.byLevel[number]
}

// opened are the tables in the order in which RocksDB opens them with the database.
func (f *Family) opened() (files []uint64) {
	for _, level := range slices.Sorted(maps.Keys(f.byLevel)) {
		files = append(files, f.byLevel[level].keys()...)
	}
	return files
}

func newFamily(id uint32, name string) *Family {
	return &Family{
		Number:  id,
		Name:    name,
		tables:  map[uint64]Facts{},
		byLevel: map[int]*hashOrder{},
		blobs:   map[uint64]lsmtail.BlobFile{},
	}
}

// inLevelOrder is the order in which a Get asks the tables of level 0, newest first, and that of
// keys in the others.
func inLevelOrder(a, b Facts) int {
	if a.Level != b.Level || a.Level > 0 {
		return cmp.Or(cmp.Compare(a.Level, b.Level), bytes.Compare(a.Smallest, b.Smallest))
	}

	epochs := 0
	if a.Epoch > 0 && b.Epoch > 0 {
		epochs = cmp.Compare(b.Epoch, a.Epoch)
	}

	return cmp.Or(epochs, cmp.Compare(b.LargestSeqNum, a.LargestSeqNum),
		cmp.Compare(b.SmallestSeqNum, a.SmallestSeqNum), cmp.Compare(b.File, a.File))
}
