package layouts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// compared is a comparison of one layout whose lookups read so much, by accounts.
func compared(layout string, slots uint64, reads map[uint64]float64) *result.Layouts {
	l := &result.Layouts{Workload: result.StateWorkload{
		BlockAccounts: 5000,
		MemoryBytes:   64 << 20,
		ContractSlots: slots,
	}}

	for accounts, r := range reads {
		row := result.LayoutRow{Layout: layout, Status: result.OK, Accounts: accounts,
			DiskBytes: figure.Known(float64(300 * (accounts + slots))),
			Updates: &result.StateUpdates{
				Accounts: &result.StateWrites{
					Nanos:    9e4,
					Spread:   result.Range{Low: 8e4, High: 1e5},
					CPUNanos: 7e4,
					Reads:    3,
				},
				Slots: &result.StateWrites{
					Nanos:    5e4,
					Spread:   result.Range{Low: 4e4, High: 6e4},
					CPUNanos: 4e4,
					Reads:    2,
				},
			}}

		for _, kind := range []string{result.AccountLookup, result.AbsentAccountLookup,
			result.SlotLookup, result.AbsentSlotLookup} {
			for _, condition := range []string{result.FirstLookups, result.ColdLookups,
				result.HeldLookups} {
				row.Lookups = append(row.Lookups, result.Lookups{Kind: kind, Condition: condition,
					InFlight: 1, BlockReads: figure.Known(r), ReadsError: figure.Known(0),
					CPUNanos: figure.Known(5000)})
			}
		}

		row.Lookups = append(row.Lookups, result.Lookups{Kind: result.BlockAccess,
			Condition: result.HeldLookups, InFlight: 1, BlockReads: figure.Known(r),
			CPUNanos: figure.Known(6000)})
		for _, a := range gas.ByAge() {
			row.Lookups = append(row.Lookups, result.Lookups{Kind: result.AgedAccess(a.Age, a.Slot),
				Condition: result.HeldLookups, InFlight: 1, BlockReads: figure.Known(r),
				ReadsError: figure.Known(0), Count: 10})
		}

		row.Lookups = append(row.Lookups, result.Lookups{
			Kind:         result.AccountLookup,
			Condition:    result.AgainLookups,
			InFlight:     1,
			ServiceNanos: &result.Latency{P50: 900},
		})

		l.Rows = append(l.Rows, row)
	}

	return l
}

func disks() []result.Hardware {
	return []result.Hardware{{
		Name: "a",
		Points: []result.DiskPoint{
			{
				InFlight:       1,
				ReadsPerSecond: 1e4,
				MeanNanos:      1e5,
				Spread:         result.Range{Low: 9e3, High: 11e3},
			},
			{
				InFlight:       16,
				ReadsPerSecond: 1e5,
				MeanNanos:      16e4,
				Spread:         result.Range{Low: 9e4, High: 11e4},
			},
		},
	}}
}

// Prices follow from the columns of their rows by the formula that is printed; derived
// ones from the rows that they name.
func TestPricesFollowFromTheirColumns(t *testing.T) {
	p := Pricing{
		Layouts: []*result.Layouts{compared("flat-pebble", 1000, map[uint64]float64{
			100_000: 2.2,
		})},
		Hardware:     disks(),
		GasPerSecond: 100e6,
		Ahead: []Size{
			{Accounts: 1_000_000, ContractSlots: 1000},
			{Accounts: 300_000_000, ContractSlots: 100_000_000},
		},
	}

	if !testring.All() { // the model of the larger one takes seconds
		p.Ahead = p.Ahead[:1]
	}

	rows, _ := p.Rows()
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b)+1e-9 }
	seen, predicted := map[string]int{}, 0
	for _, r := range rows {
		seen[r.Parameter]++
		if r.Predicted {
			predicted++
		}

		if !(r.QueuedGas.Low <= r.QueuedGas.Value && r.QueuedGas.Value <= r.QueuedGas.High) {
			t.Errorf("%s: %+v is outside its band", r.Parameter, r.QueuedGas)
		}

		if strings.HasPrefix(r.Basis, "= ") {
			continue
		}

		if alone := r.CPUNanos.OrZero() + r.Reads.Value*1e5; !near(r.AloneNanos.Value, alone) ||
			!near(r.AloneGas.Value, alone/10) {
			t.Errorf("%s: %+v, want %v ns alone", r.Parameter, r, alone)
		}

		if queued := r.CPUNanos.OrZero() + r.Reads.Value*1e4; r.QueueDepth != 16 ||
			!near(r.QueuedNanos.Value, queued) || !near(r.QueuedGas.Value, queued/10) {
			t.Errorf("%s: %+v, want %v ns at depth", r.Parameter, r, queued)
		}
	}

	for _, parameter := range gas.Parameters() {
		if seen[parameter.Name] == 0 {
			t.Errorf("no row of %s", parameter.Name)
		}
	}

	if predicted != 4*len(p.Ahead) {
		t.Errorf("%d predicted rows of %d sizes, each has four kinds of lookups", predicted,
			len(p.Ahead))
	}

	for i, r := range rows {
		if r.Parameter != gas.Create || r.Predicted {
			continue
		}

		want := 0.0
		for _, part := range rows[:i] {
			if placeIn(part) == placeIn(r) &&
				(part.Parameter == gas.AccountWrite ||
					part.Parameter == gas.ColdAccount && part.Absent) {
				want += part.QueuedGas.Value
			}
		}

		if !near(r.QueuedGas.Value, want) {
			t.Errorf("CREATE_ACCESS costs %v, its parts %v", r.QueuedGas.Value, want)
		}
	}
}

// placeIn is what rows have in common of which one follows from others.
func placeIn(r result.PriceRow) string {
	return fmt.Sprint(r.Layout, r.Condition, gas.SizeOf(r))
}

// A layout that reads as its model says is predicted as the model says, and its tested
// error is 0; one that does not has the error that it was off by.
func TestPredictionIsTestedAtTheLargestSizeBuilt(t *testing.T) {
	p := Pricing{
		Layouts: []*result.Layouts{compared("chunktrie:unpinned", 1000, map[uint64]float64{
			10_000:  1,
			100_000: 1,
		})},
		Hardware:     disks(),
		GasPerSecond: 100e6,
	}

	model := map[uint64]float64{}
	for _, accounts := range []uint64{10_000, 100_000, 1_000_000} {
		reads, _ := p.forecast(forecast{"chunktrie:unpinned", Size{Accounts: accounts,
			ContractSlots: 1000}, pricedKinds()[0].model, 0})
		model[accounts] = reads.Mean
	}

	for _, off := range []float64{1, 1.1} {
		p.Layouts = []*result.Layouts{compared("chunktrie:unpinned", 1000, map[uint64]float64{
			10_000:  model[10_000],
			100_000: off * model[100_000],
		})}

		p.Ahead = []Size{{Accounts: 1_000_000, ContractSlots: 1000}}
		rows, _ := p.Rows()
		for _, r := range rows {
			if !r.Predicted || r.Parameter != gas.ColdAccount || r.Absent {
				continue
			}

			if want := off * model[1_000_000]; math.Abs(r.Reads.Value-want) > 1e-9+
				math.Abs(off-1) || !r.TestedError.IsKnown() ||
				math.Abs(r.TestedError.OrZero()-math.Abs(1/off-1)) > 1e-9 {
				t.Errorf("%+v, want %v reads", r, want)
			}
		}
	}
}

// Builds with other seeds are one state: the mean of their reads, and a band from how far
// they are apart.
func TestBuildsOfOneStateArePooled(t *testing.T) {
	p := Pricing{Hardware: disks(), GasPerSecond: 100e6}
	for i, reads := range []float64{2, 3, 4} {
		l := compared("flat-pebble", 1000, map[uint64]float64{100_000: reads})
		l.Workload.Seed = uint64(i + 1)
		p.Layouts = append(p.Layouts, l)
	}

	rows, _ := p.Rows()
	seen := 0
	for _, r := range rows {
		if r.Parameter != gas.ColdAccount || r.Condition != result.FirstLookups {
			continue
		}

		seen++
		if off := 2 / math.Sqrt(3); r.Reads.Value != 3 || math.Abs(r.Reads.High-3-off) > 1e-9 ||
			!strings.HasSuffix(r.Basis, "; the mean of 3 builds") {
			t.Errorf("%+v", r)
		}
	}

	if seen != 2 { // present and absent
		t.Errorf("%d rows in %+v", seen, rows)
	}
}

// Builds of one layout with other settings are not builds of one state.
func TestOtherSettingsAreRefused(t *testing.T) {
	var all []*result.Layouts
	for _, depth := range []string{"6", "6", "7"} {
		l := compared("geth-bintrie", 1000, map[uint64]float64{100_000: 2})
		for i := range l.Rows {
			l.Rows[i].Options = map[string]string{"GroupDepth": depth}
		}
		all = append(all, l)
	}

	if err := SameSettings(all[:2]); err != nil {
		t.Error(err)
	}

	if err := SameSettings(all); engine.CodeOf(err) != engine.CodeUsage {
		t.Errorf("depths 6 and 7: %v", err)
	}
}

// What was off by more than a quarter is not shown, and the reason is given.
// TestNoWorkerOutlivesACancellation: those at work when the context ends have ended when inParallel
// returns, and no question is begun after that.
func TestNoWorkerOutlivesACancellation(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	questions := make([]int, 100)
	for i := range questions {
		questions[i] = i
	}

	var working, begun atomic.Int64
	err := inParallel(ctx, questions, func(q int) int {
		working.Add(1)
		defer working.Add(-1)
		if begun.Add(1) == 3 {
			cancel(stop)
		}

		if q >= 2 {
			<-ctx.Done()
		}

		for range 1000 { // the caller could run meanwhile
			runtime.Gosched()
		}

		return q
	}, func(int, int) {})

	if !errors.Is(err, stop) || working.Load() != 0 {
		t.Errorf("%v; %d workers at work", err, working.Load())
	}

	if n := begun.Load(); n > 3+int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d questions were begun", n)
	}

	sum := 0
	if err := inParallel(
		t.Context(),
		questions,
		func(q int) int { return 2 * q },
		func(_, a int) { sum += a },
	); err != nil || sum != 9900 {
		t.Errorf("%d, %v", sum, err)
	}
}

// TestInterruptedForecastsKeepWhatIsKnown: lookups of accounts, whose one state has been asked
// about, have prices; those of slots, in eight classes of contracts, have not, and no model is
// blamed for it.
func TestInterruptedForecastsKeepWhatIsKnown(t *testing.T) {
	p := Pricing{
		Layouts: []*result.Layouts{compared("flat-mdbx", 1000, map[uint64]float64{
			10_000:  2,
			100_000: 2.2,
		})},
		Hardware:     disks(),
		GasPerSecond: 100e6,
		Ahead:        []Size{{Accounts: 1_000_000, SpreadSlots: 3_000_000}},
		AheadMemory:  []int64{64 << 20},
	}

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // so many are at work when the context ends
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	// 4 kinds at 2 sizes; at the new size, with memory and without, 2 kinds of accounts and 2 of
	// slots in eight classes
	const all, kept = 4*2 + 2*(2+2*8), 4*2 + 2 + 2*8 + 2
	err := p.Forecast(ctx, func(done, of int) {
		if of != all {
			t.Errorf("%d questions, not %d", of, all)
		}

		if done == kept {
			cancel(stop)
		}
	})

	if !errors.Is(err, stop) {
		t.Fatal(err)
	}

	rows, warnings := p.Rows()
	predicted := map[string]int{}
	for _, r := range rows {
		if r.Predicted {
			predicted[r.Parameter]++
		}
	}

	// those at work when the context ends are finished: at most one state of slots
	if predicted[gas.ColdAccount] != 4 || predicted[gas.ColdStorage] != 0 || len(warnings) > 0 {
		t.Errorf("%v, %+v", predicted, warnings)
	}
}

func TestABadPredictionIsNotShown(t *testing.T) {
	p := Pricing{
		Layouts: []*result.Layouts{compared("flat-pebble", 1000, map[uint64]float64{
			10_000:  1,
			100_000: 6,
		})},
		Hardware:     disks(),
		GasPerSecond: 100e6,
		Ahead:        []Size{{Accounts: 1_000_000, ContractSlots: 1000}},
	}

	rows, warnings := p.Rows()
	for _, r := range rows {
		if r.Predicted {
			t.Errorf("%+v", r)
		}
	}

	if len(warnings) != 4 || !strings.Contains(warnings[0].Text, "55%") {
		t.Errorf("%+v", warnings)
	}
}

// TestFirstCPUByHand: 12 us of an account's lookup that read a tenth of a block and 26 of a slot's
// that read none, 2 and 6 us of warm ones: each read took 300 us, whatever the opening took.
func TestFirstCPUByHand(t *testing.T) {
	row := func(accountReads float64) (of result.LayoutRow) {
		for kind, cpu := range map[string]float64{
			result.AccountLookup: 12e3,
			result.SlotLookup:    26e3,
		} {
			reads := 0.0
			if kind == result.AccountLookup {
				reads = accountReads
			}

			warm := map[string]int64{result.AccountLookup: 2000, result.SlotLookup: 6000}[kind]
			of.Lookups = append(of.Lookups,
				result.Lookups{Kind: kind, Condition: result.ColdLookups, InFlight: 1,
					CPUNanos: figure.Known(cpu), BlockReads: figure.Known(reads)},
				result.Lookups{Kind: kind, Condition: result.AgainLookups, InFlight: 1,
					ServiceNanos: &result.Latency{P50: warm}})
		}

		return of
	}

	for name, c := range map[string]struct {
		reads float64
		kind  string
		of    result.LayoutRow
		want  float64 // 0: unknown
	}{
		"an account":                 {2, result.AccountLookup, row(.1), 602e3},
		"a missing slot":             {2, result.AbsentSlotLookup, row(.1), 606e3},
		"one that reads nothing":     {0, result.SlotLookup, row(.1), 6e3},
		"nothing read after opening": {2, result.AccountLookup, row(0), 0},
	} {
		got, _ := readCost{coldOf(c.of)}.firstCPU(c.reads, warmNanos(c.of, c.kind))
		if got.IsKnown() != (c.want > 0) || math.Abs(got.OrZero()-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestCPUOfReadsByHand: 30 us for 1 read, 50 us for 2 and, of another size, 70 us for 2 are 30 us a
// read. The states are 0, 10 and 10 us away, the sizes 10 both.
func TestCPUOfReadsByHand(t *testing.T) {
	of := readCost{{10, 30e3, 1}, {10, 50e3, 2}, {20, 70e3, 2}}
	mean, off, known := of.nanos()
	if want := 2 * math.Sqrt(2*2*100) / 5 / 30; !known || math.Abs(mean-30e3) > 1e-6 ||
		math.Abs(off.OrZero()-want) > 1e-9 {
		t.Errorf("%v, %v, want 30000, %v", mean, off, want)
	}

	alike := readCost{{10, 30e3, 1}, {20, 60e3, 2}}
	if _, off, _ := alike.nanos(); off.OrZero() != errorBetweenRuns {
		t.Errorf("states that agree: %v", off)
	}

	if _, off, _ := of[:1].nanos(); off.OrZero() != errorOfOne {
		t.Errorf("one state says nothing of the error: %v", off)
	}

	// 4 us and 2 reads of 30: the error is of 60 in 64.
	if cpu, share := of.firstCPU(2, 4e3); math.Abs(cpu.OrZero()-64e3) > 1e-6 ||
		math.Abs(share.OrZero()-off.OrZero()*60/64) > 1e-9 {
		t.Errorf("%v, %v", cpu, share)
	}
}

// TestSpreadSlotsAndMemory: slots of many contracts are predicted beside those of one; with memory,
// less is read, and no more of a larger memory, at the CPU time of so many reads.
func TestSpreadSlotsAndMemory(t *testing.T) {
	p := Pricing{
		Layouts: []*result.Layouts{
			compared("flat-mdbx", 1000, map[uint64]float64{100_000: 2}),
		},
		Hardware:     disks(),
		GasPerSecond: 100e6,
		Ahead: []Size{
			{Accounts: 1_000_000, ContractSlots: 10_000_000},
			{Accounts: 1_000_000, SpreadSlots: 10_000_000},
		},
		AheadMemory: []int64{64 << 20, 512 << 20, 64 << 30},
	}

	rows, warnings := p.Rows()
	seen := map[string]float64{}
	for _, r := range rows {
		if !r.Predicted || r.Absent || r.Parameter != gas.ColdStorage {
			continue
		}

		seen[fmt.Sprint(r.SpreadSlots, r.MemoryBytes>>20)] = r.Reads.Value
		if cpu := 900 + r.Reads.Value*(5000-900)/2; r.MemoryBytes > 0 &&
			math.Abs(r.CPUNanos.OrZero()-cpu) > 1e-6 {
			t.Errorf("%v ns of %v reads, want %v", r.CPUNanos, r.Reads.Value, cpu)
		}
	}

	for _, spread := range []int{0, 10_000_000} {
		at := func(mib int64) float64 { return seen[fmt.Sprint(spread, mib)] }
		if !(at(0) > at(64) && at(64) > at(512) && at(512) > at(64<<10) && at(64<<10) < .01) {
			t.Errorf("spread %d: %v; %v", spread, seen, warnings)
		}
	}
}

// TestTheTimeOfAReadIsADisk: a duration is a disk of one point, and what is no duration and no file
// is refused with the way out. A file of that name stays a file.
func TestTheTimeOfAReadIsADisk(t *testing.T) {
	for _, text := range []string{"100us", ".1ms", "100000ns"} {
		var m setting.Mistakes
		h := HardwareOf(text, &m)
		if err := m.Err(); err != nil || h == nil || h.Name != text || !gas.IsGiven(*h) ||
			len(h.Points) != 1 || h.Points[0].InFlight != 1 || h.Points[0].MeanNanos != 1e5 ||
			math.Abs(h.Points[0].ReadsPerSecond-1e4) > 1e-6 {
			t.Errorf("%s: %+v, %v", text, h, err)
		}
	}

	for _, text := range []string{"100", "0us", "-5us", "100usec", "25h", "1e3us"} {
		var m setting.Mistakes
		if h := HardwareOf(text, &m); h != nil || m.Err() == nil ||
			!strings.Contains(m.Err().Error(), "--hardware 100us") ||
			engine.CodeOf(m.Err()) != engine.CodeUsage {
			t.Errorf("%s: %+v, %v", text, h, m.Err())
		}
	}

	var m setting.Mistakes
	if HardwareOf("100us.json", &m); m.Err() == nil ||
		strings.Contains(m.Err().Error(), "time of one read") {
		t.Errorf("a missing file: %v", m.Err())
	}

	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("1ms", []byte(`{"schema": "statelab.hardware/1", "points":
[{"in_flight": 1, "reads_per_second": 500, "mean_ns": 2e6}]}`), 0o644); err != nil {
		t.Fatal(err)
	}

	if h := HardwareOf("1ms", new(setting.Mistakes)); h == nil || h.Points[0].MeanNanos != 2e6 {
		t.Errorf("a file named as a time: %+v", h)
	}
}

// TestWhatIsNotPredictedIsSaidBefore: the layouts whose slots no model knows with memory, and those
// that no model knows at all, are named with what is still predicted; sizes are named in full.
func TestWhatIsNotPredictedIsSaidBefore(t *testing.T) {
	p := Pricing{
		Ahead:       []Size{{Accounts: 300_000_000, SpreadSlots: 3_000_000_000}},
		AheadMemory: []int64{16 << 30},
	}

	said := strings.Join(p.AheadTexts([]string{"flat-pebble", "geth-hash"}), "\n")
	for _, want := range []string{
		"slots are not predicted with --at-memory 16.0 GiB for geth-hash, since",
		"accounts are predicted with that memory, and accounts and slots with nothing cached",
		"300M accounts and 3B slots of all contracts are predicted with nothing cached and " +
			"with 16.0 GiB of memory (2 layouts)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in:\n%s", want, said)
		}
	}

	p.AheadMemory = nil
	if texts := p.AheadTexts([]string{"geth-path"}); len(texts) != 1 ||
		!strings.Contains(texts[0], "predicted with nothing cached (1 layout)") {
		t.Errorf("%q", texts)
	}

	if texts := new(Pricing).AheadTexts([]string{"geth-path"}); len(texts) != 0 {
		t.Errorf("%q of nothing asked for", texts)
	}
}

// TestAFailedStateIsAWarning: prices of its layout rest on fewer sizes, and the answer says so.
func TestAFailedStateIsAWarning(t *testing.T) {
	l := compared("flat-mdbx", 1000, map[uint64]float64{100_000: 2})
	l.Rows = append(l.Rows, result.LayoutRow{Layout: "flat-mdbx", Accounts: 10_000,
		Status: result.Failed})
	p := Pricing{Layouts: []*result.Layouts{l}, Hardware: disks(), GasPerSecond: 100e6}
	done := p.Begun(nil, "again", nil)
	done.Status = result.OK
	p.Finish(t.Context(), done, "again", func(result.Event) {})
	if !slices.ContainsFunc(done.Warnings, func(w engine.Warning) bool {
		return w.Code == gas.StateFailed && w.Remedy == "again" && w.Text == "flat-mdbx failed at "+
			"10,000 accounts, so its prices rest on the other sizes alone"
	}) {
		t.Errorf("%+v", done.Warnings)
	}
}

// TestHeldErrorByHand: what a warm lookup read in a state larger than its memory tests the model;
// where it hardly reads, nothing does.
func TestHeldErrorByHand(t *testing.T) {
	l := compared("flat-pebble", 1_000_000, map[uint64]float64{100_000: 1, 1_000_000: 1})
	l.Workload.Reads = 20_000
	l.Host.Cores = 2
	pages := int64(12 << 20)
	for i := range l.Rows {
		l.Rows[i].Memory = &result.Memory{
			PageCacheBytes: &pages,
			Shares:         []engine.MemoryShare{{Bytes: 16 << 20, Holds: engine.Blocks}},
		}
	}

	p := Pricing{Layouts: []*result.Layouts{l}}
	slots := pricedKinds()[2]
	row := l.Rows[slices.IndexFunc(l.Rows, func(r result.LayoutRow) bool {
		return r.Accounts == 1_000_000
	})]
	predicted, measured, known := p.heldAsBuilt(l, row, slots)
	if !known || measured != 1 || predicted < .5 || predicted > 1 {
		t.Fatalf("%v, %v, %v", predicted, measured, known)
	}

	if off, known := p.heldErrorOf("flat-pebble", slots); !known ||
		math.Abs(off-math.Abs(predicted-1)) > 1e-9 {
		t.Errorf("%v, %v, want %v of the larger state", off, known, predicted-1)
	}

	most := 0.0
	for _, k := range pricedKinds() {
		off, _ := p.heldErrorOf("flat-pebble", k)
		most = max(most, off)
	}

	if off, tested := p.heldError("flat-pebble", slots); !tested || off != most {
		t.Errorf("%v, %v, want %v, the most of all kinds", off, tested, most)
	}

	for i := range l.Rows {
		for n := range l.Rows[i].Lookups {
			l.Rows[i].Lookups[n].BlockReads = figure.Known(enoughReads / 2)
		}
	}

	if off, tested := p.heldError("flat-pebble", slots); tested || off != gas.WorstTested {
		t.Errorf("%v, %v of states that hardly read", off, tested)
	}
}

// TestSlotsWithMemoryHaveAReason: they are a warning for all layouts together, and accounts are
// predicted.
func TestSlotsWithMemoryHaveAReason(t *testing.T) {
	p := Pricing{
		Layouts: []*result.Layouts{
			compared("chunktrie:unpinned", 1000, map[uint64]float64{100_000: 2}),
			compared("chunktrie", 1000, map[uint64]float64{100_000: 2}),
		},
		Hardware:     disks(),
		GasPerSecond: 100e6,
		Ahead:        []Size{{Accounts: 1_000_000, ContractSlots: 1000}},
		AheadMemory:  []int64{64 << 20},
	}

	_, warnings := p.Rows()
	if len(warnings) != 1 || warnings[0].Code != gas.MemoryNotPredicted ||
		warnings[0].Text != "COLD_STORAGE_ACCESS of chunktrie:unpinned, chunktrie is not "+
			"predicted with 64.0 MiB of memory, only with nothing cached: no model knows which "+
			"slots are kept in memory" {
		t.Errorf("%+v", warnings)
	}
}

// TestLayoutsOfAFolderAreChosen: those named are kept, and one that was not measured is refused
// with those that were.
func TestLayoutsOfAFolderAreChosen(t *testing.T) {
	both := func() *Pricing {
		l := compared("flat-pebble", 1000, map[uint64]float64{100_000: 2})
		l.Rows = append(l.Rows, compared("geth-path", 1000, map[uint64]float64{100_000: 5}).Rows...)
		return &Pricing{Layouts: []*result.Layouts{l}}
	}

	for _, c := range []struct{ named, kept, refused string }{
		{Every, "flat-pebble geth-path", ""},
		{"geth-path", "geth-path", ""},
		{"flat-mdbx", "", "flat-pebble, geth-path"},
	} {
		p, m := both(), new(setting.Mistakes)
		p.keepOnly([]string{c.named}, m)
		names := p.Measured()
		if got := strings.Join(names, " "); got != c.kept {
			t.Errorf("%s: %q, want %q", c.named, got, c.kept)
		}

		if err := m.Err(); (err != nil) != (c.refused != "") ||
			err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v", c.named, err)
		}
	}
}
