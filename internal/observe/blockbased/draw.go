package blockbased

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sort"

	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Drawer draws keys of a database, each key that is there with the same chance, however keys are
// spread and whatever was deleted or overwritten. For one goroutine.
//
// A draw chooses a table by its number of entries, one of its data blocks, and an entry of that.
// Blocks of few entries are refused as often as they have fewer than the fullest one seen of the
// table; some are read when the table is first chosen. An entry begins another draw, of any table,
// unless a Get finds the key and the entry is the newest one of it: of the entries of a key, merge
// operands included, that is one. What the logs hold is drawn from like a table: there the entry of
// a key that no table has stands for it.
//
// Tables of LevelDB do not tell how many entries they have: of these each data block is as likely,
// and the fullest one is that of all tables.
type Drawer struct {
	r    *Resolver
	rng  *rand.Rand
	walk *Walker
	in   buffer

	ends    []uint64     // of the tables and the logs, if their entries are counted through
	tables  []drawnTable // as in r.All
	logged  []string     // keys of the logs
	fullest *int         // entries of the fullest block of tables that do not count theirs
	entries []drawnEntry // of a block
}

// drawnTable is what is known of a table.
type drawnTable struct {
	fullest *int   // entries of the fullest block so far
	ranges  uint64 // entries that are deletions of ranges, and in no data block
	entries uint64 // with these; 0: the table does not tell
	learnt  bool   // some blocks were read to learn how full they are
}

// drawnEntry is an entry of a block.
type drawnEntry struct {
	key    []byte // as users know it
	seqNum uint64
}

const (
	maxDraws     = 100_000 // bounds the search for an entry that a Get returns
	learntBlocks = 32      // of a table
)

// Drawer begins to draw.
func (r *Resolver) Drawer(rng *rand.Rand) *Drawer {
	d := &Drawer{r: r, rng: rng, fullest: new(int)}
	d.walk, _ = r.Walk().(*Walker) // of a database that is not followed
	sum := uint64(0)
	for _, t := range r.All {
		of := drawnTable{fullest: d.fullest}
		weight := uint64(len(t.Data))
		if counted := t.count("rocksdb.num.entries"); counted > 0 && weight > 0 {
			of.fullest, weight = new(int), counted
			of.entries, of.ranges = counted, t.count("rocksdb.num.range-deletions")
		}

		sum += weight
		d.ends, d.tables = append(d.ends, sum), append(d.tables, of)
	}

	if r.unflushed != nil {
		d.logged = r.unflushed.Keys()
	}

	d.ends = append(d.ends, sum+uint64(len(d.logged)))
	return d
}

// Draw appends a key to dst.
func (d *Drawer) Draw(dst []byte) ([]byte, error) {
	all := d.ends[len(d.tables)]
	if all == 0 {
		return dst, errors.New("the column family has no keys")
	}

	for range maxDraws {
		entry := d.rng.Uint64N(all)
		at := sort.Search(len(d.ends), func(i int) bool { return d.ends[i] > entry })
		draw := d.drawFrom
		if at == len(d.tables) {
			draw = d.drawLogged
		}

		key, err := draw(at)
		if err != nil {
			return dst, err
		}

		if key != nil {
			return append(dst, key...), nil
		}
	}

	return dst, errors.New("the column family has hardly any values")
}

// drawFrom draws an entry of a table, and returns its key if the entry stands for it.
func (d *Drawer) drawFrom(at int) ([]byte, error) {
	t, of := d.r.All[at], &d.tables[at]
	if !of.learnt {
		if err := d.learn(t, of); err != nil {
			return nil, err
		}
	}

	if of.ranges > 0 && d.rng.Uint64N(of.entries) < of.ranges {
		return nil, nil
	}

	for {
		if err := d.read(t, d.rng.IntN(len(t.Data))); err != nil {
			return nil, err
		}

		n := len(d.entries)
		*of.fullest = max(*of.fullest, n)
		switch refused := n == 0 || d.rng.IntN(*of.fullest) >= n; {
		case refused && of.entries == 0:
			return nil, nil // the table was chosen by its blocks
		case refused:
			continue // the table was chosen by its entries: it is one of them
		}

		e := d.entries[d.rng.IntN(n)]
		is, err := d.stands(t, e)
		if !is || err != nil {
			return nil, err
		}

		return e.key, nil
	}
}

// drawLogged draws a key of the logs, and returns it if it is there and no table has an entry of
// it.
func (d *Drawer) drawLogged(int) ([]byte, error) {
	key := []byte(d.logged[d.rng.IntN(len(d.logged))])
	w := d.walk
	w.newest = levelEntry{}
	if err := d.getBelowMemory(key); err != nil || w.first.in != nil ||
		w.newest.kind != lsmtail.None {
		return nil, err
	}

	_, found, err := w.Get(key, false, w.numbers[:0])
	if !found || err != nil {
		return nil, err
	}

	return key, nil
}

// learn reads some blocks of a table, to know how full they are.
func (d *Drawer) learn(t *table, of *drawnTable) error {
	n := min(len(t.Data), learntBlocks)
	for i := range n {
		if err := d.read(t, i*len(t.Data)/n); err != nil {
			return err
		}
		*of.fullest = max(*of.fullest, len(d.entries))
	}

	of.learnt = true
	if n == 0 || *of.fullest == 0 {
		return t.Damaged(t.Root, "data blocks without entries")
	}

	return nil
}

// read lists the entries of a data block.
func (d *Drawer) read(t *table, block int) error {
	content, err := t.decode(t.Data[block], &d.in)
	if err != nil {
		return err
	}

	rows, err := newRows(content, false, d.in.key)
	if err != nil {
		return err
	}

	d.entries = d.entries[:0]
	for rows.next() {
		n := len(rows.key) - 8
		if n < 0 {
			return t.Damaged(t.Data[block], "damaged key")
		}

		d.entries = append(d.entries, drawnEntry{bytes.Clone(rows.key[:n]),
			le64(rows.key[n:]) >> 8})
	}

	d.in.key = rows.key
	return rows.err
}

// stands reports whether a Get finds the key of an entry of t, and the entry is the newest one of
// it in the tables.
func (d *Drawer) stands(t *table, e drawnEntry) (bool, error) {
	w := d.walk
	w.newest = levelEntry{}
	_, found, err := w.Get(e.key, false, w.numbers[:0])
	if !found || err != nil {
		return false, err
	}

	if w.t == nil { // it is in memory, and an older one in the tables stands for it
		if err := d.getBelowMemory(e.key); err != nil {
			return false, err
		}
	}

	if d.r.reading.Level {
		return w.newest.seqNum == e.seqNum, nil
	}

	return w.first.in == t && w.first.seqNum == e.seqNum, nil
}

// getBelowMemory has the walker look for a key in the tables alone.
func (d *Drawer) getBelowMemory(key []byte) error {
	w := d.walk
	memory := w.memory
	w.memory = new(lookuppath.Unflushed)
	_, _, err := w.Get(key, false, w.numbers[:0])
	w.memory = memory
	return err
}
