package changeset

import (
	"bytes"
	"fmt"
	"slices"
)

// maxGaps bounds the gaps that a verdict lists; all are counted.
const maxGaps = 20

// Gap is a run of versions that a set does not hold.
type Gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Verdict is what reading all of a set showed.
type Verdict struct {
	First, Last int64
	Totals      Totals
	Empty       int64 // versions without a change
	Gaps        []Gap // the first maxGaps
	Missing     int64 // versions in all gaps
	IsSortedNet bool  // every version is, whatever the set says of itself
}

// Verify reads s to its end and checks what its reader does not: that versions
// ascend, that the order is the one promised, that counts and roots are those
// that the set states. A damaged set gives the verdict up to the damage.
func Verify(s Source, told Told) (Verdict, error) {
	v := Verdict{}
	check := newChecker(s.Info().Order)
	tally := Tally{}
	anything := false
	err := Each(s, &Batch{}, func(b *Batch) error {
		if !check.open {
			if err := check.begin(b.Version); err != nil {
				return err
			}
			v.gap(tally.Last, b.Version)
			anything = false
		} else if b.Version != check.version {
			return fmt.Errorf("version %d before version %d ends", b.Version, check.version)
		}
		for _, c := range b.Changes {
			if err := check.change(c.Store, c.Key); err != nil {
				return fmt.Errorf("version %d: %w", b.Version, err)
			}
		}
		anything = anything || len(b.Changes) > 0
		tally.Add(b)
		if b.Last {
			check.end()
			if !anything {
				v.Empty++
			}
		}
		return told.tell(b)
	})
	v.First, v.Last, v.Totals, v.IsSortedNet = tally.First, tally.Last, tally.Totals(len(s.Info().Stores)), check.allSorted
	if err != nil {
		return v, err
	}
	return v, v.hold(s.Info())
}

func (v *Verdict) gap(last, next int64) {
	if last == 0 || next == last+1 {
		return
	}
	v.Missing += next - last - 1
	if len(v.Gaps) < maxGaps {
		v.Gaps = append(v.Gaps, Gap{last + 1, next - 1})
	}
}

// hold compares what was read with what the set states of itself.
func (v *Verdict) hold(stated Info) error {
	if stated.First != 0 && (stated.First != v.First || stated.Last != 0 && stated.Last != v.Last) {
		return fmt.Errorf("the set states versions %d to %d and holds %d to %d", stated.First, stated.Last, v.First, v.Last)
	}
	t := stated.Totals
	if t == nil {
		return nil
	}
	if t.Versions != v.Totals.Versions || t.Changes != v.Totals.Changes || t.Roots != v.Totals.Roots || !slices.Equal(t.Stores, v.Totals.Stores) {
		return fmt.Errorf("the set states %+v and holds %+v", *t, v.Totals)
	}
	return nil
}

// checker follows a set and finds what no set may hold: versions that do not
// ascend, changes out of the order that was promised.
type checker struct {
	order   Order
	version int64 // the one open, or the last
	open    bool

	// What decides whether the version so far is sorted and net.
	store    int
	key      []byte
	anything bool
	sorted   bool

	allSorted bool // every version so far
}

func newChecker(order Order) *checker { return &checker{order: order, allSorted: true} }

func (c *checker) begin(version int64) error {
	switch {
	case c.open:
		return fmt.Errorf("version %d begins before version %d ends", version, c.version)
	case version <= 0:
		return fmt.Errorf("version %d: they count from 1", version)
	case version <= c.version:
		return fmt.Errorf("version %d after version %d: versions must ascend", version, c.version)
	}
	c.version, c.open, c.anything, c.sorted = version, true, false, true
	return nil
}

func (c *checker) change(store int, key []byte) error {
	if !c.sorted {
		return nil
	}
	if c.anything && (store < c.store || store == c.store && bytes.Compare(key, c.key) <= 0) {
		c.sorted, c.allSorted = false, false
		if c.order == OrderSortedNet {
			return fmt.Errorf("key %x of store %d comes after key %x of store %d in a set that says it is sorted-net", key, store, c.key, c.store)
		}
	}
	c.anything, c.store = true, store
	c.key = append(c.key[:0], key...)
	return nil
}

func (c *checker) end() { c.open = false }
