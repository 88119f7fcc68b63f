package subject

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/model/statemodel"
)

// Claims are about layouts that exist, names are unique, and every runner has the command that
// makes it.
func TestDescriptors(t *testing.T) {
	labels := map[string]bool{}
	for _, l := range Layouts() {
		if labels[l.Label] {
			t.Errorf("%s: twice", l.Label)
		}

		labels[l.Label] = true
		if m := l.Model; m != nil &&
			(m.Basis == "" || m.Divide == nil || m.Memories == nil || m.Own > m.Device) {
			t.Errorf("%s: %+v", l.Label, m)
		}
	}

	for _, c := range Claims() {
		for _, label := range append(c.Layouts, c.Own) {
			if label != "" && !labels[label] {
				t.Errorf("%q is about %s, which is no layout", c.Says, label)
			}
		}
	}

	programs := map[string]Program{}
	for _, e := range Engines() {
		programs[e.Name], programs[e.Name+" with cgo"] = e.Program, e.WithCgo
	}

	for _, of := range Trees() {
		programs[of.Name] = of.Program
	}

	for _, l := range Layouts() {
		programs[l.Label] = l.Program
	}

	for name, p := range programs {
		if p != (Program{}) && (!strings.HasPrefix(p.Runner, "statelab-run-") || p.Fix == "") {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// What is not listed has the costs of another subject, and says of which; a profile has those of
// its layout; options change nothing.
func TestSubjectsThatAreNotListed(t *testing.T) {
	if e, taken := EngineOf("another"); e.Cost.Space != 1.09 ||
		taken != "taken for an LSM tree: no measurement of another" {
		t.Errorf("%+v, %q", e, taken)
	}

	if of, taken := TreeOf("memiavl-async"); of.Cost != costliestTree ||
		taken != "taken for iavl0: no measurement of memiavl-async" {
		t.Errorf("%+v, %q", of, taken)
	}

	if l, taken := LayoutOf("triedb"); l.Cost.PerAccount != 1154 || l.Model == nil ||
		taken != "taken for geth-hash: no measurement of triedb" {
		t.Errorf("%+v, %q", l, taken)
	}

	if l, taken := LayoutOf("pagetrie:raw reads=mmap"); l.Cost.PerAccount != 554 ||
		l.Model != nil || taken != "" {
		t.Errorf("a profile that is not listed: %+v, %q", l, taken)
	}

	if l, _ := LayoutOf("chunktrie cache=1"); l.Label != "chunktrie" || l.Model == nil {
		t.Errorf("with options: %+v", l)
	}
}

// A chunk trie that pins nothing reads every node from the disk.
func TestPinsSaveReads(t *testing.T) {
	s := statemodel.State{Accounts: 1e6, BlockAccounts: 5000, DiskBytes: 1e9}
	var reads []float64
	for _, label := range []string{"chunktrie", "chunktrie:unpinned"} {
		l, _ := LayoutOf(label)
		r, ok := l.Model.Uncached(s, statemodel.Account, 64<<20)
		if f := l.Formula(s); !ok || f.Reads == nil {
			t.Fatalf("%s: no reads", label)
		}

		reads = append(reads, r.Mean)
	}

	if reads[0] >= reads[1]-3 {
		t.Errorf("%.2f reads with pins, %.2f without", reads[0], reads[1])
	}
}

// TestVersionsOfOneEngineShareItsTraits: what is asked of a descriptor and not of a name.
func TestVersionsOfOneEngineShareItsTraits(t *testing.T) {
	for _, name := range Pebbles() {
		e := Descriptor(name)
		if Family(name) != Family(Pebbles()[0]) || !e.SimulatesLevels() || !e.MemTablesInCache ||
			!e.TablesOneByOne {
			t.Errorf("%+v", e)
		}
	}

	for _, e := range Engines() {
		if e.Cache == 0 && (Family(e.Name) != e.Name || e.SimulatesLevels() || e.MemTablesInCache) {
			t.Errorf("%+v", e)
		}
	}

	if e := Descriptor("unknown"); e.Name != "unknown" || e.SimulatesLevels() ||
		Family("unknown") != "unknown" {
		t.Errorf("%+v", e)
	}
}
