package prices

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// table has two layouts at two sizes on one disk; the larger size is predicted.
func table() Input {
	h := result.Hardware{Name: "nvme", Points: []result.DiskPoint{
		{
			InFlight:       1,
			ReadsPerSecond: 12_500,
			MeanNanos:      80_000,
			Spread:         result.Range{Low: 12_000, High: 13_000},
		},
		{
			InFlight:       32,
			ReadsPerSecond: 250_000,
			MeanNanos:      128_000,
			Spread:         result.Range{Low: 240_000, High: 260_000},
		}}}

	p := &result.Price{
		Status:       result.OK,
		GasPerSecond: 100e6,
		Formula:      gas.Formula(100e6),
		Parameters:   gas.Parameters(),
		Hardware:     []result.Hardware{h},
	}

	for name, reads := range map[string]float64{"flat": .1, "trie": 4, "slow": 4} {
		for _, accounts := range []uint64{100_000, 300_000_000} {
			r := result.PriceRow{
				Parameter:     gas.ColdAccount,
				Layout:        name,
				Accounts:      accounts,
				ContractSlots: 10_000,
				Condition:     result.FirstLookups,
				Reads:         result.Estimate{Value: reads, Low: reads, High: reads},
				CPUNanos:      figure.Known(5000),
				Predicted:     accounts > 100_000,
			}

			if !r.Predicted {
				r.Builds = 1
			}

			if name == "slow" {
				r.CPUNanos = figure.Known(40_000)
			}

			gas.Fill(&r, h, p.GasPerSecond)
			p.Rows = append(p.Rows, r)
		}
	}

	return Input{p}
}

// A layout whose CPU time nobody measured has reads, and neither a price nor an answer.
func TestWithoutCPUTimeThereIsNoPrice(t *testing.T) {
	in := table()
	for i := range in.Rows {
		if r := &in.Rows[i]; r.Layout == "trie" {
			r.CPUNanos = figure.Unavailable("version 0.1.0 did not count it")
			gas.Fill(r, in.Hardware[0], in.GasPerSecond)
		}
	}

	answer, safe := strings.Join(in.answers(), "\n"), strings.Join(in.safety(), "\n")
	if want := "trie has no price, since the CPU time was not measured"; !strings.Contains(answer,
		want) {
		t.Errorf("%q is not in:\n%s", want, answer)
	}

	if want := "trie: not known, since its CPU time is missing: version 0.1.0 did not " +
		"count it."; !strings.Contains(safe, want) {
		t.Errorf("%q is not in:\n%s", want, safe)
	}

	for _, c := range in.columns() {
		words, shown := c.Words, c.Value
		for _, r := range in.Rows {
			ofPrices := c.Name == "alone" || c.Name == "at depth" || c.Name == "CPU"
			if !ofPrices || r.IsPriced() {
				continue
			}

			if words != nil && words(r) != doc.None || words == nil && shown(r) != nil {
				t.Errorf("%s in %s of a row without a CPU time is shown", c.Name, c.Unit)
			}
		}
	}
}

// 30 us buy .1 reads of 80 us and 5 us of CPU; 4 reads only with 32 in flight, where each
// takes 4 us; 40 us of CPU on no disk.
func TestAnswersAndSafetyByHand(t *testing.T) {
	in := table()
	answer, safe := strings.Join(in.answers(), "\n"), strings.Join(in.safety(), "\n")
	for _, want := range []string{"COLD_ACCOUNT_ACCESS, proposed 3,000 gas, nothing cached: " +
		"flat 540 gas, untested, 538 to 542, within it even one read at a time; ",
		"Predicted at 300M accounts, a contract of 10k slots, one build; on the disk nvme " +
			"(80.0 us for a read, 32 reads in flight).",
		"trie 2,100 gas, untested, 2,040 to 2,170, within it at this depth only; slow 5,600 gas",
		"above it."} {
		if !strings.Contains(answer, want) {
			t.Errorf("%q is not in:\n%s", want, answer)
		}
	}

	for _, want := range []string{"COLD_ACCOUNT_ACCESS at 3,000 gas (30.0 us), measured at 100k " +
		"accounts, a contract of 10k slots, nothing cached. ",
		"flat: safe with one access after another.",
		// and for what was asked
		"COLD_ACCOUNT_ACCESS at 3,000 gas (30.0 us), predicted at 300M accounts",
		"trie: safe if 92% of its 4.00 reads are cached, if a read takes at most 6.25 us, or " +
			"with 32 reads or more in flight on this disk.",
		"slow: not safe whatever the disk, since its CPU time alone is 40.0 us."} {
		if !strings.Contains(safe, want) {
			t.Errorf("%q is not in:\n%s", want, safe)
		}
	}
}

// TestReadsAloneDecideWhateverTheCPU: with one read of 100 us in flight, 4 reads are 40,000 gas,
// and a CPU time that other processes lengthened does not matter; .1 reads are 1,000, and it does.
func TestReadsAloneDecideWhateverTheCPU(t *testing.T) {
	in := table()
	in.Hardware = []result.Hardware{gas.GivenLatency("100us", 100*time.Microsecond)}
	in.Warnings = []engine.Warning{{Code: result.BusyMachine}}
	for i := range in.Rows {
		r := &in.Rows[i]
		r.CPUNanos = figure.Known(100_000)
		if r.Layout == "slow" {
			r.CPUNanos = figure.Unavailable("nobody counted it")
		}
		gas.Fill(r, in.Hardware[0], in.GasPerSecond)
	}

	answer, safe := strings.Join(in.answers(), "\n"), strings.Join(in.safety(), "\n")
	for _, want := range []string{"on a disk of 100 us per read, 1 in flight.",
		"trie 50,000 gas, untested, 50,000 to 50,000, above it",
		"flat 11,000 gas, untested, 11,000 to 11,000, above it by its CPU time",
		" The CPU time was measured while other processes used the processors."} {
		if !strings.Contains(answer, want) {
			t.Errorf("%q is not in:\n%s", want, answer)
		}
	}

	no := ": no, the reads alone cost 40,000 gas, without any CPU time."
	unknown := "not known, since its CPU time was 100 us"
	if strings.Count(safe, no) != 4 || strings.Count(safe, unknown) != 2 {
		t.Errorf("%q is not there for trie and slow, or flat is known:\n%s", no, safe)
	}
}

// TestOneBuildIsNamed: a price that rests on one build says so in its sentence, also the predicted.
func TestOneBuildIsNamed(t *testing.T) {
	in := table()
	all := func() string {
		measured := in.pricesAndBands(in.main(), gas.ColdAccount)
		return strings.Join(append(in.answers(), measured...), "\n")
	}
	text := all()
	if strings.Count(text, "slots, one build; on the") != 2 {
		t.Errorf("no word of one build, predicted and measured:\n%s", text)
	}

	for i := range in.Rows {
		if r := &in.Rows[i]; r.Layout != "flat" && !r.Predicted {
			twice := gas.Pool([]result.PriceRow{*r, *r})[0]
			gas.Fill(&twice, in.Hardware[0], in.GasPerSecond)
			*r = twice
		}
	}

	text = all()
	if strings.Count(text, "flat (one build) ") != 2 || strings.Count(text, "one build") != 2 {
		t.Errorf("not flat alone is of one build:\n%s", text)
	}
}

// TestTheAnswerSaysWhatIsNotPredicted: a price that is missing has its reason among the answers.
func TestTheAnswerSaysWhatIsNotPredicted(t *testing.T) {
	in := table()
	in.Warnings = []engine.Warning{{Code: gas.MemoryNotPredicted, Text: "slots of trie are not"}}
	if all := in.answers(); !slices.Contains(all, "slots of trie are not.") {
		t.Errorf("%q", all)
	}
}

func TestThePageHasItsFormulaAndMarksPredictions(t *testing.T) {
	var page, text bytes.Buffer
	if err := render.Page(&page, table().Document()); err != nil {
		t.Fatal(err)
	}

	if err := render.Terminal(&text, table().Document()); err != nil {
		t.Fatal(err)
	}

	for _, formula := range gas.Formula(100e6) {
		if !strings.Contains(html.UnescapeString(page.String()), formula) {
			t.Errorf("%q is not on the page", formula)
		}
	}

	if !strings.Contains(page.String(), "300M / 10k predicted") ||
		!strings.Contains(page.String(), `class="chart-data"`) {
		t.Error("no chart, or a prediction without a mark")
	}

	if !strings.Contains(text.String(), "COLD_ACCOUNT_ACCESS") {
		t.Errorf("%s", &text)
	}
}

// A folder without a row that was built, as after an interrupt, can still be drawn.
func TestAnEmptyTableIsDrawn(t *testing.T) {
	var out bytes.Buffer
	if err := render.Page(&out, (Input{&result.Price{}}).Document()); err != nil {
		t.Error(err)
	}
	if err := render.Terminal(&out, (Input{&result.Price{}}).Document()); err != nil {
		t.Error(err)
	}
}

// TestNarrowColumns: a terminal shows the columns by name, wherever those of the page stand.
func TestNarrowColumns(t *testing.T) {
	var names []string
	for _, c := range (Input{Price: &result.Price{}}).narrow() {
		names = append(names, c.Name)
	}
	want := "parameter layout reads CPU alone at depth lowest highest today proposed set by"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTheAnswerSaysWhatItIsOf: slots of many contracts and memory are among the conditions, each
// memory has its sentence, and prices have as many digits as their bands deserve.
func TestTheAnswerSaysWhatItIsOf(t *testing.T) {
	in := table()
	for i := range in.Rows {
		if r := &in.Rows[i]; r.Predicted {
			r.ContractSlots, r.SpreadSlots = 0, 3e9
			warm := *r
			warm.Condition, warm.MemoryBytes = result.HeldLookups, 16<<30
			if r.TestedError = figure.Known(.02); r.Layout != "flat" {
				warm.TestedError = figure.Known(.03)
			}
			warm.QueuedGas = result.Estimate{Value: 12_345, Low: 98_765e-1, High: 123_456}
			in.Rows = append(in.Rows, warm)
		}
	}

	got := in.answers()
	for i, want := range []string{
		"COLD_ACCOUNT_ACCESS, proposed 3,000 gas, 16.0 GiB of memory: flat 12,300 gas, " +
			"untested, 9,880 to 123,000, above it; slow 12,300 gas, range 9,880 to 123,000, ",
		"COLD_ACCOUNT_ACCESS, proposed 3,000 gas, nothing cached: flat 540 gas",
		"Predicted at 300M accounts, 3B slots spread as on the main network, one build; on the " +
			"disk nvme (80.0 us for a read, 32 reads in flight). Untested: nothing that was " +
			"built says how far off the model is, and an error of 25 % of the reads is assumed; ",
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("%q does not begin\n%s", want, got[i])
		}
	}

	if got := accountsAndSlots(in.asked()[0]); got != "300M / 3B spread" {
		t.Errorf("%q", got)
	}
}

// TestNarrowing: a band names the larger part of its error, and what narrows it by how much.
func TestNarrowing(t *testing.T) {
	for name, c := range map[string]struct {
		reads, cpu float64 // errors, as shares; of a predicted CPU time with the reads' in it
		predicted  bool
		memory     int64
		want       string
	}{
		"narrow": {.1, .1, true, 0, ""},
		// 300M are 3,000 times 100k: of ln 3,000, ln 10 are saved.
		"far": {.4, .5, true, 0, "COLD_ACCOUNT_ACCESS of trie, nothing cached, may cost " +
			"48 % more, mostly by the number of reads (40 %), since the state " +
			"is 2.73k times the largest built: with --accounts 1M among the sizes that would be " +
			"about 28 %."},
		"CPU": {.2, .6, true, 0, "mostly by the CPU time of a read (57 %): four times as many " +
			"--repeats"},
		"with memory": {.5, .5, true, 1 << 30, "(50 %, assumed): nothing built tested the model " +
			"of the memory; "},
		"measured": {.6, .1, false, 0, "--cold-lookups or --repeats halve that."},
	} {
		in := table()
		for i := range in.Rows {
			r := &in.Rows[i]
			if r.Layout != "trie" || r.Predicted != c.predicted {
				continue
			}

			r.MemoryBytes, r.CPUError = c.memory, figure.Known(c.cpu)
			r.Reads.Low, r.Reads.High = 4/(1+c.reads), 4*(1+c.reads)
			r.CPUNanos = figure.Known(16_000) // as long as 4 reads in flight take
			gas.Fill(r, in.Hardware[0], in.GasPerSecond)
			got := in.narrowing(*r)
			if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}
