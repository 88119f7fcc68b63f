//go:build linux

package chunktrie

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// edit is what a block does to one key. An empty value deletes it.
type edit struct {
	key   layout.Hash
	value []byte // as nodes hold it
	slots []edit // of an account that stays
}

// inOrder sorts edits by key.
func inOrder(edits []edit) {
	slices.SortStableFunc(edits, func(a, b edit) int { return bytes.Compare(a.key[:], b.key[:]) })
}

// lastOfEach keeps the last edit of each key; edits are in order.
func lastOfEach(edits []edit) []edit {
	kept := edits[:0]
	for i := range edits {
		if i+1 == len(edits) || edits[i].key != edits[i+1].key {
			kept = append(kept, edits[i])
		}
	}
	return kept
}

// below splits off the edits that have the first one's nibble at depth.
func below(edits []edit, depth int) (nibble byte, group, rest []edit) {
	nibble = mpt.Nibble(&edits[0].key, depth)
	n := 1
	for n < len(edits) && mpt.Nibble(&edits[n].key, depth) == nibble {
		n++
	}
	return nibble, edits[:n], edits[n:]
}

// trieOf tells the account trie from storage.
type trieOf struct{ branch, leaf kind }

// writer makes the nodes of a block: every node on the way to an edit anew, in one
// pass from the root down, sealed from the leaves up. A draft is sealed by its
// parent, once it is sure that the parent remains a branch: until then it may have
// to take the parent's path over.
type writer struct {
	chunks   *chunkFile
	nodes    *nodeFile
	hasher   *mpt.Hasher
	pins     *pins
	version  uint64
	boundary [lists]uint32 // what is older moves to the slow list

	spare   []*draft
	buffer  []byte // of reads
	encoded []byte
	leaf    []byte // a leaf's value as hashed

	reads, readBytes, nodesNew atomic.Int64
}

// apply makes the trie at root with edits, which are in order.
func (w *writer) apply(root ref, edits []edit) (ref, error) {
	accounts := trieOf{accountBranch, accountLeaf}
	if len(edits) == 0 {
		return w.keep(root)
	}

	top, err := w.update(accounts, root, 0, edits)
	if err != nil {
		return ref{}, err
	}

	return w.sealRoot(top)
}

// sealRoot seals the top of a trie, whose hash is never an encoding.
func (w *writer) sealRoot(top *draft) (ref, error) {
	if top == nil {
		return ref{oldest: [lists]uint32{noPlace, noPlace}}, nil
	}

	r, err := w.seal(top)
	if err == nil {
		root := w.hasher.Root(&r.hash)
		r.hash = mpt.HashRef(&root)
	}

	return r, err
}

// update returns the subtrie of old, which begins at depth, with edits; nil if
// nothing is left of it.
func (w *writer) update(t trieOf, old ref, depth int, edits []edit) (*draft, error) {
	if old.at == 0 {
		return w.build(t, depth, edits)
	}
	d, err := w.load(old, t, depth)
	if err != nil {
		return nil, err
	}
	return w.change(t, d, edits)
}

// change makes edits, all below d's beginning, in d.
func (w *writer) change(t trieOf, d *draft, edits []edit) (*draft, error) {
	same := min(d.common(&edits[0].key), d.common(&edits[len(edits)-1].key))
	switch {
	case same < d.nibbles:
		d = w.part(t, d, same)
	case d.kind.leaf():
		return w.changeLeaf(d, &edits[0])
	}

	for rest := edits; len(rest) > 0; {
		var nibble byte
		var group []edit
		var err error
		nibble, group, rest = below(rest, d.end())
		child := d.drafts[nibble]
		if child != nil {
			child, err = w.change(t, child, group)
		} else {
			child, err = w.update(t, d.children[nibble], d.end()+1, group)
		}

		if err != nil {
			return nil, err
		}

		d.children[nibble], d.drafts[nibble] = ref{}, child
	}

	return w.collapse(t, d)
}

// common is how many of d's nibbles lead to key.
func (d *draft) common(key *layout.Hash) (n int) {
	for n < d.nibbles && d.path[n] == mpt.Nibble(key, d.begin+n) {
		n++
	}
	return n
}

// part puts a branch where edits leave d's path, with d below it.
func (w *writer) part(t trieOf, d *draft, same int) *draft {
	b := w.draft(t.branch, d.begin)
	b.nibbles = copy(b.path[:], d.path[:same])
	own := d.path[same]
	d.begin += same + 1
	d.nibbles = copy(d.path[:], d.path[same+1:d.nibbles])
	b.drafts[own] = d
	return b
}

// changeLeaf gives a leaf its new value, or deletes it with all its storage.
func (w *writer) changeLeaf(d *draft, e *edit) (*draft, error) {
	if len(e.value) == 0 {
		err := w.drop(d.children[0])
		w.release(d)
		return nil, err
	}
	d.bytes = copy(d.value[:], e.value)
	return d, w.changeStorage(d, e.slots)
}

func (w *writer) changeStorage(d *draft, slots []edit) error {
	if len(slots) == 0 {
		return nil
	}
	top, err := w.update(trieOf{slotBranch, slotLeaf}, d.children[0], 0, slots)
	d.children[0], d.drafts[0] = ref{}, top
	return err
}

// build makes a subtrie that begins at depth; nil if edits only delete.
func (w *writer) build(t trieOf, depth int, edits []edit) (*draft, error) {
	edits = slices.DeleteFunc(edits, func(e edit) bool { return len(e.value) == 0 })
	if len(edits) == 0 {
		return nil, nil
	}

	first, last := &edits[0], &edits[len(edits)-1]
	if len(edits) == 1 {
		d := w.draft(t.leaf, depth)
		d.nibbles = len(mpt.AppendNibbles(d.path[:0], first.key[:], depth, mpt.PathNibbles))
		d.bytes = copy(d.value[:], first.value)
		return d, w.changeStorage(d, first.slots)
	}

	d := w.draft(t.branch, depth)
	for n := depth; mpt.Nibble(&first.key, n) == mpt.Nibble(&last.key, n); n++ {
		d.path[d.nibbles] = mpt.Nibble(&first.key, n)
		d.nibbles++
	}

	for rest := edits; len(rest) > 0; {
		var nibble byte
		var group []edit
		var err error
		nibble, group, rest = below(rest, d.end())
		if d.drafts[nibble], err = w.build(t, d.end()+1, group); err != nil {
			return nil, err
		}
	}

	return d, w.sealChildren(d)
}

// collapse returns what is left of a branch that may have lost children: itself,
// its only child with a longer path, or nil.
func (w *writer) collapse(t trieOf, d *draft) (*draft, error) {
	children, last := d.count()
	if children > 1 {
		return d, w.sealChildren(d)
	}

	defer w.release(d)
	if children == 0 {
		return nil, nil
	}

	child := d.drafts[last]
	if child == nil {
		var err error
		if child, err = w.load(d.children[last], t, d.end()+1); err != nil {
			return nil, err
		}
	}

	path := append(append(append(make([]byte, 0, mpt.PathNibbles), d.path[:d.nibbles]...),
		byte(last)), child.path[:child.nibbles]...)
	child.begin, child.nibbles = d.begin, copy(child.path[:], path)
	return child, nil
}

// sealChildren writes those children of a draft that have to be. They keep their
// paths: d is a branch for certain.
func (w *writer) sealChildren(d *draft) (err error) {
	for i := range d.children {
		switch c := &d.children[i]; {
		case d.drafts[i] != nil && d.kind == accountLeaf:
			*c, err = w.sealRoot(d.drafts[i])
		case d.drafts[i] != nil:
			*c, err = w.seal(d.drafts[i])
		case c.at != 0:
			*c, err = w.keep(*c)
		}

		if err != nil {
			return err
		}

		d.drafts[i] = nil
	}

	return nil
}

// seal writes a draft and what below it is not written yet.
func (w *writer) seal(d *draft) (ref, error) {
	if err := w.sealChildren(d); err != nil {
		return ref{}, err
	}

	r := ref{oldest: [lists]uint32{noPlace, noPlace}, version: w.version}
	for i := range d.children {
		if d.children[i].at != 0 {
			r.reaches(&d.children[i])
		}
	}

	if r.hash = d.hash; r.hash == (mpt.Ref{}) {
		var err error
		if r.hash, err = w.refer(d); err != nil {
			return ref{}, err
		}
	}

	n := d.encode(w.encoded[:0], w.version)
	list := fast
	if d.moved {
		list = slow
	}

	if err := w.chunks.room(list, len(n)); err != nil {
		return ref{}, err
	}

	var place uint32
	r.at, place = w.chunks.append(list, d.kind, n)
	r.oldest[list] = min(r.oldest[list], place)
	w.chunks.byID[r.at.chunk()].live += int64(len(n))
	w.nodesNew.Add(1)
	if w.pins.keeps(n) {
		r.pin = w.pin(d, n, r.at)
	}

	if r.pin == 0 {
		w.unpinChildren(d)
	}

	w.release(d)
	return r, nil
}

// reaches takes a child's oldest places and version into account.
func (r *ref) reaches(child *ref) {
	for i := range lists {
		r.oldest[i] = min(r.oldest[i], child.oldest[i])
	}
	r.version = min(r.version, child.version)
}

// pin keeps a node in memory that leads to the pins of its children.
func (w *writer) pin(d *draft, n node, at pointer) pin {
	p := w.pins.put(n, at)
	if p == 0 {
		return 0
	}

	i := 0
	for nibble := range d.children {
		if d.children[nibble].at == 0 {
			continue
		}

		if child := d.children[nibble].pin; child != 0 {
			w.pins.link(p, i, link(child)|pinnedBit)
		}

		i++
	}

	return p
}

// unpinChildren gives up pins that no pin leads to.
func (w *writer) unpinChildren(d *draft) {
	for i := range d.children {
		if child := d.children[i].pin; child != 0 {
			w.pins.cut(w.version, child, -1)
		}
	}
}

// refer makes the hash of a draft whose children are sealed.
func (w *writer) refer(d *draft) (mpt.Ref, error) {
	path := d.path[:d.nibbles]
	switch d.kind {
	case accountLeaf:
		a, err := parseAccount(d.value[:d.bytes])
		if err != nil {
			return mpt.Ref{}, err
		}
		storage := w.hasher.Root(&d.children[0].hash)
		w.leaf = mpt.AppendAccount(w.leaf[:0], &a, &storage)
		return w.hasher.Leaf(path, w.leaf), nil
	case slotLeaf:
		w.leaf = mpt.AppendString(w.leaf[:0], d.value[:d.bytes])
		return w.hasher.Leaf(path, w.leaf), nil
	default:
		var hashes [16]mpt.Ref
		for i := range hashes {
			hashes[i] = d.children[i].hash
		}
		return w.hasher.PrefixedBranch(path, &hashes), nil
	}
}

// drop takes a whole subtrie out of the account of live bytes. It reads all of it:
// nothing else tells which chunks it lies in, so deleting an account costs a read
// for every node of its storage.
func (w *writer) drop(r ref) error {
	if r.at == 0 {
		return nil
	}

	d, err := w.loadAny(r)
	if err != nil {
		return err
	}

	for i := range d.children {
		if err := w.drop(d.children[i]); err != nil {
			return err
		}
	}

	w.release(d)
	return nil
}

// load decodes a node that is about to be replaced.
func (w *writer) load(r ref, t trieOf, depth int) (*draft, error) {
	d, err := w.loadAny(r)
	if err == nil && (d.begin != depth || d.kind != t.branch && d.kind != t.leaf) {
		err = fmt.Errorf("node at %#x: %w", uint64(r.at), errDepth)
	}
	return d, err
}

func (w *writer) loadAny(r ref) (*draft, error) {
	n, asked, err := w.nodes.read(r.at, w.buffer)
	w.reads.Add(1)
	w.readBytes.Add(asked)
	if err == nil && !n.intact() {
		err = errChecksum
	}

	if err != nil {
		return nil, fmt.Errorf("node at %#x: %w", uint64(r.at), err)
	}

	d := w.unused()
	if err := d.decode(n, w.pins.arena, r.pin); err != nil {
		return nil, fmt.Errorf("node at %#x: %w", uint64(r.at), err)
	}

	id := r.at.chunk()
	if int(id) >= len(w.chunks.byID) || w.chunks.byID[id] == nil {
		return nil, fmt.Errorf("node at %#x: %w", uint64(r.at), errPointer)
	}

	w.chunks.byID[id].live -= int64(len(n))
	if r.pin != 0 {
		w.pins.giveUp(w.version, r.pin)
	}

	return d, nil
}

// draft returns an empty draft.
func (w *writer) draft(k kind, begin int) *draft {
	d := w.unused()
	*d = draft{kind: k, begin: begin}
	return d
}

// unused returns a draft that holds anything.
func (w *writer) unused() *draft {
	if len(w.spare) == 0 {
		return &draft{}
	}
	d := w.spare[len(w.spare)-1]
	w.spare = w.spare[:len(w.spare)-1]
	return d
}

// release keeps a draft for reuse: as many as ever were open at once, the
// children of the branches on one path.
func (w *writer) release(d *draft) { w.spare = append(w.spare, d) }

// Compaction is part of every block: nodes older than a boundary move to the end
// of the slow list, so that the oldest chunks die whole and, once no kept version
// reaches them, are freed. A child's oldest places tell whether anything below it
// has to move.

// keep returns a subtrie that no edit changes, with what is too old moved.
func (w *writer) keep(r ref) (ref, error) {
	if r.at == 0 || r.oldest[fast] >= w.boundary[fast] && r.oldest[slow] >= w.boundary[slow] {
		return r, nil
	}

	d, err := w.loadAny(r)
	if err != nil {
		return ref{}, err
	}

	d.moved, d.hash = true, r.hash
	if d.hash == (mpt.Ref{}) {
		return ref{}, errHash
	}

	return w.seal(d)
}

// compaction is how eagerly old chunks are emptied.
type compaction struct {
	garbagePercent int // of the chunks that no kept version is still writing to
	pace           int // bytes of a list passed for each byte that the last block wrote
}

// boundary is the place in a list below which nodes are moved with the next block.
// limit is the sequence of the chunk that was being filled when the oldest kept
// version was written: beyond it nothing could be freed.
func (c compaction) boundary(
	f *chunkFile, list int, oldest, limit uint32, lastBlockBytes int64,
) uint32 {
	if oldest == noPlace {
		return 0
	}

	var bytes, live int64
	for _, chunk := range f.lists[list].chunks {
		if chunk.sequence < limit && f.place(chunk.sequence, f.chunkBytes-1) >= oldest {
			bytes += f.chunkBytes
			live += chunk.live
		}
	}

	if bytes == 0 || (bytes-live)*100 < bytes*int64(c.garbagePercent) {
		return 0
	}

	steps := max(1, lastBlockBytes*int64(c.pace)/placeBytes)
	return uint32(min(int64(oldest)+steps, int64(f.place(limit, 0))))
}
