package blockbased

import (
	"cmp"
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
)

// FilterUse is which filters the tables of a column family have, and whether Gets consult them.
type FilterUse struct {
	Family   string
	Policy   string // the filter policy of the options; "": there is none, so no Get consults any
	Tables   int    // with keys
	Filtered int    // tables with filters
	// Lacking are the tables without filters that Gets pass on their way to others: those of the
	// deepest level with tables are not among them.
	Lacking    int
	BitsPerKey float64 // of the filters; 0: not known
}

// ReadFilterUse tells it of the column families of the RocksDB database in dir of whose filter
// policy its newest OPTIONS file tells.
func ReadFilterUse(dir string) (all []FilterUse, err error) {
	families, err := ReadTableProperties(dir)
	if err != nil {
		return nil, err
	}

	for _, f := range families {
		own, _, _, err := readOptions(dir, cmp.Or(f.Name, defaultFamily), dir)
		if err != nil {
			return nil, err
		}

		if own["filter_policy"] == "" {
			continue
		}

		reading, err := own.Reading()
		if err != nil {
			return nil, err
		}

		use := f.filterUse()
		use.Family = unit.Printable(cmp.Or(f.Name, defaultFamily))
		if reading.Filters {
			use.Policy = own["filter_policy"]
		}

		all = append(all, use)
	}

	return all, nil
}

// filterUse counts the tables of a family that have filters.
func (f *WrittenFamily) filterUse() (use FilterUse) {
	deepest := 0
	for _, t := range f.Tables {
		deepest = max(deepest, t.Level)
	}

	var bytes, keys int64
	for _, t := range f.Tables {
		switch {
		case t.Keys == 0:
			continue // range deletions alone
		case t.FilterBytes > 0:
			use.Filtered, bytes, keys = use.Filtered+1, bytes+t.FilterBytes, keys+t.FilterKeys
		case t.Level < deepest && t.OldFilterBytes == 0: // who asks old ones, is said elsewhere
			use.Lacking++
		}

		use.Tables++
	}

	if keys > 0 {
		use.BitsPerKey = 8 * float64(bytes) / float64(keys)
	}

	return use
}

// ConsultFilters lets Gets consult the filters of tables although the options name no filter
// policy, or not any more. It changes nothing in families with a policy. No Walker may be in use,
// and blocks have other numbers then.
func (m *Mix) ConsultFilters(consult bool) error {
	for _, r := range m.members {
		if err := r.consultFilters(consult); err != nil {
			return err
		}
	}

	*m = *NewMix(m.members...)
	return nil
}

func (r *Resolver) consultFilters(consult bool) error {
	if r.reading.Filters == consult || r.reading.Filters && !r.noPolicy {
		return nil
	}

	r.reading.Filters, r.noPolicy = consult, true
	for _, t := range r.All {
		t.filters = filters{}
		if err := t.reopenFilters(&r.reading); err != nil {
			return fmt.Errorf("table %06d: %w", t.File, err)
		}
		t.number()
	}

	return r.numberAll()
}

// reopenFilters reads the filters of a table that is open, if they are consulted.
func (t *table) reopenFilters(r *Reading) error {
	metaindex, err := t.readFooterAgain()
	if err != nil {
		return err
	}

	meta, err := t.readMetaindex(metaindex)
	if err != nil {
		return err
	}

	if err := t.readFilters(meta, r); err != nil {
		return err
	}

	t.prepare(r)
	return nil
}

// readFooterAgain is readFooter of an open table, whose index can lie where the metaindex says.
func (t *table) readFooterAgain() (metaindex handle, err error) {
	root := t.Root
	metaindex, err = t.readFooter()
	t.Root = root
	return metaindex, err
}
