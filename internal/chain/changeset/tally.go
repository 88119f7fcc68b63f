package changeset

// Tally counts what batches hold. The zero value is ready for use.
type Tally struct {
	First, Last int64 // versions with an end
	totals      Totals
	pending     Totals // of the version that is open
}

// Add counts a batch; a version counts when its last batch comes.
func (t *Tally) Add(b *Batch) {
	for _, c := range b.Changes {
		if c.Store >= len(t.pending.Stores) {
			t.pending.Stores = append(t.pending.Stores, make([]StoreTotals, c.Store+1-len(t.pending.Stores))...)
		}
		s := &t.pending.Stores[c.Store]
		s.KeyBytes += int64(len(c.Key))
		if c.Delete {
			s.Deletes++
		} else {
			s.Sets++
			s.ValueBytes += int64(len(c.Value))
		}
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
	total.Stores = append([]StoreTotals(nil), total.Stores...)
	if missing := stores - len(total.Stores); missing > 0 {
		total.Stores = append(total.Stores, make([]StoreTotals, missing)...)
	}
	return total
}

func (t *Totals) add(more Totals) {
	t.Versions += more.Versions
	t.Changes += more.Changes
	t.Roots += more.Roots
	if missing := len(more.Stores) - len(t.Stores); missing > 0 {
		t.Stores = append(t.Stores, make([]StoreTotals, missing)...)
	}
	for i, s := range more.Stores {
		t.Stores[i].Sets += s.Sets
		t.Stores[i].Deletes += s.Deletes
		t.Stores[i].KeyBytes += s.KeyBytes
		t.Stores[i].ValueBytes += s.ValueBytes
	}
}
