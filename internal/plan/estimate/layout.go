package estimate

import (
	"fmt"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
)

// LayoutSpec is a layout at one size: built, updated, looked up.
type LayoutSpec struct {
	Layout        string // as typed, with its profile and options: chunktrie:unpinned
	Accounts      uint64
	ContractShare float64
	SlotsPer      uint64
	Reads         uint64 // of each kind
	First         uint64 // 0: a hundredth of Reads
	MemoryBytes   int64
	Keep          bool // its files stay
}

// layoutCosts: bytes are of the million accounts of docs/layouts.md, with 16 slots
// for a tenth of them, so 2.6 values an account. Rates and seconds of openings and lookups lie
// between those of `statelab layouts --layout L --accounts 100k --reads 2000 --memory 64MiB` on a
// busy machine with two cores and those of docs/prices.md on an idle one; the memory
// of the build is of the former.
type layoutCosts struct {
	perAccount        float64 // bytes on disk
	fixed, peakFixed  float64 // logs and preallocated files
	peak              float64 // times the bytes at the end
	accountsPerSecond float64
	buildMemory       float64 // beyond the budget
	memoryPerAccount  float64 // of an index without a limit
	open              float64 // seconds, and for each account
	openPerAccount    float64
	getSeconds        float64 // of a warm lookup
	known             bool
}

const valuesPerAccount = 2.6 // of those measurements

// measuredLayouts: perAccount, fixed, peakFixed, peak, accountsPerSecond, buildMemory, memoryPerAccount, open, openPerAccount, getSeconds.
var measuredLayouts = map[string]layoutCosts{
	"flat-pebble": {245, 70e6, 80e6, 1.4, 160e3, 90e6, 0, .05, 0, 15e-6, true},
	"flat-mdbx":   {356, 8e6, 8e6, 1.1, 60e3, 70e6, 0, .006, 0, 20e-6, true},
	"pagetrie":    {554, 28e6, 28e6, 1.1, 17e3, 110e6, 0, .001, 0, 35e-6, true},
	"chunktrie":   {1505, 8e6, 8e6, 1.1, 30e3, 60e6, 0, .01, 1.2e-6, 45e-6, true},
	"geth-flat":   {548, 15e6, 70e6, 1.4, 8e3, 180e6, 0, .3, 0, 60e-6, true},
	"geth-path":   {548, 15e6, 70e6, 1.4, 8e3, 180e6, 0, .3, 0, 60e-6, true},
	"geth-hash":   {1154, 15e6, 70e6, 1.4, 8e3, 170e6, 0, .3, 0, 90e-6, true},
	"nomt":        {303, 30e6, 30e6, 1.1, 16e3, 300e6, 0, .01, 0, 80e-6, true},
	"qmdb":        {453, 4e6, 4e6, 1.1, 200e3, 100e6, 75, .02, 4.5e-6, 90e-6, true},
}

func layoutCostsOf(name string) layoutCosts {
	if end := strings.IndexAny(name, ": "); end >= 0 { // its profile and options
		name = name[:end]
	}
	if costs, known := measuredLayouts[name]; known {
		return costs
	}
	return layoutCosts{1154, 70e6, 70e6, 1.4, 6e3, 300e6, 0, .7, 0, 200e-6, false}
}

// Layout is what a layout at one size takes.
func Layout(l LayoutSpec, m Machine) Step {
	costs := layoutCostsOf(l.Layout)
	accounts := float64(l.Accounts)
	values := (1 + l.ContractShare*float64(l.SlotsPer)) / valuesPerAccount
	data := accounts * costs.perAccount * values
	s := Step{Kind: LayoutKind, Name: fmt.Sprintf("%s of %s accounts", l.Layout, unit.ShortCount(accounts)), Flag: "--accounts", Count: l.Accounts,
		PeakDiskBytes: bytes(data*costs.peak + costs.peakFixed), fixed: bytes(costs.peakFixed),
		MemoryBytes: add(l.MemoryBytes, bytes(costs.buildMemory+accounts*costs.memoryPerAccount*values)), Basis: "measured with 100k and 1M accounts"}
	if l.Keep {
		s.DiskBytes = bytes(data + costs.fixed)
	}
	if !costs.known {
		s.Basis = "taken for geth-hash: no measurement of " + l.Layout
	}
	build := max(accounts*values/costs.accountsPerSecond, data/m.writeRate())
	const kinds = 4
	opening := costs.open + accounts*costs.openPerAccount
	first := float64(min(max(l.Reads/100, 5), 50))
	patience := 30.
	if l.First > 0 {
		first, patience = float64(l.First), 30*float64(l.First)/50
	}
	openings := kinds * min(first*opening, max(patience, 5*opening))
	lookups := kinds * 4 * float64(l.Reads) * costs.getSeconds // warm and measured, with one and 64 in flight
	s.Seconds = 2 + build + openings + (kinds+1)*opening + lookups
	return s
}
