package blockbased

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sort"

	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Drawer draws keys of a database from its tables, each key that is there with the same chance,
// however keys are spread and whatever was deleted or overwritten. Keys that are in memtables alone
// are not drawn. For one goroutine.
//
// A draw chooses a table by its number of entries, one of its data blocks, and an entry of that.
// Blocks of few entries are refused as often as they have fewer than the fullest one seen of the
// table. An entry that a Get does not return, because it was deleted or a newer one took its place,
// begins another draw, of any table.
type Drawer struct {
	r    *Resolver
	rng  *rand.Rand
	walk *Walker
	in   buffer

	ends    []uint64 // of the tables, if their entries are counted through
	fullest []int    // by table: entries of the fullest block so far
	entries [][]byte // user keys of a block, that of an entry which no Get returns empty
}

// maxDraws bounds the search for an entry that a Get returns.
const maxDraws = 100_000

// Drawer begins to draw.
func (r *Resolver) Drawer(rng *rand.Rand) *Drawer {
	d := &Drawer{r: r, rng: rng, fullest: make([]int, len(r.All))}
	d.walk, _ = r.Walk().(*Walker) // of a database that is not followed
	sum := uint64(0)
	for i, t := range r.All {
		entries := t.count("rocksdb.num.entries")
		if entries == 0 { // LevelDB does not count them
			entries = uint64(len(t.Data))
		}

		if len(t.Data) > 0 {
			sum += entries
			d.fullest[i] = int(entries) / len(t.Data)
		}

		d.ends = append(d.ends, sum)
	}

	return d
}

// Draw appends a key to dst.
func (d *Drawer) Draw(dst []byte) ([]byte, error) {
	if len(d.ends) == 0 || d.ends[len(d.ends)-1] == 0 {
		return dst, errors.New("the column family has no tables")
	}

	for range maxDraws {
		entry := d.rng.Uint64N(d.ends[len(d.ends)-1])
		at := sort.Search(len(d.ends), func(i int) bool { return d.ends[i] > entry })
		t := d.r.All[at]
		if err := d.read(t, d.rng.IntN(len(t.Data))); err != nil {
			return dst, err
		}

		n := len(d.entries)
		d.fullest[at] = max(d.fullest[at], n)
		if n == 0 || d.rng.IntN(d.fullest[at]) >= n {
			continue
		}

		key := d.entries[d.rng.IntN(n)]
		if len(key) == 0 {
			continue
		}

		is, err := d.newest(t, key)
		if err != nil {
			return dst, err
		}

		if is {
			return append(dst, key...), nil
		}
	}

	return dst, errors.New("the column family has hardly any values")
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
	var before []byte
	for rows.next() {
		n := len(rows.key) - 8
		if n < 0 {
			return t.Damaged(t.Data[block], "damaged key")
		}

		user := bytes.Clone(rows.key[:n])
		if older := bytes.Equal(user, before); older || kindOf(rows.key[n]) != lsmtail.Set {
			d.entries = append(d.entries, nil)
		} else {
			d.entries = append(d.entries, user)
		}

		before = user
	}

	d.in.key = rows.key
	return rows.err
}

// newest reports whether a Get of key ends in t: neither a memtable nor a newer table has a value
// of it, and it was not deleted.
func (d *Drawer) newest(t *table, key []byte) (bool, error) {
	_, found, err := d.walk.Get(key, false, d.walk.numbers[:0])
	return found && d.walk.t == t, err
}
