package engines

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
)

// Every renderer says what differs from the defaults, and that device reads were not counted.
func TestAnswersSayWhatWasAsked(t *testing.T) {
	in := read(t, fixture(t, "asked", []float64{1, 9.6}, "", nil, -1))
	for _, p := range in.Sweeps[0].Points {
		w := &p.Run.Workload
		w.MissingShare, w.ZipfTheta, w.Threads, w.ValueBytes, w.ValueModel = 0.5, 0.99, 2, 80,
			"random"
		w.KeyOrder = "sorted"
		p.Run.Engine.Overrides = map[string]string{"FilterBitsPerKey": "5"}
		p.Run.Memory = &result.Memory{Shares: []engine.MemoryShare{
			{Use: "block cache", Bytes: 8 * mib},
			{Use: "filters and indexes", Bytes: 3 * mib, Holds: engine.TableMetadata},
		}}
	}

	for name, show := range map[string]func(io.Writer, *doc.Document) error{
		"terminal": render.Terminal, "Markdown": render.Markdown, "page": render.Page,
	} {
		var out bytes.Buffer
		must(t, show(&out, in.Document()))
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{"50% negative lookups", "Zipf exponent 0.99", "2 threads",
			"sorted keys", "values of 80 bytes", "FilterBitsPerKey=5",
			"3 MiB of filters and indexes in memory outside its cache",
			"device reads, computed, not counted"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%.900s", name, want, text)
			}
		}

		if strings.Contains(text, "110 B") {
			t.Errorf("%s says 110 bytes of values of 80", name)
		}
	}
}

// What is the default is not said, and requests that a device counted are not called computed.
func TestAnswersLeaveOutDefaults(t *testing.T) {
	in := read(t, fixture(t, "plain", []float64{1, 9.6}, "", nil, -1))
	for i := range in.Sweeps[0].Points {
		run := in.Sweeps[0].Points[i].Run
		run.Workload = result.Workload{Name: "readrandom", Keys: 1000, KeyBytes: 32,
			ValueBytes: 110, ValueModel: "random", KeyOrder: "hashed", Threads: 1, Gets: 1}
		run.PageCache, run.Engine.Overrides, run.Memory = "asis", nil, nil
		run.Phases = []result.Phase{{Name: "measure", Device: &result.DeviceIO{Reads: 1}}}
	}

	if said := in.Sweeps[0].asked(); len(said) > 0 {
		t.Errorf("said %q of the defaults", said)
	}

	for _, p := range in.Sweeps[0].Points {
		if short, whole := p.derivedDeviceReads(); short+whole != "" {
			t.Errorf("counted device reads are said to be %q", whole)
		}
	}
}

func TestMemoryAboveTheBudget(t *testing.T) {
	run := &result.Run{Engine: result.Engine{Name: "one"}, Memory: &result.Memory{
		BudgetBytes: 4 * mib,
		Shares: []engine.MemoryShare{
			{Use: "block cache", Bytes: 3 * mib},
			{Use: "filters and indexes", Bytes: 2 * mib, Holds: engine.TableMetadata},
			{Use: engine.PageCacheUse, Bytes: 90 * mib},
		},
	}}

	want := "Memory is not equal: one keeps 5 MiB in memory, above its budget of 4 MiB; 2 MiB of " +
		"it are filters and indexes outside its cache."
	if text := beyondMemory(run); text != want {
		t.Errorf("%q, not %q", text, want)
	}

	run.Memory.BudgetBytes = 8 * mib
	if text := beyondMemory(run); text != "" {
		t.Errorf("within the budget: %q", text)
	}
}
