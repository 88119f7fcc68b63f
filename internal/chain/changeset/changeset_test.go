package changeset

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// plain is a version as the tests compare it.
type plain struct {
	Number  int64
	Changes []string
	Roots   string
}

func text(stores []string, c Change) string {
	if c.Delete {
		return fmt.Sprintf("%s: delete %x", stores[c.Store], c.Key)
	}

	if c.Value == nil {
		return "a set without a value"
	}

	if len(c.Value) > 1000 {
		return fmt.Sprintf("%s: set %x = %d bytes %08x", stores[c.Store], c.Key, len(c.Value),
			crc32.ChecksumIEEE(c.Value))
	}

	return fmt.Sprintf("%s: set %x = %x", stores[c.Store], c.Key, c.Value)
}

// read is all of s, in batches of at most batchBytes.
func read(t testing.TB, s Source, batchBytes int) []plain {
	t.Helper()
	versions, err := readUntil(s, batchBytes)
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

func readUntil(s Source, batchBytes int) (versions []plain, err error) {
	open := false
	b := &Batch{MaxBytes: batchBytes}
	err = Each(s, b, func(b *Batch) error {
		if !open {
			versions = append(versions, plain{Number: b.Version})
		}

		v := &versions[len(versions)-1]
		if v.Number != b.Version {
			return fmt.Errorf("version %d inside %d", b.Version, v.Number)
		}

		held := 0
		for _, c := range b.Changes {
			held += len(c.Key) + len(c.Value)
			v.Changes = append(v.Changes, text(s.Info().Stores, c))
		}

		if batchBytes > 0 && held > batchBytes && len(b.Changes) > 1 {
			return fmt.Errorf("a batch of %d bytes, the bound is %d", held, batchBytes)
		}

		if b.Roots.Known() {
			v.Roots = fmt.Sprintf("%x %x", b.Roots.Combined, b.Roots.Stores)
		}

		open = !b.Last
		return nil
	})

	if open && err == nil {
		err = errors.New("the last version has no end")
	}

	if open {
		versions = versions[:len(versions)-1] // what must not be used
	}

	return versions, err
}

// small is a set of five stores with hot keys, deletes, empty values and an empty
// store.
func small(t testing.TB, versions int64) Source {
	t.Helper()
	s, err := Generate(Generation{
		Profiles:        []string{"bank", "skewed", "prefix"},
		Versions:        versions,
		Scale:           .002,
		Seed:            7,
		EmptyStore:      true,
		EmptyValueShare: .1,
	})
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func contained(t testing.TB, s Source) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{
		Order:      s.Info().Order,
		RootRule:   s.Info().RootRule,
		Provenance: s.Info().Provenance,
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(w.Copy(s, nil), w.Close()); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func open(t testing.TB, text []byte) *Container {
	t.Helper()
	c, err := OpenContainer(bytes.NewReader(text), int64(len(text)), "set.slcs")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tempFolder is a Folder on disk.
type tempFolder string

func (f tempFolder) Create(name string) (io.WriteCloser, error) {
	path := filepath.Join(string(f), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}

func TestSetsComeBackThroughEveryFormat(t *testing.T) {
	want := read(t, small(t, 40), 0)
	sorted := read(t, Net(small(t, 40)), 0)
	if cmp.Equal(want, sorted) {
		t.Fatal("the generated set is sorted already: it proves no order")
	}

	through := map[Format]func(Source) Source{
		FormatContainer: func(s Source) Source { return open(t, contained(t, s)) },
	}
	for _, format := range ExportFormats() {
		through[format] = func(s Source) Source {
			dir := t.TempDir()
			if err := Export(tempFolder(dir), s, format, nil); err != nil {
				t.Fatal(err)
			}

			found, err := Open(os.DirFS(dir), ".", "")
			if err != nil {
				t.Fatal(err)
			}

			if found.Info().Format != format {
				t.Errorf("detected %s, not %s", found.Info().Format, format)
			}

			return found
		}
	}

	for format, pass := range through {
		for _, batchBytes := range []int{0, 1, 5000} {
			s := pass(small(t, 40))
			got := read(t, s, batchBytes)
			if format == FormatCronos { // has no order between stores
				want := read(t, byStore(small(t, 40), s.Info().Stores), 0)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s in batches of %d:\n%.2000s", format, batchBytes, diff)
				}

				got = read(t, byStore(open(t, contained(t, Net(small(t, 40)))), s.Info().Stores), 0)
				if diff := cmp.Diff(got, read(t, pass(Net(small(t, 40))), batchBytes)); diff != "" {
					t.Errorf("%s, sorted, in batches of %d:\n%.2000s", format, batchBytes, diff)
				}

				continue
			}

			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in batches of %d:\n%.2000s", format, batchBytes, diff)
			}

			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// byStore is s with the changes of a version in the order of stores, each store's
// as they were.
func byStore(s Source, stores []string) Source {
	return &storewise{Source: s, stores: stores}
}

type storewise struct {
	Source
	stores []string
}

func (s *storewise) Next(b *Batch) error {
	b.MaxBytes = 1 << 30
	if err := s.Source.Next(b); err != nil {
		return err
	}

	all := b.Changes
	b.Changes = nil
	for _, name := range s.stores {
		for _, c := range all {
			if s.Info().Stores[c.Store] == name {
				b.Changes = append(b.Changes, c)
			}
		}
	}

	return nil
}

func TestContainerSeeks(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Order: OrderInsertion})
	if err != nil {
		t.Fatal(err)
	}

	store, err := w.Store("bank")
	if err != nil {
		t.Fatal(err)
	}

	// Versions of every size: none, small, several frames; some missing.
	value := bytes.Repeat([]byte{7}, 100_000)
	for version := int64(3); version < 60; version += 1 + version%3 {
		if err := w.Begin(version); err != nil {
			t.Fatal(err)
		}

		for i := range int(version) % 37 {
			if err := w.Change(Change{
				Store: store,
				Key:   fmt.Appendf(nil, "key %d", i),
				Value: value,
			}); err != nil {
				t.Fatal(err)
			}
		}

		roots := Roots{}
		if version%2 == 0 {
			roots = Roots{Combined: []byte{byte(version)}, Stores: [][]byte{{1, byte(version)}}}
		}

		if err := w.End(roots); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	c := open(t, out.Bytes())
	if len(c.index) < 20 {
		t.Fatalf("only %d frames", len(c.index))
	}

	all := read(t, c, 0)
	for from := int64(0); from < 65; from++ {
		if err := c.SeekVersion(from); err != nil {
			t.Fatal(err)
		}

		want := all
		for len(want) > 0 && want[0].Number < from {
			want = want[1:]
		}

		if diff := cmp.Diff(want, append([]plain{}, read(t, c, 150_000)...),
			cmp.Transformer("empty", func(v []plain) []plain {
				if len(v) == 0 {
					return nil
				}
				return v
			})); diff != "" {
			t.Errorf("from %d:\n%.1000s", from, diff)
		}
	}

	// The same file without its footer gives the same versions, and says so.
	cut := open(t, out.Bytes()[:out.Len()-trailerBytes])
	info := cut.Info()
	if info.Damage == nil || info.First != 3 || info.Last != all[len(all)-1].Number ||
		!cmp.Equal(info.Totals, c.Info().Totals) {
		t.Errorf("without a footer: %+v, want totals %+v", info, c.Info().Totals)
	}

	if err := cut.SeekVersion(40); err != nil {
		t.Fatal(err)
	}

	rest, err := readUntil(cut, 0)
	if err == nil || err.Error() != info.Damage.Error() || len(rest) == 0 || rest[0].Number < 40 ||
		rest[len(rest)-1].Number != info.Last {
		t.Errorf("after a seek without a footer: %d versions, %v", len(rest), err)
	}
}

// A container cut anywhere gives whole versions only, and the damage.
func TestCutContainers(t *testing.T) {
	whole := contained(t, small(t, 12))
	all := read(t, open(t, whole), 0)
	for cut := len(whole) - 1; cut > 0; cut -= 1 + cut/23 {
		c, err := OpenContainer(bytes.NewReader(whole[:cut]), int64(cut), "set.slcs")
		if err != nil {
			if !strings.Contains(err.Error(), "set.slcs") || cut > 400 {
				t.Errorf("cut at %d: %v", cut, err)
			}
			continue
		}

		got, err := readUntil(c, 0)
		var damage *DamageError
		if !errors.As(err, &damage) || damage.File != "set.slcs" ||
			!strings.Contains(err.Error(), "cut short") {
			t.Fatalf("cut at %d: %v", cut, err)
		}

		if len(got) > 0 && !cmp.Equal(got, all[:len(got)]) {
			t.Fatalf("cut at %d: other versions than were written", cut)
		}

		if c.Info().Last != int64(len(got)) {
			t.Errorf("cut at %d: %d versions, Info says %d", cut, len(got), c.Info().Last)
		}
	}
}

// A flipped bit anywhere is found: by a checksum, or because the file no longer is
// what it says.
func TestFlippedBits(t *testing.T) {
	whole := contained(t, small(t, 6))
	for at := 0; at < len(whole); at += 1 + at/11 {
		broken := bytes.Clone(whole)
		broken[at] ^= 1 << (at % 8)
		c, err := OpenContainer(bytes.NewReader(broken), int64(len(broken)), "set.slcs")
		if err == nil {
			_, err = readUntil(c, 0)
		}

		if err == nil {
			t.Errorf("a bit flipped at %d of %d is not found", at, len(whole))
		} else if !strings.HasPrefix(err.Error(), "set.slcs: offset ") {
			t.Errorf("a bit flipped at %d: %v", at, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	for _, c := range []struct {
		want  string
		write func(w *Writer, store int) error
	}{
		{"version 4 after version 5: versions must ascend", func(w *Writer, _ int) error {
			return errors.Join(w.Begin(5), w.End(Roots{}), w.Begin(4))
		}},
		{"version 6 begins before version 5 ends",
			func(w *Writer, _ int) error { return errors.Join(w.Begin(5), w.Begin(6)) }},
		{"they count from 1", func(w *Writer, _ int) error { return w.Begin(0) }},
		{"outside of a version",
			func(w *Writer, s int) error { return w.Change(Change{Store: s, Key: []byte("k")}) }},
		{"an empty key",
			func(w *Writer, s int) error {
				return errors.Join(w.Begin(1), w.Change(Change{Store: s}))
			}},
		{"at most 1048576 are believed", func(w *Writer, s int) error {
			return errors.Join(w.Begin(1),
				w.Change(Change{Store: s, Key: make([]byte, MaxKeyBytes+1)}))
		}},
		{"store 1 of 1", func(w *Writer, _ int) error {
			return errors.Join(w.Begin(1), w.Change(Change{Store: 1, Key: []byte("k")}))
		}},
		{"version 1: key 61 of store 0 comes after key 62", func(w *Writer, s int) error {
			return errors.Join(w.Begin(1), w.Change(Change{Store: s, Key: []byte("b")}),
				w.Change(Change{Store: s, Key: []byte("a")}))
		}},
		{"version 1 has no end",
			func(w *Writer, _ int) error { return errors.Join(w.Begin(1), w.Close()) }},
		{"a root of 0 bytes",
			func(w *Writer, _ int) error {
				return errors.Join(w.Begin(1), w.End(Roots{Combined: []byte{}}))
			}},
		{"not a name of a store",
			func(w *Writer, _ int) error { _, err := w.Store("a/b"); return err }},
	} {
		w, err := NewWriter(io.Discard, Header{Order: OrderSortedNet})
		if err != nil {
			t.Fatal(err)
		}

		store, err := w.Store("bank")
		if err != nil {
			t.Fatal(err)
		}

		if err := c.write(w, store); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestFullDiskEndsTheWriter(t *testing.T) {
	full := errors.New("disk full")
	w, err := NewWriter(&limited{left: 100_000, err: full}, Header{})
	if err != nil {
		t.Fatal(err)
	}

	if err := w.Copy(small(t, 10), nil); !errors.Is(err, full) {
		t.Errorf("copy: %v", err)
	}

	if err := w.Close(); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
	}
}

type limited struct {
	left int
	err  error
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, l.err
	}
	return len(b), nil
}

func TestVerify(t *testing.T) {
	c := open(t, contained(t, small(t, 20)))
	v, err := Verify(c, nil)
	if err != nil {
		t.Fatal(err)
	}

	if v.First != 1 || v.Last != 20 || v.Missing != 0 || v.IsSortedNet ||
		v.Totals.Versions != 20 || !cmp.Equal(v.Totals, *c.Info().Totals) {
		t.Errorf("%+v", v)
	}

	if v, err = Verify(Net(small(t, 20)), nil); err != nil || !v.IsSortedNet {
		t.Errorf("sorted: %+v, %v", v, err)
	}

	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Order: OrderUnknown})
	if err != nil {
		t.Fatal(err)
	}

	for _, version := range []int64{2, 3, 7, 8, 100} {
		if err := errors.Join(w.Begin(version), w.End(Roots{})); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	v, err = Verify(open(t, out.Bytes()), nil)
	if want := []Gap{{4, 6}, {9, 99}}; err != nil || !cmp.Equal(v.Gaps, want) || v.Missing != 94 ||
		v.Empty != 5 {
		t.Errorf("%+v, %v", v, err)
	}

	// A cronos set promises an order that verify holds it to.
	pairs := appendCronosChange(appendCronosChange(nil, Change{Key: []byte("b"), Value: []byte{}}),
		Change{Key: []byte("a"), Delete: true})
	unsorted, err := Open(fstest.MapFS{"bank/block-1": {Data: cronosVersion(1, pairs)}}, ".", "")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := Verify(unsorted, nil); err == nil ||
		!strings.Contains(err.Error(),
			"version 1: key 61 of store 0 comes after key 62 of store 0") {
		t.Errorf("unsorted: %v", err)
	}
}

func TestNetKeepsTheLastChange(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Order: OrderInsertion, RootRule: "iavl"})
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"z", "a"} {
		if _, err := w.Store(name); err != nil {
			t.Fatal(err)
		}
	}

	k := func(store int, key, value string) Change {
		return Change{Store: store, Key: []byte(key), Value: []byte(value), Delete: value == ""}
	}
	err = w.Begin(1)
	for _, c := range []Change{k(1, "b", "1"), k(0, "c", "1"), k(1, "a", "1"), k(1, "b", ""),
		k(0, "c", "2"), k(1, "a", "2"), k(1, "a", "3")} {
		err = errors.Join(err, w.Change(c))
	}

	if err := errors.Join(err, w.End(Roots{Combined: []byte{1}}), w.Begin(2), w.End(Roots{}),
		w.Close()); err != nil {
		t.Fatal(err)
	}

	s := Net(open(t, out.Bytes()))
	want := []plain{
		{1, []string{"z: set 63 = 32", "a: set 61 = 33", "a: delete 62"}, ""},
		{Number: 2},
	}

	if diff := cmp.Diff(want, read(t, s, 1)); diff != "" {
		t.Error(diff)
	}

	if i := s.Info(); i.Order != OrderSortedNet || i.RootRule != "" {
		t.Errorf("%+v", i)
	}
}

func TestFromReadsPast(t *testing.T) {
	for _, s := range []Source{small(t, 9), open(t, contained(t, small(t, 9)))} {
		from, err := From(s, 6)
		if err != nil {
			t.Fatal(err)
		}

		if got := read(t, from, 300); len(got) != 4 || got[0].Number != 6 ||
			!cmp.Equal(got, read(t, small(t, 9), 0)[5:]) {
			t.Errorf("%T: %d versions", s, len(got))
		}
	}
}

func TestReadingAllocatesNothingPerChange(t *testing.T) {
	c := open(t, contained(t, small(t, 60)))
	b := &Batch{MaxBytes: 64 << 10}
	read := func() {
		if err := c.SeekVersion(1); err != nil {
			t.Fatal(err)
		}

		if err := Each(c, b, func(*Batch) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}

	read()
	if perChange := testing.AllocsPerRun(3,
		read) / float64(c.Info().Totals.Changes); perChange > .01 {
		t.Errorf("%v allocations a change", perChange)
	}
}

func TestUntilEndsEarlier(t *testing.T) {
	s := Until(small(t, 9), 4)
	if got := read(t, s, 300); !cmp.Equal(got, read(t, small(t, 9), 0)[:4]) || s.Info().Last != 0 {
		t.Errorf("%d versions, %+v", len(got), s.Info())
	}
}

func TestJoinedPartsAreTheSet(t *testing.T) {
	part := func(first, last int64) Source {
		s, err := From(small(t, 9), first)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, contained(t, Until(s, last)))
	}

	joined, err := Join(part(1, 4), part(5, 5), part(6, 9))
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(read(t, small(t, 9), 0), read(t, joined, 300)); diff != "" {
		t.Errorf("%.2000s", diff)
	}

	overlapping, err := Join(part(1, 4), part(4, 5))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := readUntil(overlapping, 0); err == nil ||
		!strings.Contains(err.Error(), "version 4 after version 4: the sets overlap") {
		t.Errorf("overlap: %v", err)
	}

	if _, err := Join(part(1, 4), Net(part(5, 9))); err == nil {
		t.Error("sets of different orders were joined")
	}
}

func TestRootsTravelByName(t *testing.T) {
	roots := map[int64]NamedRoots{
		2: {Combined: []byte{9}, Stores: map[string][]byte{"prefix": {7}}},
		4: {Combined: []byte{8}},
	}

	c := open(t, contained(t, WithRoots(small(t, 5), "iavl", roots)))
	if i := c.Info(); i.RootRule != "iavl" || i.Totals.Roots != 2 {
		t.Errorf("%+v", i)
	}

	var got []string
	for _, v := range read(t, c, 300) {
		got = append(got, v.Roots)
	}

	// bank, skewed, prefix, empty: the others are unknown.
	if want := []string{"", "09 [  07 ]", "", "08 [   ]", ""}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	roots[3] = NamedRoots{Stores: map[string][]byte{"gov": {1}}}
	if _, err := readUntil(WithRoots(small(t, 5), "iavl", roots), 0); err == nil ||
		!strings.Contains(err.Error(), `version 3: a root of store "gov"`) {
		t.Error(err)
	}
}
