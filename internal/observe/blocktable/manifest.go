package blocktable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// Facts are what the manifest says of a table.
type Facts struct {
	File              uint64
	Level             int
	Bytes             int64
	Smallest, Largest []byte // keys of the user
	Marked            bool   // for compaction

	largestBeyond bool // the largest key is the end of a range deletion, which is not in the table

	smallestSeqNum, largestSeqNum uint64
	epoch                         uint64 // 0: none
	blobs                         bool   // some values are in blob files
}

// Family is a column family: a tree of tables of its own. LevelDB's databases have one.
type Family struct {
	Name   string
	Tables []Facts // by level; those of level 0 from the newest to the oldest

	Number     uint32
	comparator string
	firstLog   uint64 // older logs hold nothing of it
	blobs      map[uint64]blobFile
	dropped    bool
	tables     map[uint64]Facts
}

// blobFile is a file of values outside the tables: how many it was written with, and their records' bytes.
type blobFile struct{ number, count, bytes uint64 }

// manifest is what a database consists of.
type manifest struct {
	families []*Family
	torn     string   // the manifest, where its last record is not whole; "": it is
	group    [][]byte // edits that count together, as far as they have come
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
	err = eachRecord(log, 0, m.edit)
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
		return "", engine.Fail(engine.CodeUnsupported, "CURRENT names no manifest: the files are encrypted, which is not supported, or damaged")
	}
	return name, nil
}

func newManifest() *manifest {
	return &manifest{families: []*Family{newFamily(0, defaultFamily)}}
}

// edit takes the next edit, which may have to wait for others that count together with it.
func (m *manifest) edit(record []byte) error {
	left, is, err := groupOf(record)
	if err != nil {
		return err
	}
	m.group = append(m.group, bytes.Clone(record))
	if is && left > 0 {
		return nil
	}
	for _, edit := range m.group {
		if err := m.apply(edit); err != nil {
			return err
		}
	}
	m.group = m.group[:0]
	return nil
}

// family is the one of a name, whose order of keys is supported.
func (m *manifest) family(name string) (*Family, error) {
	var have []string
	for _, f := range m.families {
		if !f.dropped && (f.Name == name || unit.Printable(f.Name) == name) {
			return f, f.supported()
		}
		have = append(have, unit.Printable(f.Name))
	}
	return nil, fmt.Errorf("there is no column family %q; those of the database: %s", name, strings.Join(have, ", "))
}

func newFamily(id uint32, name string) *Family {
	return &Family{Number: id, Name: name, tables: map[uint64]Facts{}, blobs: map[uint64]blobFile{}}
}

// inLevelOrder is the order in which a Get asks the tables of level 0, newest first, and that of
// keys in the others.
func inLevelOrder(a, b Facts) int {
	if a.Level != b.Level || a.Level > 0 {
		return cmp.Or(cmp.Compare(a.Level, b.Level), bytes.Compare(a.Smallest, b.Smallest))
	}
	if a.epoch > 0 && b.epoch > 0 {
		return cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.largestSeqNum, a.largestSeqNum), cmp.Compare(b.smallestSeqNum, a.smallestSeqNum),
			cmp.Compare(b.File, a.File))
	}
	return cmp.Or(cmp.Compare(b.largestSeqNum, a.largestSeqNum), cmp.Compare(b.smallestSeqNum, a.smallestSeqNum), cmp.Compare(b.File, a.File))
}

// Fields of an edit, by number. Those above ignorable may be passed over, and have a length.
const (
	comparatorField    = 1
	logNumberField     = 2
	nextFileField      = 3
	lastSequenceField  = 4
	compactCursorField = 5
	deletedFileField   = 6
	newFileField       = 7
	prevLogField       = 9
	minLogField        = 10
	newFile2Field      = 100
	newFile3Field      = 102
	newFile4Field      = 103
	familyField        = 200
	familyAddField     = 201
	familyDropField    = 202
	maxFamilyField     = 203
	atomicGroupField   = 300
	blobFileField      = 400
	blobGarbageField   = 401
	ignorable          = 1 << 13
	oldLogField        = ignorable + 4 // has no length, as the next
	oldLogGoneField    = ignorable + 5
)

// fields reads an edit.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) fail(why string) {
	if f.err == nil {
		f.err = errors.New(why)
	}
	f.rest = nil
}

func (f *fields) number() uint64 {
	n, width := binary.Uvarint(f.rest)
	if width <= 0 {
		f.fail("damaged number in an edit")
		return 0
	}
	f.rest = f.rest[width:]
	return n
}

func (f *fields) bytes() []byte {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.fail("damaged text in an edit")
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// key is the user's part of an internal key; beyond says that it is the end of a range deletion.
func (f *fields) key() (user []byte, beyond bool) {
	b := f.bytes()
	if len(b) < 8 {
		f.fail("damaged key in an edit")
		return nil, false
	}
	const highest = 1<<56 - 1
	n := len(b) - 8
	return bytes.Clone(b[:n]), le64(b[n:])>>8 == highest
}

// groupOf tells how many edits follow that count together with this one.
func groupOf(edit []byte) (left uint64, is bool, err error) {
	f := &fields{rest: edit}
	err = f.read(newFamily(0, ""), func(field uint64) bool {
		if field == atomicGroupField {
			left, is = f.number(), true
		}
		return is && field == atomicGroupField
	})
	return left, is, err
}

// apply applies an edit. Which family it is of stands behind the tables.
func (m *manifest) apply(edit []byte) error {
	f := &fields{rest: edit}
	id := uint32(0)
	err := f.read(newFamily(0, ""), func(field uint64) bool {
		if field == familyField {
			id = uint32(f.number())
		}
		return field == familyField
	})
	if err != nil {
		return err
	}
	at := slices.IndexFunc(m.families, func(f *Family) bool { return f.Number == id && !f.dropped })
	if at < 0 {
		m.families = append(m.families, newFamily(id, ""))
		at = len(m.families) - 1
	}
	f = &fields{rest: edit}
	return f.read(m.families[at], func(uint64) bool { return false })
}

// read reads the fields of an edit that first does not take, and applies them to its family.
func (f *fields) read(family *Family, first func(field uint64) bool) error {
	for len(f.rest) > 0 && f.err == nil {
		field := f.number()
		if first(field) {
			continue
		}
		switch field {
		case comparatorField:
			family.comparator = string(f.bytes())
		case logNumberField:
			family.firstLog = f.number()
		case lastSequenceField, nextFileField, prevLogField, minLogField, familyField, maxFamilyField, atomicGroupField:
			f.number()
		case compactCursorField:
			f.number()
			f.bytes()
		case deletedFileField:
			f.number()
			delete(family.tables, f.number())
		case newFileField, newFile2Field, newFile3Field, newFile4Field:
			if table := f.newFile(field); f.err == nil {
				family.tables[table.File] = table
			}
		case familyAddField:
			family.Name = string(f.bytes())
		case familyDropField:
			family.dropped = true
		case blobFileField, blobGarbageField:
			if file := f.blobFile(field); field == blobFileField {
				family.blobs[file.number] = file
			}
		case oldLogField, oldLogGoneField:
			return engine.Fail(engine.CodeUnsupported, "an edit lists logs as RocksDB 6.12 to 6.15 did, which is not supported")
		default:
			if field < ignorable {
				return fmt.Errorf("an edit has the unknown field %d: a newer program wrote it", field)
			}
			f.bytes()
		}
	}
	return f.err
}

// blobFile reads of a new blob file, or of what became garbage in one, its number, how many values, and their bytes.
func (f *fields) blobFile(field uint64) blobFile {
	file := blobFile{f.number(), f.number(), f.number()}
	if field == blobFileField {
		f.bytes() // how its checksum is made
		f.bytes()
	}
	for f.err == nil && f.number() > 0 {
		f.bytes()
	}
	return file
}

// Parts that a new file may have, by number.
const (
	endPart        = 1
	markedPart     = 2
	blobPart       = 4
	epochPart      = 13
	persistsTSPart = 16
	pathPart       = 65
	unsafeToIgnore = 1 << 6
)

func (f *fields) newFile(field uint64) (t Facts) {
	t.Level, t.File = int(min(f.number(), math.MaxInt32)), f.number()
	path := uint64(0)
	if field == newFile3Field {
		path = f.number()
	}
	t.Bytes = int64(f.number())
	t.Smallest, _ = f.key()
	t.Largest, t.largestBeyond = f.key()
	if field != newFileField {
		t.smallestSeqNum, t.largestSeqNum = f.number(), f.number()
	}
	for field == newFile4Field && f.err == nil {
		part := f.number()
		if part == endPart {
			break
		}
		value := f.bytes()
		switch part {
		case markedPart:
			t.Marked = string(value) == "\x01"
		case blobPart:
			t.blobs = (&fields{rest: value}).number() > 0
		case epochPart:
			t.epoch = (&fields{rest: value}).number()
		case persistsTSPart:
			if string(value) != "\x01" {
				f.fail("its keys have timestamps of the user, which are not supported")
			}
		case pathPart:
			if len(value) == 1 {
				path = uint64(value[0])
			}
		default:
			if part&unsafeToIgnore != 0 {
				f.fail("a table has an unknown part: a newer program wrote it")
			}
		}
	}
	if path > 0 {
		f.fail("some tables are in other folders (db_paths), which is not supported")
	}
	if t.Level > 63 || t.Bytes < 0 {
		f.fail("a table has an impossible level or size")
	}
	return t
}
