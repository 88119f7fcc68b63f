package lsmtail

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/statelab/statelab/engine"
)

// Facts are what a manifest says of a table.
type Facts struct {
	File   uint64 // its number: the larger the newer
	Level  int
	Bytes  int64
	Family uint32 // of columns; engines without families have one
	Bounds
	SmallestSeqNum, LargestSeqNum uint64

	// Of engines with families:
	Epoch  uint64 // 0: none
	Blobs  bool   // some values are in blob files
	Marked bool   // for compaction

	levelAt   int  // where in a record of the manifest the level is
	oneOfMany bool // tables, more than this process may have open
}

// Bounds are the first and the last key of a table, as users know them.
type Bounds struct {
	Smallest, Largest []byte
	Exclusive         bool // Largest is the end of a range deletion, and no key of the table
}

// Holds reports whether key is within the bounds.
func (b *Bounds) Holds(key []byte) bool {
	return bytes.Compare(b.Smallest, key) <= 0 && bytes.Compare(key, b.Largest) <= 0
}

// Identify identifies a database by its tables: their numbers, levels and sizes.
func Identify(tables []Facts) string {
	h := sha256.New()
	for _, t := range tables {
		fmt.Fprintf(h, "%d %d %d\n", t.Level, t.File, t.Bytes) // a hash never fails
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// Edit is a change of the tables, as a record of a manifest has it.
type Edit struct {
	Added   []Facts
	Removed []Place
	MinLog  uint64 // older logs are in tables by now; 0: as before

	Family     uint32 // that it is about
	Name       string // of a new family
	Dropped    bool   // the family, with all its tables
	Comparator string
	Blobs      []BlobFile
	Following  uint64 // so many edits count together with this one

	Unresolved error // a table that cannot be opened here
}

// Place is a table on a level: the same table can be moved to another.
type Place struct {
	Level  int
	File   uint64
	Family uint32
}

// BlobFile is a file of values outside the tables: how many it was written with, and their records'
// bytes.
type BlobFile struct{ Number, Count, Bytes uint64 }

// Fields of an edit, and parts that a new table can have behind its bounds.
const (
	comparatorField    = 1
	minLogField        = 2
	nextFileField      = 3
	lastSequenceField  = 4
	compactCursorField = 5
	removedField       = 6
	addedField         = 7
	prevLogField       = 9
	added2Field        = 100
	added3Field        = 102
	added4Field        = 103
	endPart            = 1

	// Of engines with families. What is above ignorable may be passed over, and has a length.
	minLogToKeepField = 10
	familyField       = 200
	familyAddField    = 201
	familyDropField   = 202
	maxFamilyField    = 203
	atomicGroupField  = 300
	blobFileField     = 400
	blobGarbageField  = 401
	ignorable         = 1 << 13
	oldLogField       = ignorable + 4 // has no length, as the next
	oldLogGoneField   = ignorable + 5

	markedPart     = 2
	blobPart       = 4
	epochPart      = 13
	persistsTSPart = 16
	pathPart       = 65
	unsafeToIgnore = 1 << 6

	// Of engines without.
	added5Field      = 104 // with range keys
	newBackingField  = 105
	oldBackingField  = 106
	newBlobFileField = 107
	oldBlobFileField = 108

	virtualPart  = 66
	prefixPart   = 67
	suffixPart   = 68
	blobsPart    = 69
	hasPoints    = 1 << 0 // marks in front of the bounds of a table with range keys
	smallestIsPt = 1 << 1
	largestIsPt  = 1 << 2
)

// Fields reads numbers, and texts behind their length. After an error all is zero.
type Fields struct {
	Rest []byte
	Err  error
}

// Fail is an error, unless there was one before.
func (f *Fields) Fail(format string, args ...any) {
	if f.Err == nil {
		f.Err = fmt.Errorf(format, args...)
	}
	f.Rest = nil
}

// Number reads a number.
func (f *Fields) Number() uint64 {
	n, width := binary.Uvarint(f.Rest)
	if width <= 0 {
		f.Fail("damaged number")
		return 0
	}
	f.Rest = f.Rest[width:]
	return n
}

func (f *Fields) numbers(n int) {
	for range n {
		f.Number()
	}
}

// Fixed reads a number of so many bytes.
func (f *Fields) Fixed(bytes int) uint64 {
	var word [8]byte
	copy(word[:], f.take(uint64(bytes)))
	return binary.LittleEndian.Uint64(word[:])
}

// Text reads a text, which is valid as long as what is read.
func (f *Fields) Text() []byte { return f.take(f.Number()) }

func (f *Fields) take(n uint64) []byte {
	if n > uint64(len(f.Rest)) {
		f.Fail("it is too short")
		return nil
	}
	taken := f.Rest[:n]
	f.Rest = f.Rest[n:]
	return taken
}

// key is the user's part of a bound; exclusive: it is the end of a range, and no key.
func (f *Fields) key() (user []byte, exclusive bool) {
	const trailer, highest = 8, 1<<56 - 1
	text := f.Text()
	if len(text) < trailer {
		f.Fail("damaged key")
		return nil, false
	}
	n := len(text) - trailer
	return bytes.Clone(text[:n]), binary.LittleEndian.Uint64(text[n:])>>8 == highest
}

// ReadEdit reads a record of a manifest, of an engine with families of columns or without: beyond
// what all have, the same numbers mean different things.
func ReadEdit(record []byte, families bool) (e Edit, err error) {
	f := &Fields{Rest: record}
	for len(f.Rest) > 0 {
		switch field := f.Number(); field {
		case comparatorField:
			e.Comparator = string(f.Text())
		case minLogField:
			e.MinLog = f.Number()
		case nextFileField, lastSequenceField, prevLogField:
			f.Number()
		case compactCursorField:
			f.Number()
			f.Text()
		case removedField:
			e.Removed = append(e.Removed, Place{Level: int(f.Number()), File: f.Number()})
		case addedField, added2Field, added3Field, added4Field:
			e.add(f, field, len(record), families)
		default:
			if families {
				e.readFamily(f, field)
			} else {
				e.readOther(f, field, len(record))
			}
		}
	}

	for i := range e.Added {
		e.Added[i].Family = e.Family
	}

	for i := range e.Removed {
		e.Removed[i].Family = e.Family
	}

	return e, f.Err
}

func (e *Edit) readFamily(f *Fields, field uint64) {
	switch field {
	case minLogToKeepField, maxFamilyField:
		f.Number()
	case familyField:
		e.Family = uint32(f.Number())
	case familyAddField:
		e.Name = string(f.Text())
	case familyDropField:
		e.Dropped = true
	case atomicGroupField:
		e.Following = f.Number()
	case blobFileField:
		e.Blobs = append(e.Blobs, BlobFile{f.Number(), f.Number(), f.Number()})
		f.Text() // how its checksum is made
		f.Text()
		f.skipBlobParts()
	case blobGarbageField:
		f.numbers(3)
		f.skipBlobParts()
	case oldLogField, oldLogGoneField:
		f.Fail("%w",
			engine.Fail(engine.CodeUnsupported, "an edit lists logs as RocksDB 6.12 to 6.15 did, "+
				"which is not supported"))
	default:
		if field < ignorable {
			f.unknown(field)
		}
		f.Text()
	}
}

func (f *Fields) skipBlobParts() {
	for f.Err == nil && f.Number() > 0 {
		f.Text()
	}
}

func (e *Edit) readOther(f *Fields, field uint64, bytes int) {
	switch field {
	case added5Field:
		e.add(f, field, bytes, false)
	case oldBackingField:
		f.Number()
	case newBackingField, oldBlobFileField:
		f.numbers(2)
	case newBlobFileField:
		f.numbers(5)
	default:
		f.unknown(field)
	}
}

func (f *Fields) unknown(field uint64) {
	f.Fail("an edit has the unknown field %d: a newer program wrote it", field)
}

// add reads a table from a record of so many bytes.
func (e *Edit) add(f *Fields, field uint64, bytes int, families bool) {
	t := Facts{levelAt: bytes - len(f.Rest)}
	t.Level, t.File = int(min(f.Number(), math.MaxInt32)), f.Number()
	path, virtual := uint64(0), false
	if field == added3Field {
		path = f.Number()
	}

	t.Bytes = int64(f.Number())
	if field == added5Field {
		f.mixedBounds(&t.Bounds)
	} else {
		t.Smallest, _ = f.key()
		t.Largest, t.Exclusive = f.key()
	}

	if field != addedField {
		t.SmallestSeqNum, t.LargestSeqNum = f.Number(), f.Number()
	}

	for (field == added4Field || field == added5Field) && f.Err == nil {
		part := f.Number()
		if part == endPart {
			break
		}

		if families {
			path = max(path, t.readPart(f, part))
		} else {
			virtual = f.skipPart(part) || virtual
		}
	}

	maxLevels := 7
	if families {
		maxLevels = 64
		if path > 0 {
			f.Fail("some tables are in other folders (db_paths), which is not supported")
		}
	}

	if t.Level >= maxLevels || t.Bytes < 0 {
		f.Fail("a table has an impossible level or size")
	}

	if e.Added = append(e.Added, t); virtual {
		e.Unresolved = engine.Fail(engine.CodeUnsupported,
			"table %06d is a part of another one, which is not resolved", t.File)
	}
}

// readPart reads a part of a table of an engine with families; path is not 0 if it lies in another
// folder.
func (t *Facts) readPart(f *Fields, part uint64) (path uint64) {
	value := f.Text()
	switch part {
	case markedPart:
		t.Marked = string(value) == "\x01"
	case blobPart:
		t.Blobs = (&Fields{Rest: value}).Number() > 0
	case epochPart:
		t.Epoch = (&Fields{Rest: value}).Number()
	case persistsTSPart:
		if string(value) != "\x01" {
			f.Fail("its keys have timestamps of the user, which are not supported")
		}
	case pathPart:
		if len(value) == 1 {
			path = uint64(value[0])
		}
	default:
		if part&unsafeToIgnore != 0 {
			f.Fail("a table has an unknown part: a newer program wrote it")
		}
	}

	return path
}

// skipPart passes over a part of a table of an engine without families, which can be a part of
// another table itself.
func (f *Fields) skipPart(part uint64) (virtual bool) {
	switch {
	case part == virtualPart:
		f.Number()
	case part == prefixPart, part == suffixPart, part < unsafeToIgnore:
		f.Text()
	case part == blobsPart:
		f.Number()
		for n := f.Number(); n > 0 && f.Err == nil; n-- {
			f.numbers(2)
		}
	default:
		f.Fail("the manifest has a table with the unknown part %d: a newer program wrote it", part)
	}

	return part == virtualPart
}

// mixedBounds are those of a table with range keys: each can be that of a key or of a range key.
func (f *Fields) mixedBounds(b *Bounds) {
	marks := f.Fixed(1)
	var points Bounds
	if marks&hasPoints != 0 {
		points.Smallest, _ = f.key()
		points.Largest, points.Exclusive = f.key()
	}

	b.Smallest, _ = f.key()
	b.Largest, b.Exclusive = f.key()
	if marks&smallestIsPt != 0 {
		b.Smallest = points.Smallest
	}

	if marks&largestIsPt != 0 {
		b.Largest, b.Exclusive = points.Largest, points.Exclusive
	}
}

// Relevel changes, in the records of a manifest of an engine without families, on which levels
// tables are that were ingested one level after the other, from the last one on: so many are on
// each.
func Relevel(records [][]byte, tables []int) error {
	levels := map[uint64]*byte{} // by a table's number, which ascend; a level is one byte
	for _, record := range records {
		e, err := ReadEdit(record, false)
		if err != nil {
			return err
		}

		for _, t := range e.Added {
			if levels[t.File] != nil {
				return fmt.Errorf("the manifest has table %06d twice", t.File)
			}
			levels[t.File] = &record[t.levelAt]
		}
	}

	files := slices.Sorted(maps.Keys(levels))
	for level := len(tables) - 1; level >= 0; level-- {
		for range tables[level] {
			if len(files) == 0 {
				return errors.New("the manifest has fewer tables than were ingested")
			}
			*levels[files[0]], files = byte(level), files[1:]
		}
	}

	if len(files) > 0 {
		return fmt.Errorf("the manifest has %d tables that were not ingested", len(files))
	}

	return nil
}
