package blockio

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/statelab/statelab/engine"
)

// halves is the anatomy of a table whose first 1000 bytes are data.
func halves(string) (*TableLayout, error) {
	l, err := NewBlockMap([]Block{{engine.Data, 0, 1000}, {engine.Index, 1000, 500}}, 2000)
	return &TableLayout{Map: l, TableBytes: 2000}, err
}

func TestCounts(t *testing.T) {
	r := NewRecorder(halves, false)
	r.SetLive(
		[]LiveTable{{Number: 7, Level: 3}, {Number: 8, Level: 5}, {Number: 8, Level: 6}},
		func(FileNumber) string { return "" },
	)

	open := func(n FileNumber) *Handle {
		h, err := r.Open(n, "table", 0)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}

	seven, eight, nine := open(7), open(8), open(9)
	seven.Count(100, 0)
	seven.Count(100, 999)
	seven.Count(50, 1000)
	seven.Count(40, 1999)
	eight.Count(10, 0)
	nine.Count(20, 1400)
	r.CountBackground(5000, 0)

	var want engine.BlockReads
	want[3][engine.Data] = engine.Tally{Count: 2, Bytes: 200}
	want[3][engine.Index] = engine.Tally{Count: 1, Bytes: 50}
	want[3][engine.Meta] = engine.Tally{Count: 1, Bytes: 40}
	// virtual tables on two levels
	want[engine.LevelUnknown][engine.Data] = engine.Tally{Count: 1, Bytes: 10}
	want[engine.LevelUnknown][engine.Index] = engine.Tally{Count: 1, Bytes: 20}
	if got := r.Reads(); *got != want {
		t.Errorf("reads %v, want %v", got, want)
	}

	if got := r.Background(); got != (engine.Tally{Count: 1, Bytes: 5000}) {
		t.Errorf("background %v", got)
	}

	if r.Opens() != 3 {
		t.Errorf("%d opens, want 3", r.Opens())
	}

	// A table that moves counts under its new level, also through old handles.
	r.SetLive([]LiveTable{{Number: 7, Level: 4}}, func(FileNumber) string { return "" })
	seven.Count(1, 0)
	if got := r.Reads()[4][engine.Data].Count; got != 1 {
		t.Errorf("%d reads of level 4, want 1", got)
	}

	// A table opened before it is listed gets its level when it is.
	r.SetLive(
		[]LiveTable{{Number: 7, Level: 4}, {Number: 9, Level: 0}},
		func(FileNumber) string { return "" },
	)

	nine.Count(1, 0)
	if got := r.Reads()[0][engine.Data].Count; got != 1 {
		t.Errorf("%d reads of level 0, want 1", got)
	}

	for _, h := range []*Handle{seven, eight, nine} {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}

	r.SetLive([]LiveTable{{Number: 7, Level: 4}}, func(FileNumber) string { return "" })
	if r.Tables() != 1 {
		t.Errorf("%d tables, want the live one alone", r.Tables())
	}
}

func TestLearnAll(t *testing.T) {
	var mu sync.Mutex
	learnt := map[string]int{}
	r := NewRecorder(func(path string) (*TableLayout, error) {
		mu.Lock()
		learnt[path]++
		mu.Unlock()
		switch path {
		case "gone":
			return nil, fs.ErrNotExist
		case "broken":
			return nil, errors.New("checksum mismatch")
		}

		return halves(path)
	}, false)

	paths := map[FileNumber]string{1: "one", 2: "two", 3: "gone"}
	tables := []LiveTable{{Number: 1}, {Number: 2}, {Number: 3}}
	r.SetLive(tables, func(n FileNumber) string { return paths[n] })
	for range 2 {
		if err := r.LearnAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}

	if learnt["one"] != 1 || learnt["two"] != 1 || learnt["gone"] != 2 {
		t.Errorf("learnt %v, want one and two once and what is gone each time", learnt)
	}

	paths[4] = "broken"
	r.SetLive(append(tables, LiveTable{Number: 4}), func(n FileNumber) string { return paths[n] })
	if err := r.LearnAll(t.Context(), nil); err == nil {
		t.Error("a broken table was learnt")
	}
}

// TestUntyped: what is read of a table whose layout cannot be learnt is counted apart, and learning
// is tried once.
func TestUntyped(t *testing.T) {
	tries := 0
	c := NewCounter(func(path string) (*TableLayout, error) {
		tries++
		return nil, errors.New("unknown comparer")
	}, false)
	h, err := c.Recorder.Open(1, "table", 0)
	if err != nil {
		t.Fatal(err)
	}

	values, err := c.Recorder.OpenValues(2, "values", 0)
	if err != nil {
		t.Fatal(err)
	}

	h.Count(100, 0)
	h.Count(30, 200)
	values.Count(7, 0)
	s := c.Snapshot()
	if want := (engine.Tally{Count: 3, Bytes: 137}); s.Untyped[engine.LevelUnknown] != want ||
		s.Reads.Total() != (engine.Tally{}) || s.Total() != want {
		t.Errorf("%v untyped, %v typed, %v in all", s.Untyped[engine.LevelUnknown],
			s.Reads.Total(), s.Total())
	}

	// A run has them as meta.
	if got := c.Recorder.Reads()[engine.LevelUnknown][engine.Meta].Count; got != 3 {
		t.Errorf("%d reads of meta blocks in a run, want 3", got)
	}

	if tries != 2 {
		t.Errorf("%d tries to learn two files", tries)
	}

	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "unknown comparer") {
		t.Errorf("error %v", err)
	}
}

// TestRemovedTablesAreForgotten: otherwise a recorder of a database that nobody follows grows.
func TestRemovedTablesAreForgotten(t *testing.T) {
	r := NewRecorder(halves, false)
	h, err := r.Open(1, "db/000001.sst", 0)
	if err != nil {
		t.Fatal(err)
	}

	r.Removed("other/000001.sst") // is another table
	r.Removed("db/000001.sst")
	h.Count(1, 0)
	if r.Tables() != 1 {
		t.Error("an open table was forgotten")
	}

	if err := h.Close(); err != nil || r.Tables() != 0 {
		t.Errorf("%d tables are known after the last was removed and closed, %v", r.Tables(), err)
	}
}

// TestTablesOfTwoDatabases: those of one number are not taken for one another.
func TestTablesOfTwoDatabases(t *testing.T) {
	r := NewRecorder(func(path string) (*TableLayout, error) {
		if path == "a/000001.sst" {
			return halves(path)
		}

		blocks, err := NewBlockMap([]Block{{engine.Filter, 0, 1000}}, 2000)
		return &TableLayout{Map: blocks, TableBytes: 2000}, err
	}, false)

	for _, path := range []string{"a/000001.sst", "b/000001.sst"} {
		h, err := r.Open(1, path, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.Count(1, 0)
	}

	for _, kind := range []engine.BlockType{engine.Data, engine.Filter} {
		if got := r.Reads().Type(kind).Count; got != 1 {
			t.Errorf("%d reads of %v blocks, want 1", got, kind)
		}
	}
}

func TestReadDirect(t *testing.T) {
	dir := t.TempDir()
	content := make([]byte, 300_001)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range content {
		content[i] = byte(rng.Uint32())
	}

	path := filepath.Join(dir, "000001.sst")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}

	if err := CheckDirect(dir); errors.Is(err, errNoDirect) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}

	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close()
	r := NewRecorder(halves, true)
	h, err := r.Open(1, path, file.Fd())
	if err != nil {
		t.Fatal(err)
	}

	read := func(offset, n int) {
		p := make([]byte, n)
		got, err := h.ReadDirect(p, int64(offset))
		want := content[min(offset, len(content)):min(offset+n, len(content))]
		if len(want) == n && err != nil || len(want) < n && err != io.EOF {
			t.Errorf("%d bytes at %d: error %v", n, offset, err)
		}

		if !bytes.Equal(p[:got], want) {
			t.Errorf("%d bytes at %d: %d bytes that differ from the file", n, offset, got)
		}
	}

	for _, x := range [][2]int{
		{0, 1},
		{0, 4096},
		{511, 2},
		{4095, 4097},
		{299_000, 1001},
		{299_999, 10},
		{300_001, 5},
		{0, 300_001},
	} {
		read(x[0], x[1])
	}

	for range 500 {
		offset := rng.IntN(len(content))
		read(offset, rng.IntN(len(content)-offset))
	}

	if err := h.Close(); err != nil {
		t.Fatal(err)
	}

	if bytes := r.DirectBytes(); bytes%512 != 0 || bytes < r.Reads().Total().Bytes {
		t.Errorf("%d bytes of the device for %d", bytes, r.Reads().Total().Bytes)
	}
}

func TestCountAllocatesNothing(t *testing.T) {
	r := NewRecorder(halves, false)
	h, err := r.Open(1, "table", 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { h.Count(4096, 512) }); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

func TestSublevels(t *testing.T) {
	table := func(smallest, largest string) LiveTable {
		return LiveTable{Smallest: []byte(smallest), Largest: []byte(largest)}
	}
	for want, tables := range [][]LiveTable{
		{},
		{table("a", "c"), table("d", "f"), {Level: 6}},
		{table("a", "c"), table("c", "f")},
		{table("a", "z"), table("b", "c"), table("d", "e"), table("c", "d")},
	} {
		if got := sublevels(tables); got != want {
			t.Errorf("%d sublevels, want %d", got, want)
		}
	}
}

// BenchmarkCount is what counting adds to a read.
func BenchmarkCount(b *testing.B) {
	r := NewRecorder(halves, false)
	h, err := r.Open(1, "table", 0)
	if err != nil {
		b.Fatal(err)
	}

	b.ReportAllocs()
	var offset int64
	for b.Loop() {
		h.Count(4096, offset)
		offset = (offset + 4096) & 0xfffff
	}
}
