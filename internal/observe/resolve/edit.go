package resolve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/statelab/statelab/engine"
)

// edit is a change of the tables, as a record of the manifest has it.
type edit struct {
	added   []tableFacts
	removed []tableAt
	minLog  uint64 // older logs are in tables by now; 0: as before

	unresolved error // a table that cannot be opened here
}

// tableAt is a table on a level: the same table can be moved to another.
type tableAt struct {
	level int
	file  uint64
}

// Fields of an edit, and parts that a new table can have behind its bounds. Those below unsafePart have a length.
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
	added5Field        = 104 // with range keys
	newBackingField    = 105
	oldBackingField    = 106
	newBlobFileField   = 107
	oldBlobFileField   = 108

	endPart      = 1
	unsafePart   = 1 << 6
	virtualPart  = 66
	prefixPart   = 67
	suffixPart   = 68
	blobsPart    = 69
	hasPoints    = 1 << 0 // marks in front of the bounds of a table with range keys
	smallestIsPt = 1 << 1
	largestIsPt  = 1 << 2
)

var errEdit = errors.New("the manifest has a damaged edit")

// editReader reads an edit. After an error all is zero.
type editReader struct {
	rest []byte
	size int // of the whole edit
	err  error
}

func (r *editReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *editReader) number() uint64 {
	n, width := binary.Uvarint(r.rest)
	if width <= 0 {
		r.fail(errEdit)
		return 0
	}
	r.rest = r.rest[width:]
	return n
}

func (r *editReader) numbers(n int) {
	for range n {
		r.number()
	}
}

func (r *editReader) text() []byte {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail(errEdit)
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
}

// key is the user's part of a bound; exclusive: it is the end of a range, and no key.
func (r *editReader) key() (user []byte, exclusive bool) {
	const trailer, highest = 8, 1<<56 - 1
	text := r.text()
	if len(text) < trailer {
		r.fail(errEdit)
		return nil, false
	}
	n := len(text) - trailer
	return bytes.Clone(text[:n]), binary.LittleEndian.Uint64(text[n:])>>8 == highest
}

// readEdit reads a record of a manifest of either version.
func readEdit(record []byte) (e edit, err error) {
	r := &editReader{rest: record, size: len(record)}
	for len(r.rest) > 0 {
		switch field := r.number(); field {
		case comparatorField:
			r.text()
		case minLogField:
			e.minLog = r.number()
		case nextFileField, lastSequenceField, prevLogField, oldBackingField:
			r.number()
		case newBackingField, oldBlobFileField:
			r.numbers(2)
		case newBlobFileField:
			r.numbers(5)
		case compactCursorField:
			r.number()
			r.text()
		case removedField:
			e.removed = append(e.removed, tableAt{int(r.number()), r.number()})
		case addedField, added2Field, added3Field, added4Field, added5Field:
			t, virtual := r.table(field)
			e.added = append(e.added, t)
			if virtual {
				e.unresolved = engine.Fail(engine.CodeUnsupported, "table %06d is a part of another one, which is not resolved", t.file)
			}
		default:
			if r.err == nil {
				r.fail(fmt.Errorf("the manifest has an edit with the unknown field %d: a newer program wrote it", field))
			}
		}
	}
	return e, r.err
}

// Relevel changes, in the records of a manifest of either version, on which levels tables are that were ingested one level after the
// other, from the last one on: so many are on each.
func Relevel(records [][]byte, tables []int) error {
	levels := map[uint64]*byte{} // by a table's number, which ascend; a level is one byte
	for _, record := range records {
		e, err := readEdit(record)
		if err != nil {
			return err
		}
		for _, t := range e.added {
			if levels[t.file] != nil {
				return fmt.Errorf("the manifest has table %06d twice", t.file)
			}
			levels[t.file] = &record[t.levelAt]
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

func (r *editReader) table(field uint64) (t tableFacts, virtual bool) {
	t.levelAt = r.size - len(r.rest)
	t.level, t.file = int(r.number()), r.number()
	if field == added3Field {
		r.number() // an unused part of its path
	}
	t.bytes = int64(r.number())
	if field == added5Field {
		r.mixedBounds(&t.bounds)
	} else {
		t.smallest, _ = r.key()
		t.largest, t.largestExclusive = r.key()
	}
	if field != addedField {
		t.smallestSeqNum, t.largestSeqNum = r.number(), r.number()
	}
	for (field == added4Field || field == added5Field) && r.err == nil {
		part := r.number()
		switch {
		case part == endPart:
			return t, virtual
		case part == virtualPart:
			virtual = true
			r.number()
		case part == prefixPart, part == suffixPart, part < unsafePart:
			r.text()
		case part == blobsPart:
			r.number()
			for n := r.number(); n > 0 && r.err == nil; n-- {
				r.numbers(2)
			}
		default:
			r.fail(fmt.Errorf("the manifest has a table with the unknown part %d: a newer program wrote it", part))
		}
	}
	if t.level > lastLevel {
		r.fail(errEdit)
	}
	return t, virtual
}

// mixedBounds are those of a table with range keys: each can be that of a key or of a range key.
func (r *editReader) mixedBounds(b *bounds) {
	if len(r.rest) == 0 {
		r.fail(errEdit)
		return
	}
	marks := r.rest[0]
	r.rest = r.rest[1:]
	var points bounds
	if marks&hasPoints != 0 {
		points.smallest, _ = r.key()
		points.largest, points.largestExclusive = r.key()
	}
	b.smallest, _ = r.key()
	b.largest, b.largestExclusive = r.key()
	if marks&smallestIsPt != 0 {
		b.smallest = points.smallest
	}
	if marks&largestIsPt != 0 {
		b.largest, b.largestExclusive = points.largest, points.largestExclusive
	}
}
