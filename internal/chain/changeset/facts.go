package changeset

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// mostNamed bounds how many files a warning names.
const mostNamed = 20

// LeftOut warns of the files of a set's directory that are left out.
func LeftOut(info Info) []engine.Warning {
	n := len(info.Unknown)
	if n == 0 {
		return nil
	}
	named, more := info.Unknown, ""
	if n > mostNamed {
		named, more = named[:mostNamed], fmt.Sprintf(" and %d more", n-mostNamed)
	}
	return []engine.Warning{{
		Code:   "unknown_files",
		Text:   fmt.Sprintf("%s left out, since the format %s does not know such names: %s%s", unit.Plural(n, "file"), info.Format, strings.Join(named, ", "), more),
		Remedy: "if they hold changes, rename them; " + fileNames[info.Format],
	}}
}

// fileNames are those of the formats that are directories.
var fileNames = map[Format]string{
	FormatIAVLBench: "a version is in a file such as 000000017.delimpb",
	FormatCronos:    "the files of a store are STORE/block-NUMBER, also with .zz, .snappy or .sz behind",
	FormatNodes:     "blocks are in files such as 00000001-00000500.pb.gz or 00000005.pb.gz",
	FormatDiffs:     "a block is in a file such as 17.json, 0x11.json or block-17.jsonl, also with .gz behind",
}

// Facts are what the commands info and verify print, with --json too. Pointers are nil where only
// reading tells.
type Facts struct {
	Schema     string         `json:"schema"`
	Path       string         `json:"path"`
	Format     Format         `json:"format"`
	Order      string         `json:"order"`
	First      int64          `json:"first_version"` // 0: not known
	Last       int64          `json:"last_version"`
	Versions   *int64         `json:"versions,omitempty"`
	Changes    *int64         `json:"changes,omitempty"`
	Roots      *int64         `json:"versions_with_roots,omitempty"`
	RootRule   string         `json:"root_rule,omitempty"`
	Provenance string         `json:"provenance,omitempty"`
	Stores     []StoreFacts   `json:"stores"`
	Unknown    []string       `json:"unknown_files,omitempty"` // left out: the format does not know their names
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
	s := Facts{Schema: "statelab.changeset_info/1", Path: path, Format: info.Format, Order: info.Order.String(), First: info.First, Last: info.Last,
		RootRule: info.RootRule, Provenance: info.Provenance, Stores: []StoreFacts{}, Unknown: info.Unknown}
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
	s.Verified = &VerifiedFacts{EmptyVersions: v.Empty, MissingVersions: v.Missing, Gaps: v.Gaps, IsSortedNet: v.IsSortedNet}
	return s
}

// Text prints the facts.
func (s Facts) Text(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", s.Path, s.sentence())
	if s.Damage != "" {
		fmt.Fprintf(w, "damaged: %s\n", s.Damage)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "sets\tdeletes\tkeys, bytes\tvalues, bytes\t  store")
	for _, store := range s.Stores {
		if t := store.Totals; t != nil {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t  %s\n", unit.Count(t.Sets), unit.Count(t.Deletes), unit.Count(t.KeyBytes), unit.Count(t.ValueBytes), store.Name)
		} else {
			fmt.Fprintf(table, "-\t-\t-\t-\t  %s\n", store.Name)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if s.Roots != nil && *s.Roots > 0 {
		fmt.Fprintf(w, "\nexpected roots (%s) of %s versions\n", s.RootRule, unit.Count(*s.Roots))
	}
	if s.Provenance != "" {
		fmt.Fprintf(w, "\n%s\n", s.Provenance)
	}
	return nil
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
	text += fmt.Sprintf(", %s, order %s, format %s", unit.Plural(len(s.Stores), "store"), s.Order, s.Format)
	if s.Changes == nil {
		text += "; verify and import count them"
	}
	return text
}

// VerdictText prints the facts of a set that was read to its end, and what was found.
func (s Facts) VerdictText(w io.Writer) error {
	if s.Damage == "" {
		fmt.Fprintln(w, "sound: every check of this format passed")
	} else {
		fmt.Fprintln(w, "DAMAGED: the counts below end where the damage begins")
	}
	s.Damage = "" // the error follows on stderr
	if err := s.Text(w); err != nil {
		return err
	}
	v := s.Verified
	fmt.Fprintf(w, "\n%s empty versions, %s missing", unit.Count(v.EmptyVersions), unit.Count(v.MissingVersions))
	if len(v.Gaps) > 0 {
		fmt.Fprintf(w, " (the first gap: %d to %d)", v.Gaps[0].From, v.Gaps[0].To)
	}
	sorted := "not all versions are sorted"
	if v.IsSortedNet {
		sorted = "every version is sorted and net"
	}
	_, err := fmt.Fprintf(w, "; %s\n", sorted)
	return err
}
