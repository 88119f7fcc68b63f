//go:build linux

package chunktrie

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

// blocks is the length of a test: short with -short, else long.
func blocks(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

// small makes chunks small, so that they fill, move and are freed.
var small = map[string]string{"ChunkBytes": "64KiB", "Versions": "5"}

// churned is enough to fill small chunks.
func churned(seed uint64) layouttest.Workload {
	return layouttest.Workload{Seed: seed, Accounts: 600, Slots: 60, Changes: 60}
}

// play commits so many blocks to the state and to the reference and compares roots.
func play(t testing.TB, w layouttest.Workload, s *Store, reference *mpt.Reference, blocks int) {
	t.Helper()
	for range blocks {
		must(t, w.Play(t.Context(), s, reference, layout.EthereumRoot))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "state") }

func open(t testing.TB, o layout.Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	must(t, err)
	return s
}

func reader(t testing.TB, s *Store) *Reader {
	t.Helper()
	r, err := s.Reader()
	must(t, err)
	return r.(*Reader)
}

func commit(t testing.TB, s *Store, changes []layout.Change) layout.Hash {
	t.Helper()
	for _, c := range changes {
		must(t, s.Change(c))
	}
	root, err := s.Commit(t.Context())
	must(t, err)
	return root
}

// snapshot is what a reader must go on seeing.
type snapshot struct {
	layouttest.Workload
	content layouttest.Copy
	reader  *Reader
}

func (s snapshot) expect(t *testing.T) {
	t.Helper()
	must(t, s.Compare(s.reader, s.content))
	keys := make([]layout.Hash, s.Accounts)
	for n := range keys {
		keys[n] = s.Hash(n)
	}
	out := make([]Found, len(keys))
	must(t, s.reader.Accounts(keys, 4, out))
	for i, key := range keys {
		if a, found := s.content.Account(key); out[i] != (Found{a, found}) {
			t.Fatalf("block %d: account %x is %v in a batch, want %v, %v", s.reader.Block(), key, out[i], a, found)
		}
	}
}

// TestOldReaders holds readers of old blocks against what they saw first, while
// chunks are emptied and used again.
func TestOldReaders(t *testing.T) {
	for name, overrides := range map[string]map[string]string{"small chunks": small, "nothing pinned, eager": eager} {
		t.Run(name, func(t *testing.T) {
			o := layout.Options{Dir: newDir(t), Create: true, Overrides: overrides}
			w, s, reference := churned(1), open(t, o), mpt.NewReference()
			var snapshots []snapshot
			for range blocks(30, 200) {
				play(t, w, s, reference, 10)
				snapshots = append(snapshots, snapshot{w, w.Copy(reference), reader(t, s)})
				if len(snapshots) > 4 {
					snapshots[0].expect(t)
					must(t, snapshots[0].reader.Close())
					snapshots = snapshots[1:]
				}
			}
			for _, snapshot := range snapshots {
				snapshot.expect(t)
				must(t, snapshot.reader.Close())
			}
			if s.chunks.lists[fast].chunks[0].sequence == 0 {
				t.Error("no chunk was freed")
			}
			root, block := s.Root(), s.Block()
			must(t, s.Close())
			check(t, o.Dir, block, root)
		})
	}
}

func check(t *testing.T, dir string, block uint64, root layout.Hash) Report {
	t.Helper()
	report, err := Check(dir)
	must(t, err)
	if report.Block != block || report.Root != root {
		t.Fatalf("block %d, root %x: want %d and %x", report.Block, report.Root, block, root)
	}
	return report
}

// TestCompactionFreesChunks rewrites the same accounts over and over: the file
// must stop growing, roots must not change.
func TestCompactionFreesChunks(t *testing.T) {
	o := layout.Options{Dir: newDir(t), Create: true, Overrides: small}
	w, s, reference := churned(3), open(t, o), mpt.NewReference()
	play(t, w, s, reference, 40)
	most := 0
	for n := range blocks(300, 3000) {
		c := layout.Change{Account: w.Hash(n % 50), New: &layout.Account{Nonce: uint64(n), CodeHash: layout.EmptyCode}}
		must(t, layouttest.Commit(t.Context(), s, reference, layout.EthereumRoot, []layout.Change{c}))
		most = max(most, len(s.chunks.byID))
	}
	disk, err := s.DiskBytes()
	must(t, err)
	written := *s.Counters().WriteBytes
	must(t, s.Close())
	report := check(t, o.Dir, s.Block(), reference.Root())
	t.Logf("%d bytes live, %d on the disk, %d written; chunks %d in use, %d at most", report.LiveBytes, disk, written, report.Chunks, most)
	if disk > 4*report.LiveBytes {
		t.Errorf("%d bytes on the disk for %d live ones", disk, report.LiveBytes)
	}
	if s.chunks.lists[fast].chunks[0].sequence == 0 {
		t.Error("no chunk was freed")
	}
}

func TestKeptVersions(t *testing.T) {
	o := layout.Options{Dir: newDir(t), Create: true, Overrides: small}
	w, s, reference := churned(4), open(t, o), mpt.NewReference()
	contents, roots := map[uint64]layouttest.Copy{}, map[uint64]layout.Hash{}
	for block := uint64(1); block <= 20; block++ {
		play(t, w, s, reference, 1)
		contents[block], roots[block] = w.Copy(reference), s.Root()
	}
	must(t, s.Close())
	o.Create = false
	s = open(t, o)
	for block := uint64(1); block <= 20; block++ {
		r, err := s.ReaderAt(block)
		if block <= 15 {
			if err == nil {
				t.Errorf("block %d is addressable, of five kept up to 20", block)
			}
			continue
		}
		must(t, err)
		snapshot{w, contents[block], r}.expect(t)
		if r.at.hash() != roots[block] {
			t.Errorf("block %d: root %x, want %x", block, r.at.hash(), roots[block])
		}
		must(t, r.Close())
	}
	must(t, s.Close())
}

// TestTornTail damages what a kill may leave behind: bytes after the last root,
// and the newest root itself.
func TestTornTail(t *testing.T) {
	o := layout.Options{Dir: newDir(t), Create: true, Overrides: small}
	w, s, reference := churned(5), open(t, o), mpt.NewReference()
	var roots []layout.Hash
	for range 8 {
		play(t, w, s, reference, 1)
		roots = append(roots, s.Root())
	}
	end := int64(s.chunks.lists[fast].last().id)*s.chunks.chunkBytes + s.chunks.lists[fast].next
	slot := s.settings.slotAt(8)
	must(t, s.Close())
	file, err := os.OpenFile(filepath.Join(o.Dir, fileName), os.O_RDWR, 0)
	must(t, err)
	_, err = file.WriteAt(bytes.Repeat([]byte{0xee}, 100_000), end)
	must(t, err)
	check(t, o.Dir, 8, roots[7])
	_, err = file.WriteAt([]byte{1, 2, 3}, slot+100)
	must(t, err)
	must(t, file.Close())
	check(t, o.Dir, 7, roots[6])
	o.Create = false
	s = open(t, o)
	if root := commit(t, s, w.Block(9)); root == roots[7] {
		t.Error("block 8 has the root of another block 8")
	}
	must(t, s.Close())
	check(t, o.Dir, 8, s.Root())
}

// TestLastOfAKeyCounts gives a slot twice in one change.
func TestLastOfAKeyCounts(t *testing.T) {
	s, key := open(t, layout.Options{Dir: newDir(t), Create: true, Overrides: small}), layout.Hash{1}
	slots := []layout.Slot{{Key: key, Value: []byte{1}}, {Key: layout.Hash{2}, Value: []byte{2}}, {Key: key, Value: []byte{3}}}
	must(t, layouttest.Commit(t.Context(), s, mpt.NewReference(), layout.EthereumRoot,
		[]layout.Change{{Account: key, New: &layout.Account{}, Slots: slots}}))
	must(t, s.Close())
}
