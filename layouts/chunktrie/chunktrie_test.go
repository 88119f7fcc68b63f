//go:build linux

package chunktrie

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
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

// Open is Layout's, with all that a Store can do.
func Open(ctx context.Context, o layout.Options) (*Store, error) {
	s, err := Layout{}.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.(*Store), nil
}

// ReaderAt looks up at a block that is still addressable. Only the newest has
// nodes in memory.
func (s *Store) ReaderAt(block uint64) (*Reader, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i := slices.IndexFunc(s.versions, func(v *version) bool { return v.block == block })
	if i < 0 {
		return nil, fmt.Errorf("chunktrie: block %d is not kept: %d to %d are", block,
			s.versions[0].block, s.newest().block)
	}

	return s.reader(s.versions[i]), nil
}

// Block is the block that the reader looks at.
func (r *Reader) Block() uint64 {
	if r.at == nil {
		return 0
	}
	return r.at.block
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

// content is what a reference held when the copy was made.
type content struct {
	accounts map[layout.Hash]layout.Account
	slots    map[[2]layout.Hash][]byte
}

// copyOf copies what the workload can have made.
func copyOf(w layouttest.Workload, reference *mpt.Reference) content {
	c := content{map[layout.Hash]layout.Account{}, map[[2]layout.Hash][]byte{}}
	for n := range w.Accounts {
		account := w.Hash(n)
		a, found := reference.Account(account)
		if !found {
			continue
		}

		c.accounts[account] = a
		for k := range w.Slots {
			if value := reference.Slot(account, w.Hash(k)); value != nil {
				c.slots[[2]layout.Hash{account, w.Hash(k)}] = bytes.Clone(value)
			}
		}
	}

	return c
}

// Account looks an account up.
func (c content) Account(account layout.Hash) (a layout.Account, found bool) {
	a, found = c.accounts[account]
	return a, found
}

// Slot looks a slot up; an absent one is nil.
func (c content) Slot(account, key layout.Hash) []byte {
	return c.slots[[2]layout.Hash{account, key}]
}

// snapshot is what a reader must go on seeing.
type snapshot struct {
	layouttest.Workload
	content content
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
			t.Fatalf("block %d: account %x is %v in a batch, want %v, %v", s.reader.Block(), key,
				out[i], a, found)
		}
	}
}

// TestOldReaders holds readers of old blocks against what they saw first, while
// chunks are emptied and used again.
func TestOldReaders(t *testing.T) {
	testring.Outer(t, "it compares every old block with a reference")
	for name, overrides := range map[string]map[string]string{
		"small chunks":          small,
		"nothing pinned, eager": eager,
	} {
		t.Run(name, func(t *testing.T) {
			o := layout.Options{Dir: newDir(t), Create: true, Overrides: overrides}
			w, s, reference := churned(1), open(t, o), mpt.NewReference()
			var snapshots []snapshot
			for range blocks(30, 200) {
				play(t, w, s, reference, 10)
				snapshots = append(snapshots, snapshot{w, copyOf(w, reference), reader(t, s)})
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
	maximum := 0
	for n := range blocks(300, 3000) {
		c := layout.Change{
			Account: w.Hash(n % 50),
			New:     &layout.Account{Nonce: uint64(n), CodeHash: layout.EmptyCode},
		}

		must(t,
			layouttest.Commit(t.Context(), s, reference, layout.EthereumRoot, []layout.Change{c}))
		maximum = max(maximum, len(s.chunks.byID))
	}

	disk, err := s.DiskBytes()
	must(t, err)
	written := *s.Counters().WriteBytes
	must(t, s.Close())
	report := check(t, o.Dir, s.Block(), reference.Root())
	t.Logf("%d bytes live, %d on the disk, %d written; chunks %d in use, %d at most",
		report.LiveBytes, disk, written, report.Chunks, maximum)
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
	contents, roots := map[uint64]content{}, map[uint64]layout.Hash{}
	for block := uint64(1); block <= 20; block++ {
		play(t, w, s, reference, 1)
		contents[block], roots[block] = copyOf(w, reference), s.Root()
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
	s, key := open(t, layout.Options{Dir: newDir(t), Create: true, Overrides: small}),
		layout.Hash{1}
	slots := []layout.Slot{
		{Key: key, Value: []byte{1}},
		{Key: layout.Hash{2}, Value: []byte{2}},
		{Key: key, Value: []byte{3}},
	}

	must(t, layouttest.Commit(t.Context(), s, mpt.NewReference(), layout.EthereumRoot,
		[]layout.Change{{Account: key, New: &layout.Account{}, Slots: slots}}))
	must(t, s.Close())
}
