package figure_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/result/figure"
)

var update = flag.Bool("update", false, "rewrite the table in docs/figures.md")

// A figure is declared in full: whoever adds one is told here what is left to say.
func TestEveryFigureIsDeclaredInFull(t *testing.T) {
	keys := map[string]bool{}
	for _, f := range figure.All() {
		switch {
		case f.Key == "" || keys[f.Key]:
			t.Errorf("%+v: its key is empty, or another figure has it", f)
		case f.Noun == "" || f.Name == "":
			t.Errorf("%s has no noun or no name for a column", f.Key)
		case !strings.HasSuffix(f.Defined, ".") || strings.Count(f.Defined, ". ") > 0:
			t.Errorf("%s is not defined by one sentence: %q", f.Key, f.Defined)
		case f.Bench == "" && f.Question != "":
			t.Errorf("%s is ranked by, and not compared", f.Key)
		}

		keys[f.Key] = true

		page, anchor, _ := strings.Cut(f.Doc, "#")
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Errorf("%s: %v", f.Key, err)
			continue
		}

		if !slices.Contains(anchors(string(text)), anchor) {
			t.Errorf("%s: docs/%s has no section %q", f.Key, page, anchor)
		}
	}
}

// anchors are those of the headings of a page.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		title, is := strings.CutPrefix(strings.TrimLeft(strings.TrimSpace(line), "#"), " ")
		if !is || !strings.HasPrefix(line, "#") {
			continue
		}

		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case strings.ContainsRune(",.?:'()", r):
				return -1
			}

			return r
		}, strings.ToLower(title))

		all = append(all, anchor)
	}

	return all
}

// What runs are compared by has a name of its own in limits, verdicts and benchmark lines.
func TestComparedFiguresAreNamedApart(t *testing.T) {
	keys, units := map[string]bool{}, map[string]bool{}
	for _, f := range figure.Compared() {
		if f.Bench == "" || keys[f.Key] || units[f.Bench] {
			t.Errorf("%s with the unit %q stands twice, or has no unit", f.Key, f.Bench)
		}

		if f.Better == figure.Neither {
			t.Errorf("%s has no better direction, so no verdict", f.Key)
		}

		keys[f.Key], units[f.Bench] = true, true
	}
}

func TestDerivedFigures(t *testing.T) {
	reads := figure.BlockReadsPerGet
	for want, f := range map[string]figure.Figure{
		"predicted_block_reads_per_get":     reads.Predicted(),
		"block_reads_per_get_by_type":       reads.ByType(),
		"steady_state_block_reads_per_get":  reads.SteadyState(),
		"block_reads_per_get_low":           reads.Low(),
		"block_reads_from_device_per_get":   reads.FromDevice(),
		"service_p99_ns":                    figure.ServiceTime.P99(),
		"account_nodes_per_lookup":          figure.NodesPerLookup.OfAccount(),
		"slot_service_p50_ns":               figure.ServiceTime.P50().OfSlot(),
		"settled_leaves_per_second":         figure.LeavesPerSecond.Settled(),
		"predicted_held_reads_per_lookup":   figure.ReadsPerLookup.Held().Predicted(),
		"reads_per_lookup_standard_error":   figure.ReadsPerLookup.StandardError(),
		"block_reads_per_get_at_rest":       reads.AtRest(),
		"predicted_device_reads_per_lookup": figure.DeviceReadsPerLookup.Predicted(),
		"first_block_reads_per_get":         reads.First(),
		"block_accesses_per_get_by_type":    figure.BlockAccessesPerGet.ByType(),
		"leaves_per_second_before":          figure.LeavesPerSecond.Before(),
		"account_device_bytes_per_lookup":   figure.DeviceBytesPerLookup.OfAccount(),
		"seen_block_reads_per_get":          reads.Seen(),
		"write_ns_spread":                   figure.WriteTime.Spread(),
		"floor_block_reads_per_get":         reads.Floor(),
		"block_reads_per_get_by_level":      reads.ByLevel(),
		"settled_write_amplification":       figure.WriteAmplification.Settled(),
		"block_reads_per_op_by_type":        figure.BlockReadsPerOp.ByType(),
		"data_block_reads_per_get":          reads.Data(),
	} {
		if f.Key != want {
			t.Errorf("%s, want %s", f.Key, want)
		}
	}

	for want, f := range map[string]figure.Figure{"p99 service time": figure.ServiceTime.P99(),
		"p50 time of an account lookup": figure.ServiceTime.P50().OfAccount(),
		"nodes per slot lookup":         figure.NodesPerLookup.OfSlot()} {
		if f.Noun != want {
			t.Errorf("%q, want %q", f.Noun, want)
		}
	}
}

// A figure has a number or a reason, and nothing else.
func TestAFigureIsANumberOrAReason(t *testing.T) {
	var s figure.Set
	reads := figure.BlockReadsPerGet
	if n, known := s.Number(reads); known || n != 0 || s.Reason(reads) != figure.NotRecorded {
		t.Errorf("an empty set has %v, %q", s.Value(reads), s.Reason(reads))
	}

	s.Record(reads, 0)
	if n, known := s.Number(reads); !known || n != 0 || s.Reason(reads) != "" {
		t.Errorf("0 is a number: %v, %q", s.Value(reads), s.Reason(reads))
	}

	s.Unavailable("nobody counts them", reads)
	if s.Has(reads) || s.Pointer(reads) != nil || s.Reason(reads) != "nobody counts them" {
		t.Errorf("%v, %q", s.Value(reads), s.Reason(reads))
	}

	s.RecordIf(reads, figure.Value{})
	if s.Reason(reads) != "nobody counts them" {
		t.Errorf("an absent value changed the reason to %q", s.Reason(reads))
	}
}

// stored is a struct that keeps figures beside other fields.
type stored struct {
	Name  string             `json:"name"`
	Reads float64            `json:"-"`
	Error figure.Value       `json:"-"`
	Types map[string]float64 `json:"-"`
}

func (s *stored) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads: &s.Reads, reads.Error(): &s.Error, reads.ByType(): &s.Types}
}

func (s stored) MarshalJSON() ([]byte, error) {
	type plain stored

	return s.members().Marshal(plain(s))
}

func (s *stored) UnmarshalJSON(text []byte) error {
	type plain stored

	return s.members().Unmarshal(text, (*plain)(s))
}

func TestMembersAreStoredByTheirKeys(t *testing.T) {
	for want, s := range map[string]stored{
		`{"name":"a","block_reads_per_get":0}`: {Name: "a"},
		`{"name":"b","block_reads_per_get":1.5,"block_reads_per_get_by_type":{"data":1},` +
			`"block_reads_per_get_error":0}`: {Name: "b", Reads: 1.5, Error: figure.Known(0),
			Types: map[string]float64{"data": 1}},
	} {
		text, err := json.Marshal(s)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}

		var again stored
		if err := json.Unmarshal(text, &again); err != nil || again.Name != s.Name ||
			again.Reads != s.Reads || again.Error != s.Error || !maps.Equal(again.Types, s.Types) {
			t.Errorf("%+v, %v, want %+v", again, err, s)
		}
	}
}

const (
	tableBegin = "<!-- figures: begin, written by go test ./result/figure -update -->\n"
	tableEnd   = "<!-- figures: end -->\n"
)

// The table in docs/figures.md is that of the registry.
func TestTheTableOfFigures(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "figures.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	before, rest, found := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s lacks the lines %q and %q", path, tableBegin, tableEnd)
	}

	want := before + tableBegin + table() + tableEnd + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is not what the figures say: go test ./result/figure -update", path)
	}
}

// table has a row for every figure.
func table() string {
	better := map[figure.Better]string{figure.Lower: "lower", figure.Higher: "higher"}
	var b strings.Builder
	b.WriteString("\nfigure | unit | better | definition\n---|---|---|---\n")
	for _, f := range figure.All() {
		link := strings.TrimPrefix(f.Doc, "figures.md")
		fmt.Fprintf(&b, "[`%s`](%s) | %s | %s | %s\n",
			f.Key, link, f.Unit, better[f.Better], f.Defined)
	}

	return b.String() + "\n"
}
