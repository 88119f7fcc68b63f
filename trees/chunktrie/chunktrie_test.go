package chunktrie

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
)

// slow asks for the long runs.
const slowTests = "STATELAB_SLOW"

// blocks is the length of a test: short, or long where slow tests are asked for.
func blocks(short, long int) int {
	if os.Getenv(slowTests) != "" {
		return long
	}
	return short
}

// small makes chunks small, so that they fill, move and are freed.
var small = map[string]string{"ChunkBytes": "64KiB", "Versions": "5"}

// chain makes blocks of changes and keeps what they lead to.
type chain struct {
	rng       *rand.Rand
	reference *mpt.Reference
	accounts  []state.Hash
	slots     map[state.Hash][]state.Hash
}

func newChain(seed uint64) *chain {
	return &chain{rand.New(rand.NewPCG(seed, 7)), mpt.NewReference(), nil, map[state.Hash][]state.Hash{}}
}

// key is spread evenly, or shares all but its last nibbles with others, so that
// paths are long and nodes short.
func (c *chain) key() (h state.Hash) {
	if c.rng.IntN(4) == 0 {
		h[0] = byte(c.rng.IntN(3))
		h[31] = byte(c.rng.IntN(40))
		return h
	}
	for i := range h {
		h[i] = byte(c.rng.Uint32())
	}
	return h
}

func (c *chain) value() []byte {
	v := make([]byte, 1+c.rng.IntN(32)*c.rng.IntN(2))
	for i := range v {
		v[i] = byte(c.rng.Uint32())
	}
	v[0] |= 1
	return v
}

func (c *chain) slot(account state.Hash) state.Slot {
	known := c.slots[account]
	if len(known) > 0 && (c.rng.IntN(2) == 0 || len(known) > 100) {
		s := state.Slot{Key: known[c.rng.IntN(len(known))]}
		if c.rng.IntN(2) == 0 {
			s.Value = c.value()
		}
		return s
	}
	s := state.Slot{Key: c.key()}
	if c.rng.IntN(8) > 0 {
		s.Value = c.value()
		c.slots[account] = append(known, s.Key)
	}
	return s
}

func (c *chain) change() state.Change {
	var ch state.Change
	if len(c.accounts) > 0 && (c.rng.IntN(3) > 0 || len(c.accounts) > 6000) {
		ch.Account = c.accounts[c.rng.IntN(len(c.accounts))]
	} else {
		ch.Account = c.key()
		c.accounts = append(c.accounts, ch.Account)
	}
	if c.rng.IntN(6) == 0 {
		delete(c.slots, ch.Account)
		return ch
	}
	ch.New = &state.Account{Nonce: c.rng.Uint64() >> c.rng.IntN(64), CodeHash: state.EmptyCode}
	copy(ch.New.Balance[c.rng.IntN(32):], c.value())
	if c.rng.IntN(3) == 0 {
		ch.New.CodeHash = c.key()
	}
	if c.rng.IntN(2) == 0 {
		for range c.rng.IntN(20) {
			ch.Slots = append(ch.Slots, c.slot(ch.Account))
		}
	}
	return ch
}

// block is n changes of different accounts.
func (c *chain) block(t testing.TB, n int) (changes []state.Change) {
	t.Helper()
	seen := map[state.Hash]bool{}
	for range n {
		ch := c.change()
		if seen[ch.Account] {
			continue
		}
		seen[ch.Account] = true
		must(t, c.reference.Change(ch))
		changes = append(changes, ch)
	}
	return changes
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "state") }

func open(t testing.TB, o state.Options) *Store {
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

func commit(t testing.TB, s *Store, changes []state.Change) state.Hash {
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
	reader *Reader
	root   state.Hash
	keys   []state.Hash
	want   []Found
	slots  map[[2]state.Hash][]byte
}

func (c *chain) snapshot(r *Reader, root state.Hash) snapshot {
	s := snapshot{reader: r, root: root, slots: map[[2]state.Hash][]byte{}}
	for range 40 {
		key := c.key()
		if len(c.accounts) > 0 && c.rng.IntN(4) > 0 {
			key = c.accounts[c.rng.IntN(len(c.accounts))]
		}
		a, found := c.reference.Account(key)
		s.keys, s.want = append(s.keys, key), append(s.want, Found{a, found})
		for _, slot := range c.slots[key] {
			s.slots[[2]state.Hash{key, slot}] = bytes.Clone(c.reference.Slot(key, slot))
		}
		absent := c.key()
		s.slots[[2]state.Hash{key, absent}] = bytes.Clone(c.reference.Slot(key, absent))
	}
	return s
}

func (s snapshot) expect(t *testing.T) {
	t.Helper()
	out := make([]Found, len(s.keys))
	must(t, s.reader.Accounts(s.keys, 4, out))
	for i, key := range s.keys {
		a, found, err := s.reader.Account(key)
		must(t, err)
		if got := (Found{a, found}); got != s.want[i] || out[i] != s.want[i] {
			t.Fatalf("block %d: account %x is %v, in a batch %v: want %v", s.reader.Block(), key, got, out[i], s.want[i])
		}
	}
	for at, want := range s.slots {
		value, found, err := s.reader.Slot(at[0], at[1], nil)
		must(t, err)
		if found != (len(want) > 0) || !bytes.Equal(value, want) {
			t.Fatalf("block %d: slot %x of %x is %x, want %x", s.reader.Block(), at[1], at[0], value, want)
		}
	}
}

// TestRootsAndOldReaders holds every root against the reference, and readers of
// old blocks against what they saw first, while chunks are emptied and used again.
func TestRootsAndOldReaders(t *testing.T) {
	for name, overrides := range map[string]map[string]string{
		"small chunks": small,
		"nothing pinned, eager": {"ChunkBytes": "64KiB", "Versions": "2", "PinnedLevels": "0", "GarbagePercent": "1",
			"CompactionPace": "8"},
	} {
		t.Run(name, func(t *testing.T) {
			o := state.Options{Dir: newDir(t), Create: true, Overrides: overrides}
			c, s := newChain(1), open(t, o)
			o.Create = false
			var snapshots []snapshot
			var freed bool
			for n := range blocks(300, 10_000) {
				root := commit(t, s, c.block(t, 1+c.rng.IntN(60)))
				if want := c.reference.Root(); root != want || s.Root() != want {
					t.Fatalf("block %d: root %x, want %x", n+1, root, want)
				}
				if n%10 == 0 {
					snapshots = append(snapshots, c.snapshot(reader(t, s), root))
				}
				if len(snapshots) > 4 {
					for _, snapshot := range snapshots {
						snapshot.expect(t)
					}
					must(t, snapshots[0].reader.Close())
					snapshots = snapshots[1:]
				}
				freed = freed || s.chunks.lists[fast].chunks[0].sequence > 0
				if n%97 == 96 {
					for _, snapshot := range snapshots {
						snapshot.expect(t)
						must(t, snapshot.reader.Close())
					}
					snapshots = nil
					must(t, s.Close())
					check(t, o.Dir, uint64(n+1), root)
					s = open(t, o)
				}
			}
			if !freed {
				t.Error("no chunk was freed")
			}
			must(t, s.Close())
		})
	}
}

func check(t *testing.T, dir string, block uint64, root state.Hash) Report {
	t.Helper()
	report, err := Check(dir)
	must(t, err)
	if report.Block != block || report.Root != root {
		t.Fatalf("block %d, root %x: want %d and %x", report.Block, report.Root, block, root)
	}
	return report
}

// TestEverythingDeleted goes back to the empty root, block by block.
func TestEverythingDeleted(t *testing.T) {
	o := state.Options{Dir: newDir(t), Create: true, Overrides: small}
	c, s := newChain(2), open(t, o)
	if s.Root() != state.EmptyRoot || s.Block() != 0 {
		t.Errorf("a new state has block %d, root %x", s.Block(), s.Root())
	}
	for range 20 {
		commit(t, s, c.block(t, 100))
	}
	for len(c.accounts) > 0 {
		var changes []state.Change
		seen := map[state.Hash]bool{}
		for range min(50, len(c.accounts)) {
			ch := state.Change{Account: c.accounts[0]}
			c.accounts = c.accounts[1:]
			if !seen[ch.Account] {
				seen[ch.Account] = true
				changes = append(changes, ch)
				must(t, c.reference.Change(ch))
			}
		}
		if root, want := commit(t, s, changes), c.reference.Root(); root != want {
			t.Fatalf("root %x, want %x", root, want)
		}
	}
	if s.Root() != state.EmptyRoot {
		t.Errorf("root %x of an empty state", s.Root())
	}
	r := reader(t, s)
	if _, found, err := r.Account(c.key()); found || err != nil {
		t.Errorf("found %v, %v in an empty state", found, err)
	}
	must(t, r.Close())
	must(t, s.Close())
	if report := check(t, o.Dir, s.Block(), state.EmptyRoot); report.LiveBytes != 0 || report.Nodes != 0 {
		t.Errorf("%+v of an empty state", report)
	}
	o.Create = false
	s = open(t, o)
	root := commit(t, s, c.block(t, 10))
	if want := c.reference.Root(); root != want {
		t.Errorf("root %x after the empty state, want %x", root, want)
	}
	must(t, s.Close())
}

// TestCompactionFreesChunks rewrites the same accounts over and over: the file
// must stop growing, roots must not change.
func TestCompactionFreesChunks(t *testing.T) {
	o := state.Options{Dir: newDir(t), Create: true, Overrides: small}
	c, s := newChain(3), open(t, o)
	for range 20 {
		commit(t, s, c.block(t, 200))
	}
	most := 0
	for n := range blocks(300, 3000) {
		ch := state.Change{Account: c.accounts[n%50], New: &state.Account{Nonce: uint64(n), CodeHash: state.EmptyCode}}
		must(t, c.reference.Change(ch))
		if root, want := commit(t, s, []state.Change{ch}), c.reference.Root(); root != want {
			t.Fatalf("root %x, want %x", root, want)
		}
		most = max(most, len(s.chunks.byID))
	}
	disk, err := s.DiskBytes()
	must(t, err)
	written := *s.Counters().WriteBytes
	must(t, s.Close())
	report := check(t, o.Dir, s.Block(), c.reference.Root())
	t.Logf("%d bytes live, %d on the disk, %d written; chunks %d in use, %d at most", report.LiveBytes, disk, written, report.Chunks, most)
	if disk > 4*report.LiveBytes {
		t.Errorf("%d bytes on the disk for %d live ones", disk, report.LiveBytes)
	}
	if s.chunks.lists[fast].chunks[0].sequence == 0 {
		t.Error("no chunk was freed")
	}
}

func TestKeptVersions(t *testing.T) {
	o := state.Options{Dir: newDir(t), Create: true, Overrides: small}
	c, s := newChain(4), open(t, o)
	snapshots := map[uint64]snapshot{}
	for block := uint64(1); block <= 20; block++ {
		root := commit(t, s, c.block(t, 50))
		snapshots[block] = c.snapshot(nil, root)
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
		old := snapshots[block]
		old.reader = r
		old.expect(t)
		if r.at.hash() != old.root {
			t.Errorf("block %d: root %x, want %x", block, r.at.hash(), old.root)
		}
		must(t, r.Close())
	}
	must(t, s.Close())
}

// TestTornTail damages what a kill may leave behind: bytes after the last root,
// and the newest root itself.
func TestTornTail(t *testing.T) {
	o := state.Options{Dir: newDir(t), Create: true, Overrides: small}
	c, s := newChain(5), open(t, o)
	var roots []state.Hash
	for range 8 {
		roots = append(roots, commit(t, s, c.block(t, 50)))
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
	if root := commit(t, s, c.block(t, 1)); root == roots[7] {
		t.Error("block 8 has the root of another block 8")
	}
	must(t, s.Close())
	check(t, o.Dir, 8, s.Root())
}
