package blockbased

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// made is a table without checksums, so that what is changed in it is read.
type made struct{ file []byte }

// block is a block of these keys and values in turn.
func block(rows ...string) (content []byte) {
	var points []byte
	for i := 0; i < len(rows); i += 2 {
		points = binary.LittleEndian.AppendUint32(points, uint32(len(content)))
		content = append(content, 0, byte(len(rows[i])), byte(len(rows[i+1])))
		content = append(append(content, rows[i]...), rows[i+1]...)
	}
	return binary.LittleEndian.AppendUint32(append(content, points...), uint32(len(rows)/2))
}

// add adds a block and returns where it is.
func (m *made) add(content []byte) string {
	at := binary.AppendUvarint(nil, uint64(len(m.file)))
	m.file = append(append(m.file, content...), 0, 0, 0, 0, 0)
	return string(binary.AppendUvarint(at, uint64(len(content))))
}

// inner is a key as tables have it.
func inner(key string, seqNum uint64, kind byte) string {
	return string(binary.LittleEndian.AppendUint64([]byte(key), seqNum<<8|uint64(kind)))
}

// madeTable has two data blocks, a filter of either generation, a range deletion, and an index in
// partitions or not.
func madeTable(index indexKind, filterTail string) []byte {
	m := new(made)
	ends := []string{inner("b", 3, kindValue), inner("d", 2, kindMerge)}
	data := []string{m.add(block(inner("a", 1, kindValue), "x", ends[0], "y")),
		m.add(block(inner("c", 4, kindDelete), "", ends[1], "z"))}
	filter := m.add(append(make([]byte, 128), filterTail...))
	root := block(ends[0], data[0], ends[1], data[1])
	if index == twoLevelIndex {
		root = block(ends[0], m.add(block(ends[0], data[0])), ends[1],
			m.add(block(ends[1], data[1])))
	}

	at := m.add(root)
	properties := m.add(block("rocksdb.block.based.table.index.type",
		string([]byte{byte(index), 0, 0, 0}), "rocksdb.comparator", byteComparators[0],
		"rocksdb.prefix.extractor.name", none))
	metaindex := m.add(block("fullfilter."+filterPolicy, filter, "rocksdb.properties", properties,
		"rocksdb.range_del", m.add(block(inner("a", 9, kindRangeDelete), "bb"))))
	footer := make([]byte, blockFooterBytes)
	footer[0] = noChecksum
	copy(footer[1:], metaindex+at)
	binary.LittleEndian.PutUint32(footer[41:], 5)
	binary.LittleEndian.PutUint64(footer[45:], blockMagic)
	return append(m.file, footer...)
}

// resolvedTable asks everything of a table of this content that is asked of tables.
func resolvedTable(t *testing.T, content, key []byte) (found bool, err error) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "000001.sst"), content, 0o600); err != nil {
		t.Fatal(err)
	}

	r := &Resolver{
		reading:   Reading{Filters: true, WholeKeys: true, MetadataInCache: true},
		unflushed: new(lookuppath.Unflushed),
	}

	open := func(facts Facts) (*table, error) { return openTable(dir, facts, &r.reading) }
	all := []Facts{{
		File:   1,
		Level:  1,
		Bytes:  int64(len(content)),
		Bounds: lsmtail.Bounds{Largest: []byte("\xff")},
	}}

	if r.All, err = lsmtail.EachTable(all, open); err != nil {
		return false, err
	}

	defer r.Close()
	if err := r.arrange(newFamily(0, defaultFamily)); err != nil {
		return false, err
	}

	mix := NewMix(r)
	keys, walk := mix.Keys([]float64{1}, 0.5, 3, 1, &err), r.Walk()
	for {
		drawn, _, more := keys()
		if !more {
			break
		}

		if _, _, err := walk.Get(drawn[1:], true, nil); err != nil {
			return false, err
		}
	}

	numbers, found, err := walk.Get(key, false, nil)
	if err != nil {
		return false, err
	}

	for _, number := range append(numbers, mix.Opening()...) {
		if _, err := r.Block(number); err != nil {
			return false, err
		}
	}

	return found, walk.Learn(numbers)
}

// filterTails end filters: legacy of one probe, Bloom of six, Ribbon of two blocks, and one that
// says yes.
func filterTails() []string {
	return []string{"\x01\x02\x00\x00\x00", "\xff\x00\x06\x00\x00", "\xfe\x01\x02\x00\x00",
		"\x00\x00\x00\x00\x00"}
}

// TestMadeTable: the tables that damage is made of are read.
func TestMadeTable(t *testing.T) {
	for _, index := range []indexKind{binaryIndex, twoLevelIndex} {
		content := madeTable(index, filterTails()[3])
		for key, want := range map[string]bool{
			"a": false,
			"b": false,
			"c": false,
			"d": true,
			"e": false,
		} {
			if found, err := resolvedTable(t, content, []byte(key)); found != want || err != nil {
				t.Errorf("index %d, %s: found %v, %v", index, key, found, err)
			}
		}
	}
}

// FuzzTable: no table, however damaged, does more than fail.
func FuzzTable(f *testing.F) {
	for _, index := range []indexKind{binaryIndex, hashIndex, twoLevelIndex, firstKeyIndex} {
		for _, tail := range filterTails() {
			f.Add(madeTable(index, tail), []byte("d"))
		}
	}
	f.Fuzz(func(t *testing.T, content, key []byte) {
		resolvedTable(t, content, key) // that it ends is all
	})
}

// pieceOf is a record of a log in one piece.
func pieceOf(kind byte, head, record []byte) []byte {
	body := append(append([]byte{kind}, head...), record...)
	piece := binary.LittleEndian.AppendUint32(nil, maskedCRC(body))
	return append(binary.LittleEndian.AppendUint16(piece, uint16(len(record))), body...)
}

func batchOf(key string) []byte {
	batch := append(make([]byte, 12), kindValue, byte(len(key)))
	return append(append(batch, key...), 1, 'v')
}

// TestLogOverAnOlderOne: behind the last record of a log that is written over an older one,
// anything may follow.
func TestLogOverAnOlderOne(t *testing.T) {
	number := []byte{7, 0, 0, 0}
	log := append(pieceOf(wholePiece+recyclableShift, number, batchOf("new")),
		strings.Repeat("the middle of an old record ", 2000)...)
	for name, want := range map[string]lsmtail.Entry{
		"000007.log": lsmtail.Set,
		"000008.log": lsmtail.None,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), log, 0o600); err != nil {
			t.Fatal(err)
		}

		numbers, err := listLogs(dir)
		must(t, err)
		u, err := readLogs(dir, numbers, newFamily(0, ""))
		if err != nil {
			t.Fatal(err)
		}

		if entry, _ := u.Find([]byte("new")); entry != want {
			t.Errorf("%s: %v, want %v", name, entry, want)
		}
	}
}

// FuzzRecords: no edit, batch or log, however damaged, does more than fail.
func FuzzRecords(f *testing.F) {
	edit := []byte{1, 1, 'x', 7, 1, 9, 20, 9, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 9, 'b', 0, 0, 0, 0, 0,
		0, 0, 0}
	f.Add(edit, []byte("a"))
	f.Add(batchOf("a"), []byte("a"))
	f.Add(pieceOf(wholePiece, nil, batchOf("a")), []byte("a"))
	f.Add(pieceOf(wholePiece+recyclableShift, make([]byte, 4), edit), []byte("a"))
	f.Fuzz(func(t *testing.T, content, key []byte) {
		m := &manifest{families: []*Family{newFamily(0, "")}}
		if _, err := m.edits(content); err == nil {
			for _, table := range m.families[0].tables {
				if table.Level < 0 || table.Level > 63 || table.Bytes < 0 {
					t.Errorf("%+v", table)
				}
			}
		}

		u := new(lookuppath.Unflushed)
		err := replay(content, 0, u)
		if e := eachRecord(content, 0,
			func(record []byte) error { return replay(record, 0, u) }); err == nil && e == nil {
			u.Finish()
			u.Find(key)
		}
	})
}

// TestLogOfACopy: a copy names the folder of the original's log, which is not its own.
func TestLogOfACopy(t *testing.T) {
	for _, elsewhere := range []string{"/nowhere/db", t.TempDir()} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"OPTIONS-000005": fmt.Sprintf("[DBOptions]\n  wal_dir=%s\n[CFOptions \"default\"]\n  "+
				"write_buffer_size=1\n", elsewhere),
			"000004.log": "",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		if _, logs, _, err := readOptions(dir, defaultFamily, ""); err != nil || logs != dir {
			t.Errorf("the log is in %s, %v; want %s", logs, err, dir)
		}
	}
}
