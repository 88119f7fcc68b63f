package changeset

import "slices"

// Tally counts what batches hold. The zero value is ready for use.
type Tally struct {
	First, Last int64 // versions with an end
	totals      Totals
	pending     Totals // of the version that is open
}

// Add counts a batch; a version counts when its last batch comes.
func (t *Tally) Add(b *Batch) {
	for _, c := range b.Changes {
		t.pending.reach(c.Store + 1)
		t.pending.Stores[c.Store].count(c)
	}
	t.pending.Changes += int64(len(b.Changes))
	if !b.Last {
		return
	}
	if t.First == 0 {
		t.First = b.Version
	}
	t.Last = b.Version
	t.pending.Versions = 1
	if b.Roots.Known() {
		t.pending.Roots = 1
	}
	t.totals.add(t.pending)
	clear(t.pending.Stores)
	t.pending = Totals{Stores: t.pending.Stores}
}

// Totals are the counts so far, of at least so many stores.
func (t *Tally) Totals(stores int) Totals {
	total := t.totals
	total.Stores = slices.Clone(total.Stores)
	total.reach(stores)
	return total
}

// count adds a change.
func (s *StoreTotals) count(c Change) {
	s.KeyBytes += int64(len(c.Key))
	if c.Delete {
		s.Deletes++
	} else {
		s.Sets++
		s.ValueBytes += int64(len(c.Value))
	}
}

// reach makes room for the counts of so many stores.
func (t *Totals) reach(stores int) {
	if missing := stores - len(t.Stores); missing > 0 {
		t.Stores = append(t.Stores, make([]StoreTotals, missing)...)
	}
}

func (t *Totals) add(more Totals) {
	t.Versions += more.Versions
	t.Changes += more.Changes
	t.Roots += more.Roots
	t.reach(len(more.Stores))
	for i, s := range more.Stores {
		t.Stores[i].Sets += s.Sets
		t.Stores[i].Deletes += s.Deletes
		t.Stores[i].KeyBytes += s.KeyBytes
		t.Stores[i].ValueBytes += s.ValueBytes
	}
}
