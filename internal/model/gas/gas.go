// Package gas turns what an access to state costs into a price, by the formula of
// EIP-8038 and the parameters that it changes.
//
//	gas = gas per second x seconds of the access
//
// Goals: prices that follow from the columns beside them by arithmetic that anybody can
// repeat; a band for each. Non-goals: measuring, predicting reads (statemodel).
package gas

import (
	"fmt"
	"math"
	"time"

	"github.com/statelab/statelab/result"
)

// Names of parameters that others follow from.
const (
	ColdAccount  = "COLD_ACCOUNT_ACCESS"
	ColdStorage  = "COLD_STORAGE_ACCESS"
	Warm         = "WARM_ACCESS"
	Code         = "CODE_SECOND_READ"
	AccountWrite = "ACCOUNT_WRITE"
	StorageWrite = "STORAGE_WRITE"
	Create       = "CREATE_ACCESS"
	Refund       = "STORAGE_CLEAR_REFUND"
	ListAddress  = "ACCESS_LIST_ADDRESS"
	ListKey      = "ACCESS_LIST_KEY"
)

// MemoryNotPredicted is the code of a warning that accesses are predicted with nothing cached, but
// not with a memory that was asked for.
const MemoryNotPredicted = "memory_not_predicted"

// StateFailed is the code of a warning that a state could not be measured, so that the prices of
// its layout rest on fewer sizes.
const StateFailed = "state_failed"

// Aged are accesses of one age of an access list, the caches as the blocks before have left them.
type Aged struct {
	result.PriceParameter
	Age, Other string // that the rest is of
	Slot       bool
}

// Names of prices that an age decides.
const (
	RecurringAccount = "RECURRING_ACCOUNT_ACCESS"
	RecurringStorage = "RECURRING_STORAGE_ACCESS"
	unwrittenAccount = "UNWRITTEN_ACCOUNT_ACCESS"
	unwrittenStorage = "UNWRITTEN_STORAGE_ACCESS"
	writtenAccount   = "REWRITTEN_ACCOUNT_ACCESS"
	writtenStorage   = "REWRITTEN_STORAGE_ACCESS"
)

// ByAge are the accesses that EIP-8289 makes warm, the others, which stay cold, and those that find
// what is then written, for which EIP-8295 charges by the age of the last write, that EIP-8188
// stores (all ethereum/EIPs at f767a1e). It sets no amount.
func ByAge() []Aged {
	parameter := func(name string, today, proposed float64, about string) result.PriceParameter {
		return result.PriceParameter{Name: name, Today: today, Proposed: proposed, About: about}
	}
	return []Aged{
		{parameter(RecurringAccount, 2600, 100, "an account that one of the 256 blocks before "+
			"has touched (EIP-8289)"), result.Recurring, result.Lapsed, false},
		{
			parameter("LAPSED_ACCOUNT_ACCESS", 2600, 2600,
				"an account that none of them has touched"),
			result.Lapsed,
			result.Recurring,
			false,
		},
		{parameter(RecurringStorage, 2100, 100, "a slot that one of the 256 blocks before has "+
			"touched (EIP-8289)"), result.Recurring, result.Lapsed, true},
		{parameter("LAPSED_STORAGE_ACCESS", 2100, 2100, "a slot that none of them has touched"),
			result.Lapsed, result.Recurring, true},
		{parameter(writtenAccount, 0, 0, "an account before it is written, which an earlier "+
			"block has written"), result.Rewritten, result.Unwritten, false},
		{parameter(unwrittenAccount, 0, 0,
			"an account before it is written, which none has written"), result.Unwritten,
			result.Rewritten, false},
		{parameter(writtenStorage, 0, 0, "a slot before it is written, which an earlier block "+
			"has written"), result.Rewritten, result.Unwritten, true},
		{parameter(unwrittenStorage, 0, 0, "a slot before it is written, which none has written"),
			result.Unwritten, result.Rewritten, true},
	}
}

// IsAged tells whether a parameter is of accesses by their age, or follows from those.
func IsAged(name string) bool {
	for _, a := range ByAge() {
		if a.Name == name {
			return true
		}
	}

	for _, d := range Derived() {
		if d.Name == name {
			return IsAged(d.Of[0])
		}
	}

	return false
}

// Parameters are those of EIP-8038 (ethereum/EIPs at f767a1e, November 2026), the first
// six of which are measured, and those that an age decides. 0 is a price that no text sets.
func Parameters() []result.PriceParameter {
	measured := []result.PriceParameter{
		{Name: ColdAccount, Today: 2600, Proposed: 3000, About: "load an account"},
		{Name: ColdStorage, Today: 2100, Proposed: 2100, About: "load a slot of the one contract"},
		{Name: Warm, Today: 100, Proposed: 100, About: "touch what the transaction has loaded"},
		{
			Name:     Code,
			Today:    100,
			Proposed: 100,
			About:    "the second read of EXTCODESIZE and EXTCODECOPY: code by its hash",
		},
		{Name: AccountWrite, Today: 6700, Proposed: 9000, About: "change an account that exists"},
		{Name: StorageWrite, Today: 2800, Proposed: 10_000, About: "change a slot that exists"},
	}

	for _, a := range ByAge() {
		measured = append(measured, a.PriceParameter)
	}

	proposed := map[string]float64{}
	for _, p := range measured {
		proposed[p.Name] = p.Proposed
	}

	for _, d := range Derived() {
		measured = append(measured, result.PriceParameter{
			Name:     d.Name,
			Today:    d.Today,
			Proposed: d.From(proposed),
			About:    d.About,
		})
	}

	return measured
}

// Derivation is a parameter that follows from others.
type Derivation struct {
	Name, About string
	Of          []string // parameters that it needs
	Less        string   // the one of them that is taken away
	Today       float64  // EIP-2930 and EIP-3529 do not compute theirs
	Absent      bool     // of accesses to what does not exist, where they differ
	From        func(gas map[string]float64) float64
}

// Derived are the parameters that EIP-8038 computes from the others.
func Derived() []Derivation {
	return []Derivation{
		{
			Name:   Create,
			Today:  7000,
			About:  "ACCOUNT_WRITE + COLD_ACCOUNT_ACCESS",
			Of:     []string{AccountWrite, ColdAccount},
			Absent: true,
			From:   func(g map[string]float64) float64 { return g[AccountWrite] + g[ColdAccount] },
		},
		{
			Name:  Refund,
			Today: 4800,
			About: "(STORAGE_WRITE + COLD_STORAGE_ACCESS) x 4800/5000",
			Of:    []string{StorageWrite, ColdStorage},
			From: func(g map[string]float64) float64 {
				return (g[StorageWrite] + g[ColdStorage]) * 4800 / 5000
			},
		},
		{
			Name:  ListAddress,
			Today: 2400,
			About: "COLD_ACCOUNT_ACCESS - WARM_ACCESS",
			Of:    []string{ColdAccount, Warm},
			Less:  Warm,
			From:  func(g map[string]float64) float64 { return g[ColdAccount] - g[Warm] },
		},
		{
			Name:  ListKey,
			Today: 1900,
			About: "COLD_STORAGE_ACCESS - WARM_ACCESS",
			Of:    []string{ColdStorage, Warm},
			Less:  Warm,
			From:  func(g map[string]float64) float64 { return g[ColdStorage] - g[Warm] },
		},
		surcharge("INACTIVE_ACCOUNT_WRITE_SURCHARGE", unwrittenAccount, writtenAccount),
		surcharge("INACTIVE_STORAGE_WRITE_SURCHARGE", unwrittenStorage, writtenStorage),
	}
}

// surcharge is what finding old state costs more, for EIP-8295.
func surcharge(name, old, recent string) Derivation {
	return Derivation{
		Name:  name,
		About: old + " - " + recent,
		Of:    []string{old, recent},
		Less:  recent,
		From:  func(g map[string]float64) float64 { return g[old] - g[recent] },
	}
}

// usefulShare is the share of a disk's most reads a second from which more in flight are
// of little use.
const usefulShare = .9

// Useful is the reading of the fewest reads in flight with nine tenths of the most reads
// a second.
func Useful(h result.Hardware) result.DiskPoint {
	maximum := 0.0
	for _, p := range h.Points {
		maximum = math.Max(maximum, p.ReadsPerSecond)
	}

	for _, p := range h.Points {
		if p.ReadsPerSecond >= usefulShare*maximum {
			return p
		}
	}

	return h.Points[len(h.Points)-1]
}

// givenLatency is the source of a disk that nothing measured.
const givenLatency = "given latency"

// GivenLatency is a disk of which only the time of one read with one in flight is known.
func GivenLatency(name string, read time.Duration) result.Hardware {
	rate := float64(time.Second) / float64(read)
	return result.Hardware{
		Name:   name,
		Source: givenLatency,
		Points: []result.DiskPoint{{
			InFlight:       1,
			ReadsPerSecond: rate,
			MeanNanos:      float64(read),
			Spread:         result.Range{Low: rate, High: rate},
		}},
	}
}

// IsGiven tells whether a disk is one of GivenLatency.
func IsGiven(h result.Hardware) bool { return h.Source == givenLatency }

// Formula is what Fill computes, in words.
func Formula(gasPerSecond float64) []string {
	return []string{
		"time alone = CPU + reads x the disk's mean latency with one read in flight",
		"time at depth Q = CPU + reads / the disk's reads per second with Q in flight, Q the " +
			"smallest with 90% of the highest",
		fmt.Sprintf("gas = %.0f gas per second x time", gasPerSecond),
		"lowest and highest: those of the reads and of a predicted CPU time, with the fastest " +
			"and slowest repeat of the disk's reading",
	}
}

// What is the larger part of a time.
const (
	CPU    = "CPU"
	Device = "device"
)

// unpriced is a row without times and prices.
func unpriced(r result.PriceRow) result.PriceRow {
	none := result.Estimate{}
	r.AloneNanos, r.QueuedNanos, r.AloneGas, r.QueuedGas, r.Binds = none, none, none, none, ""

	return r
}

// Fill computes a row's times and gas from its reads and CPU time; none without a CPU time.
func Fill(r *result.PriceRow, h result.Hardware, gasPerSecond float64) {
	one, useful := h.Points[0], Useful(h)
	r.Hardware, r.QueueDepth = h.Name, useful.InFlight
	cpu, known := r.CPUNanos.Number()
	if !known {
		*r = unpriced(*r)
		return
	}

	off := r.CPUError.OrZero() // of what was measured: none
	time := func(nanosOfRead func(result.DiskPoint) float64, p result.DiskPoint) result.Estimate {
		read := nanosOfRead(p)
		fastest, slowest := read*p.ReadsPerSecond/p.Spread.High, read*p.ReadsPerSecond/p.Spread.Low
		return result.Estimate{
			Value: cpu + r.Reads.Value*read,
			Low:   cpu/(1+off) + r.Reads.Low*fastest,
			High:  cpu*(1+off) + r.Reads.High*slowest,
		}
	}

	r.AloneNanos = time(func(p result.DiskPoint) float64 { return p.MeanNanos }, one)
	r.QueuedNanos = time(func(p result.DiskPoint) float64 { return 1e9 / p.ReadsPerSecond }, useful)
	price := func(t result.Estimate) result.Estimate {
		return result.Estimate{
			Value: t.Value * gasPerSecond / 1e9,
			Low:   t.Low * gasPerSecond / 1e9,
			High:  t.High * gasPerSecond / 1e9,
		}
	}

	r.AloneGas, r.QueuedGas = price(r.AloneNanos), price(r.QueuedNanos)
	r.Binds = CPU
	if r.QueuedNanos.Value > 2*cpu {
		r.Binds = Device
	}
}

// ReadsAlone is the part of a price at depth that its reads on a disk are, in gas.
func ReadsAlone(r result.PriceRow, h result.Hardware, gasPerSecond float64) result.Estimate {
	at := Useful(h)
	return result.Estimate{
		Value: r.Reads.Value * gasPerSecond / at.ReadsPerSecond,
		Low:   r.Reads.Low * gasPerSecond / at.Spread.High,
		High:  r.Reads.High * gasPerSecond / at.Spread.Low,
	}
}

// Safe is what would have to be true for a row to cost no more than a price.
type Safe struct {
	Already   bool    // it does, one access at a time
	Never     bool    // its CPU time alone costs more
	ReadNanos float64 // or a read takes no longer than this
	// or so much of the reads is cached, with a disk like this and one read in flight
	CachedPart float64
	// or so many reads are in flight on this disk; 0: none of the measured numbers is enough
	InFlight int
}

// SafeAt says so for a price, of a row that is priced.
func SafeAt(r result.PriceRow, h result.Hardware, price, gasPerSecond float64) (s Safe) {
	budget := price / gasPerSecond * 1e9
	left := budget - r.CPUNanos.OrZero()
	switch {
	case r.AloneNanos.Value <= budget:
		return Safe{Already: true}
	case left <= 0:
		return Safe{Never: true}
	}

	s.ReadNanos = left / r.Reads.Value
	s.CachedPart = 1 - left/(r.Reads.Value*h.Points[0].MeanNanos)
	for _, p := range h.Points {
		if 1e9/p.ReadsPerSecond <= s.ReadNanos {
			s.InFlight = p.InFlight
			break
		}
	}

	return s
}
