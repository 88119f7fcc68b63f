// Package pagefile reads the pages of a database that its engine maps into memory, of which kind
// each is and to which table it belongs, beside a process that writes to it: nothing is locked or
// changed, and every number that is read is checked.
//
// A page does not name its table. A page of a tree is looked up by its own first key in the trees
// of the tables: it belongs to the one whose branches lead to it. What no key leads to (a large
// value, the tree of a key with many values) is found by the page that refers to it, if somebody
// has read that one here.
//
// Goals: a bounded number of reads per page. Non-goals: values; recovery.
package pagefile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

// Kind is what a page holds.
type Kind string

// Kinds of pages.
const (
	Meta     Kind = "meta"
	Branch   Kind = "branch"
	Leaf     Kind = "leaf"
	Overflow Kind = "overflow" // of a value that is too large for a leaf
	Unknown  Kind = "unknown"  // of no tree: it is free, or was never used
)

// Flags, and where all layouts have what is in a header and in a node.
const (
	branchFlag, leafFlag, largeFlag, metaFlag, fixedFlag, partFlag = 1, 2, 4, 8, 0x20, 0x40
	kindFlags                                                      = branchFlag | leafFlag |
		largeFlag | metaFlag

	pageFlagsAt, lowerAt, pagesAt = 10, 12, 12

	nodeFlagsAt, keyBytesAt, nodeHead   = 4, 6, 8
	bigValue, treeRecord, severalValues = 1, 2, 4

	reverseKeys, numberKeys = 2, 8 // of a tree
)

// Limits of what a damaged file can make this package do.
const (
	deepest     = 32
	lookBack    = 1 << 14 // pages in front of one inside a large value
	maxTables   = 1 << 12
	maxKept     = 1 << 16 // branches
	minPage     = 256
	largestPage = 64 << 10
)

// Tree is a table, the unnamed main one, which holds the others, or the list of free pages.
type Tree struct {
	Name  string
	root  uint64
	flags uint16
	depth int
	keys  int // length of all keys in its root; 0: they differ
	found int // pages
}

// Names of the trees that have none.
const (
	Main     = "(main)"
	FreeList = "(free list)"
	// MetaTable stands for the pages with the roots of all.
	MetaTable = "(head of the file)"
)

// File is a database's file. It is for one goroutine.
type File struct {
	file   io.ReaderAt
	name   string
	close  func() error
	layout subject.PageFile
	size   int64
	trees  []*Tree

	transaction uint64
	read        map[uint64][]byte // branches that were read
	from        map[uint64]uint64 // page -> the leaf or nested branch that refers to it
	Reads       int               // pages that were read to find tables
}

// Open opens the file for reading, and leaves its pages in the page cache as they are. It keeps the
// descriptor until Close.
func Open(path string, layout subject.PageFile) (*File, error) {
	file, err := openBeside(path)
	if err != nil {
		return nil, err
	}

	f, err := New(file, path, layout)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	f.close = file.Close
	return f, nil
}

// New reads a file that is open, and stays the caller's to close. name is for errors.
func New(file io.ReaderAt, name string, layout subject.PageFile) (*File, error) {
	f := &File{
		file:   file,
		name:   name,
		close:  func() error { return nil },
		layout: layout,
		from:   map[uint64]uint64{},
	}
	return f, f.Renew()
}

// Close closes the file, if Open opened it.
func (f *File) Close() error { return f.close() }

// PageBytes is the size of a page.
func (f *File) PageBytes() int64 { return f.size }

// Tables are those that have a name.
func (f *File) Tables() (all []engine.Table) {
	for _, t := range f.trees[2:] {
		all = append(all, engine.Table{Name: t.Name})
	}
	return all
}

// Renew reads the newest state, if it is another one: its trees and their roots.
func (f *File) Renew() error {
	const head = 256
	var newest []byte
	transaction := uint64(0)
	at := int64(0)
	for range f.layout.MetaPages {
		meta := make([]byte, head)
		if _, err := f.file.ReadAt(meta, at); err != nil {
			return fmt.Errorf("read the head of %s: %w", f.name, err)
		}

		if f.size == 0 {
			f.size = int64(binary.LittleEndian.Uint32(meta[f.layout.TreesAt+f.layout.PageBytesAt:]))
			if f.size < minPage || f.size > largestPage || f.size&(f.size-1) != 0 {
				return engine.Fail(engine.CodeDamaged, "%s says that its pages have %d bytes",
					f.name, f.size)
			}
		}

		if t := binary.LittleEndian.Uint64(meta[f.layout.TransactionAt:]); newest == nil ||
			t > transaction {
			newest, transaction = meta, t
		}

		at += f.size
	}

	if f.read != nil && transaction == f.transaction {
		return nil
	}

	f.read, f.transaction = map[uint64][]byte{}, transaction
	record := func(i int) []byte { return newest[f.layout.TreesAt+i*subject.TreeRecordBytes:] }
	f.trees = []*Tree{f.tree(FreeList, record(0)), f.tree(Main, record(1))}
	return f.named(f.trees[1].root, 0)
}

func (f *File) tree(name string, record []byte) *Tree {
	l := f.layout
	t := &Tree{
		Name:  name,
		root:  number(record[l.RootAt:], l.NumberBytes),
		flags: binary.LittleEndian.Uint16(record[l.FlagsAt:]),
		depth: int(binary.LittleEndian.Uint16(record[l.DepthAt:])),
	}

	if name == FreeList {
		t.flags |= numberKeys // its flags are those of the file
	}

	if page := f.page(t.root); t.depth > 0 && page != nil {
		for i := range page.nodes() {
			key, first := page.key(i), page.kind == Branch && i == 0
			switch {
			case first: // has no key
			case t.keys == 0:
				t.keys = len(key)
			case len(key) != t.keys:
				t.keys = -1
			}
		}
	}

	return t
}

// named collects the tables whose records are in the main tree.
func (f *File) named(root uint64, depth int) error {
	page := f.page(root)
	if page == nil || depth == deepest {
		return nil // an empty main tree
	}

	for i := range page.nodes() {
		node := page.node(i)
		switch {
		case len(f.trees) > maxTables:
			return engine.Fail(engine.CodeDamaged, "%s has more than %d tables", f.name,
				maxTables)
		case node == nil:
		case page.kind == Branch:
			if err := f.named(f.child(node), depth+1); err != nil {
				return err
			}
		case node[nodeFlagsAt]&(treeRecord|severalValues) == treeRecord:
			if value := page.value(i); len(value) >= subject.TreeRecordBytes {
				f.trees = append(f.trees, f.tree(string(page.key(i)), value))
			}
		default:
			return nil // keys of a user's: this is a table itself, with perhaps millions of them
		}
	}

	return nil
}

// page is one that was read.
type page struct {
	*File
	content []byte
	kind    Kind
}

// page reads a page that begins there and belongs to a tree; nil: there is none.
func (f *File) page(number uint64) *page {
	content, cached := f.read[number]
	if !cached {
		content = make([]byte, f.size)
		if n, err := f.file.ReadAt(content, int64(number)*f.size); err != nil || n < len(content) {
			return nil
		}
		f.Reads++
	}

	kind := f.kindOf(content, number)
	if kind != Branch && kind != Leaf {
		return nil
	}

	if kind == Branch && !cached {
		if len(f.read) == maxKept {
			clear(f.read)
		}
		f.read[number] = content
	}

	return &page{f, content, kind}
}

// kindOf is the kind of a page that says itself that it begins there.
func (f *File) kindOf(head []byte, at uint64) Kind {
	flags := binary.LittleEndian.Uint16(head[pageFlagsAt:])
	own := number(head[f.layout.NumberAt:], f.layout.NumberBytes) == at
	switch {
	case at < uint64(f.layout.MetaPages):
		return Meta
	case !own, flags&partFlag != 0:
	case flags&kindFlags == branchFlag:
		return Branch
	case flags&kindFlags == leafFlag:
		return Leaf
	case flags&kindFlags == largeFlag:
		return Overflow
	}

	return Unknown
}

// KindAt is the kind of a page, and the number of the page where it begins, which is another one
// for the rest of a large value.
func (f *File) KindAt(at uint64) (kind Kind, begins uint64) {
	head := make([]byte, nodeHead*3)
	for back := uint64(0); back <= min(at, lookBack); back++ {
		begins = at - back
		if _, err := f.file.ReadAt(head, int64(begins)*f.size); err != nil {
			return Unknown, at
		}

		kind := f.kindOf(head, begins)
		switch {
		case kind == Overflow && uint64(binary.LittleEndian.Uint32(head[pagesAt:])) > back,
			kind != Unknown && back == 0:
			return kind, begins
		case kind != Unknown:
			return Unknown, at // what lies in front ends before it
		}
	}

	return Unknown, at
}

// Refer notes which pages a page refers to outside the order of keys.
func (f *File) Refer(at uint64) {
	p := f.page(at)
	if p == nil {
		return
	}

	for i := range p.nodes() {
		node, value := p.node(i), []byte(nil)
		if node == nil {
			continue
		}

		if p.kind == Leaf {
			value = p.value(i)
		}

		switch flags := node[nodeFlagsAt]; {
		case p.kind == Branch:
			f.from[f.child(node)] = at
		case flags&treeRecord != 0 && len(value) >= subject.TreeRecordBytes:
			f.from[number(value[f.layout.RootAt:], f.layout.NumberBytes)] = at
		case flags&bigValue != 0 && len(value) >= f.layout.NumberBytes:
			f.from[number(value, f.layout.NumberBytes)] = at
		}
	}
}

// Table is the name of the table that a page belongs to, where begins is what KindAt says. "" means
// that no tree leads to it.
func (f *File) Table(kind Kind, begins uint64) string {
	if kind == Meta {
		return MetaTable
	}

	for range deepest {
		if kind == Branch || kind == Leaf {
			if t := f.find(begins); t != nil {
				t.found++
				return t.Name
			}
		}

		parent, known := f.from[begins]
		if !known {
			return ""
		}

		kind, begins = f.KindAt(parent)
	}

	return ""
}

// find looks for the tree with a page: first in those whose keys have the same length, and which
// had most pages before.
func (f *File) find(at uint64) *Tree {
	p := f.page(at)
	if p == nil || p.nodes() == 0 {
		return nil
	}

	key := p.key(0)
	if p.kind == Branch && p.nodes() > 1 {
		key = p.key(1) // the first node of a branch has none
	}

	fits := func(t *Tree) int {
		if t.keys == len(key) {
			return 0
		}
		return 1
	}

	order := slices.Clone(f.trees)
	slices.SortStableFunc(order, func(a, b *Tree) int {
		return cmp.Or(fits(a)-fits(b), b.found-a.found)
	})
	for _, t := range order {
		if t.depth > 0 && f.leads(t, key, at) {
			return t
		}
	}

	return nil
}

// leads reports whether the way to a key in a tree leads over a page.
func (f *File) leads(t *Tree, key []byte, to uint64) bool {
	at := t.root
	for level := 0; level < min(t.depth, deepest); level++ {
		if at == to {
			return true
		}

		if level == t.depth-1 {
			return false // it is a leaf, and another one
		}

		p := f.page(at)
		if p == nil || p.kind != Branch {
			return false
		}

		node := p.toward(t, key)
		if node == nil {
			return false
		}

		at = f.child(node)
	}

	return false
}

// compare orders keys as the tree does.
func (t *Tree) compare(a, b []byte) int {
	switch {
	case t.flags&numberKeys != 0 && len(a) == len(b) && (len(a) == 4 || len(a) == 8):
		return cmp.Compare(number(a, len(a)), number(b, len(b)))
	case t.flags&reverseKeys != 0:
		a, b = slices.Clone(a), slices.Clone(b)
		slices.Reverse(a)
		slices.Reverse(b)
	}

	return bytes.Compare(a, b)
}

// nodes is how many a page has.
func (p *page) nodes() int {
	l := p.layout
	flags := binary.LittleEndian.Uint16(p.content[pageFlagsAt:])
	n := (int(binary.LittleEndian.Uint16(p.content[lowerAt:])) - l.PointersFrom) / 2
	if flags&fixedFlag != 0 {
		return 0 // values of one key, without nodes
	}
	return max(0, min(n, (len(p.content)-l.PointersAt)/2))
}

// node is one from its head on; nil if its place is outside the page.
func (p *page) node(i int) []byte {
	at := int(binary.LittleEndian.Uint16(p.content[p.layout.PointersAt+2*i:])) + p.layout.NodesFrom
	if at+nodeHead > len(p.content) {
		return nil
	}

	node := p.content[at:]
	if nodeHead+int(binary.LittleEndian.Uint16(node[keyBytesAt:])) > len(node) {
		return nil
	}

	return node
}

func (p *page) key(i int) []byte {
	node := p.node(i)
	if node == nil {
		return nil
	}
	return node[nodeHead : nodeHead+int(binary.LittleEndian.Uint16(node[keyBytesAt:]))]
}

// value is what lies behind a leaf's key.
func (p *page) value(i int) []byte {
	node := p.node(i)
	if node == nil {
		return nil
	}
	return node[nodeHead+int(binary.LittleEndian.Uint16(node[keyBytesAt:])):]
}

func (f *File) child(node []byte) uint64 { return number(node, f.layout.ChildBytes) }

func number(at []byte, bytes int) uint64 {
	var wide [8]byte
	copy(wide[:], at[:min(bytes, len(at))])
	return binary.LittleEndian.Uint64(wide[:])
}
