package changeset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
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
func Verify(s Source, told ProgressFunc) (Verdict, error) {
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

		return told.report(b)
	})

	v.First, v.Last, v.Totals, v.IsSortedNet = tally.First, tally.Last,
		tally.Totals(len(s.Info().Stores)), check.allSorted
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
		return fmt.Errorf("the set states versions %d to %d and holds %d to %d", stated.First,
			stated.Last, v.First, v.Last)
	}

	t := stated.Totals
	if t == nil {
		return nil
	}

	if t.Versions != v.Totals.Versions || t.Changes != v.Totals.Changes ||
		t.Roots != v.Totals.Roots || !slices.Equal(t.Stores, v.Totals.Stores) {
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
			return fmt.Errorf("key %x of store %d comes after key %x of store %d in a set that "+
				"says it is sorted-net", key, store, c.key, c.store)
		}
	}

	c.anything, c.store = true, store
	c.key = append(c.key[:0], key...)
	return nil
}

func (c *checker) end() { c.open = false }

// maxNamed bounds how many files a warning names.
const maxNamed = 20

// NotChecked warns of what the format of a set cannot show of its completeness.
func NotChecked(info Info) (warnings []engine.Warning) {
	for _, sentence := range info.NotChecked {
		warnings = append(warnings, engine.Warning{Code: "not_checked",
			Text: "not checked: " + sentence})
	}
	return warnings
}

// Missing warns of versions that a set does not have between its first and its last, where it
// states how many it has.
func Missing(info Info) []engine.Warning {
	if info.Totals == nil || info.Totals.Versions == 0 ||
		info.Last-info.First+1 == info.Totals.Versions {
		return nil
	}

	return []engine.Warning{{
		Code: "missing_versions",
		Text: fmt.Sprintf("%s missing between %d and %d: a replay commits each without "+
			"changes", unit.Plural(int(info.Last-info.First+1-info.Totals.Versions), "version"),
			info.First, info.Last),
		Remedy: "statelab changeset verify names the gaps",
	}}
}

// LeftOut warns of the files of a set's directory that are left out.
func LeftOut(info Info) []engine.Warning {
	n := len(info.Unknown)
	if n == 0 {
		return nil
	}

	named, more := info.Unknown, ""
	if n > maxNamed {
		named, more = named[:maxNamed], fmt.Sprintf(" and %d more", n-maxNamed)
	}

	remedy := "if they hold changes, rename them; "
	for _, f := range readable {
		if f.Format == info.Format {
			remedy += f.files
		}
	}

	return []engine.Warning{{
		Code: "unknown_files",
		Text: fmt.Sprintf("%s left out, since the format %s does not know such names: %s%s",
			unit.Plural(n, "file"), info.Format, strings.Join(named, ", "), more),
		Remedy: remedy,
	}}
}

// Facts are what the commands info and verify print, with --json too. Pointers are nil where only
// reading tells.
type Facts struct {
	Schema     string       `json:"schema"`
	Path       string       `json:"path"`
	Format     Format       `json:"format"`
	Order      string       `json:"order"`
	First      int64        `json:"first_version"` // 0: not known
	Last       int64        `json:"last_version"`
	Versions   *int64       `json:"versions,omitempty"`
	Changes    *int64       `json:"changes,omitempty"`
	Roots      *int64       `json:"versions_with_roots,omitempty"`
	RootRule   string       `json:"root_rule,omitempty"`
	Provenance string       `json:"provenance,omitempty"`
	Stores     []StoreFacts `json:"stores"`
	// left out: the format does not know their names
	Unknown    []string       `json:"unknown_files,omitempty"`
	NotChecked []string       `json:"not_checked,omitempty"`
	Damage     string         `json:"damage,omitempty"`
	Verified   *VerifiedFacts `json:"verified,omitempty"`
}

// StoreFacts are of a store.
type StoreFacts struct {
	Name   string       `json:"name"`
	Totals *StoreTotals `json:"totals,omitempty"`
}

// VerifiedFacts are what reading the whole set shows.
type VerifiedFacts struct {
	EmptyVersions   int64 `json:"empty_versions"`
	MissingVersions int64 `json:"missing_versions"`
	Gaps            []Gap `json:"gaps"`
	IsSortedNet     bool  `json:"is_sorted_net"`
}

// FactsOf are those of a set at path, without reading its changes.
func FactsOf(path string, info Info) Facts {
	s := Facts{
		Schema:     schema.ChangeSetFacts,
		Path:       path,
		Format:     info.Format,
		Order:      info.Order.String(),
		First:      info.First,
		Last:       info.Last,
		RootRule:   info.RootRule,
		Provenance: info.Provenance,
		Stores:     []StoreFacts{},
		Unknown:    info.Unknown,
		NotChecked: info.NotChecked,
	}

	for _, name := range info.Stores {
		s.Stores = append(s.Stores, StoreFacts{Name: name})
	}

	if info.Totals != nil {
		s.count(*info.Totals)
	}

	if info.Damage != nil {
		s.Damage = info.Damage.Error()
	}

	return s
}

func (s *Facts) count(t Totals) {
	s.Versions, s.Changes, s.Roots = &t.Versions, &t.Changes, &t.Roots
	for i := range t.Stores {
		s.Stores[i].Totals = &t.Stores[i]
	}
}

// With are the facts with what reading the whole set showed.
func (s Facts) With(v Verdict) Facts {
	s.First, s.Last = v.First, v.Last
	s.count(v.Totals)
	s.Verified = &VerifiedFacts{
		EmptyVersions:   v.Empty,
		MissingVersions: v.Missing,
		Gaps:            v.Gaps,
		IsSortedNet:     v.IsSortedNet,
	}

	return s
}

// Document says what the set holds.
func (s Facts) Document() *doc.Document {
	d := &doc.Document{Title: "A change set"}
	d.Answer("", s.Path+": "+s.sentence()+".")
	if s.Damage != "" {
		d.Warnings = []doc.Warning{{Text: "damaged: " + s.Damage}}
	}
	s.add(d)
	return d
}

// add adds the stores, and where the set is from.
func (s Facts) add(d *doc.Document) {
	type column = doc.Column[StoreFacts]
	count := func(name, unit string, of func(*StoreTotals) int64) column {
		return doc.Optional(name, unit, doc.Digits, func(store StoreFacts) *float64 {
			return doc.Via(store.Totals, func(t *StoreTotals) float64 { return float64(of(t)) })
		})
	}

	stores := doc.TableOf(s.Stores, nil,
		count("sets", "", func(t *StoreTotals) int64 { return t.Sets }),
		count("deletes", "", func(t *StoreTotals) int64 { return t.Deletes }),
		count("keys", "bytes", func(t *StoreTotals) int64 { return t.KeyBytes }),
		count("values", "bytes", func(t *StoreTotals) int64 { return t.ValueBytes }),
		doc.Words("store", func(store StoreFacts) string { return store.Name }))

	var texts []string
	if s.Roots != nil && *s.Roots > 0 {
		texts = append(texts,
			fmt.Sprintf("Expected roots (%s) of %s versions.", s.RootRule, unit.Count(*s.Roots)))
	}

	if s.Provenance != "" {
		texts = append(texts, s.Provenance)
	}

	d.Add("Stores", doc.Block{Table: stores, Texts: texts})
}

func (s Facts) sentence() string {
	text := "versions"
	if s.Changes != nil {
		text = unit.Count(*s.Changes) + " changes in " + unit.Count(*s.Versions) + " versions"
	}

	switch {
	case s.First > 0 && s.Last > 0:
		text += fmt.Sprintf(" (%d to %d)", s.First, s.Last)
	case s.First > 0:
		text += fmt.Sprintf(" from %d", s.First)
	}

	text += fmt.Sprintf(", %s, order %s, format %s", unit.Plural(len(s.Stores), "store"), s.Order,
		s.Format)
	if s.Changes == nil {
		text += "; verify and import count them"
	}

	return text
}

// VerdictDocument says what the set holds that was read to its end, and what was found. The
// damage itself is the error of the verb.
func (s Facts) VerdictDocument() *doc.Document {
	d := &doc.Document{Title: "A change set, verified"}
	verdict := "Sound: every check of this format passed."
	if s.Verified.MissingVersions > 0 {
		verdict = fmt.Sprintf("Sound, but with %s missing: every check of this format passed.",
			unit.Plural(int(s.Verified.MissingVersions), "version"))
	}
	if s.Damage != "" {
		verdict = "DAMAGED: the counts below end where the damage begins."
	}

	d.Answer("", verdict, s.Path+": "+s.sentence()+".")
	s.add(d)

	v := s.Verified
	text := fmt.Sprintf("%s empty versions, %s missing", unit.Count(v.EmptyVersions),
		unit.Count(v.MissingVersions))
	if len(v.Gaps) > 0 {
		text += fmt.Sprintf(" (the first gap: %d to %d)", v.Gaps[0].From, v.Gaps[0].To)
	}

	sorted := "; not all versions are sorted."
	if v.IsSortedNet {
		sorted = "; every version is sorted and net."
	}

	d.Add("Versions", doc.Block{Texts: []string{text + sorted}})
	return d
}

// WithoutBase is in the provenance of a set that begins on a state which it does not hold, before
// the first version that it has.
const WithoutBase = "without the state before version"

// Inherited are the warnings that a replay of a set inherits.
func Inherited(info Info) []engine.Warning {
	warnings := LeftOut(info)
	if _, base, without := strings.Cut(info.Provenance, WithoutBase); without {
		warnings = append(warnings, engine.Warning{Code: "no_base_state",
			Text: "the set lacks the state before version" + base + ": equal roots are equal " +
				"among these trees, and not the chain's"})
	}
	return warnings
}
