package engines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// asked are what every sweep says of itself. What all of them say is said once.
func (in Input) asked() []doc.Statement {
	texts := doc.Each(in.Sweeps, func(s *Sweep) string { return strings.Join(s.asked(), "\n") })
	if len(doc.Distinct(texts, func(text string) string { return text })) == 1 {
		return doc.Statements("", in.Sweeps[0].asked()...)
	}

	return doc.Flat(in.Sweeps, func(s *Sweep) []doc.Statement {
		return doc.Statements(s.Name, s.asked()...)
	})
}

// asked are the sentences that say what an answer is of: the workload where it is not the default
// one, the options that are not the profile's, and memory that the engines do not share equally.
// Without them, figures of negative lookups or of another block size would read as those of a
// database with the defaults.
func (s *Sweep) asked() []string {
	run := s.firstRun()
	if run == nil || run.Verb != "read" {
		return nil
	}

	var said []string
	if parts := s.workload(run.Workload); len(parts) > 0 {
		said = append(said, "Workload: "+strings.Join(parts, ", ")+".")
	}

	if set := s.overrides(); len(set) > 0 {
		said = append(said, "Options that differ from the profile: "+strings.Join(set, ", ")+".")
	}

	return append(said, s.unequalMemory()...)
}

// workload are the settings of a workload that are not the defaults, with all values of those that
// are axes.
func (s *Sweep) workload(w result.Workload) (parts []string) {
	add := func(differs bool, axis, one, format string) {
		values := []string{one}
		if slices.Contains(s.varied, axis) {
			values, differs = s.values(axis), true
		}

		if differs {
			parts = append(parts, fmt.Sprintf(format, strings.Join(values, ", ")))
		}
	}

	run := s.firstRun()
	add(w.MissingShare > 0, "missing", fmt.Sprintf("%g%%", 100*w.MissingShare),
		"%s negative lookups")
	add(w.ZipfTheta > 0, "zipf", fmt.Sprint(w.ZipfTheta), "Zipf exponent %s")
	add(w.Threads > 1, "threads", fmt.Sprint(w.Threads), "%s threads")
	add(w.KeyOrder == keyspace.Sorted, "", w.KeyOrder, "%s keys")
	add(w.Rate > 0, "rate", doc.ShortCount(w.Rate), "arrival rate %s Gets/s")
	add(w.BatchGets > 0, "batch-gets", fmt.Sprint(w.BatchGets), "batches of %s Gets")
	add(run.PageCache != "asis" && run.PageCache != "", "page-cache", run.PageCache,
		"page cache %s")
	if run.Database.Written != "statelab" {
		return parts // the sizes of keys and values are not what somebody asked for
	}

	if w.KeyBytes != keyspace.DefaultKeyBytes {
		parts = append(parts, fmt.Sprintf("keys of %d bytes", w.KeyBytes))
	}

	if w.ValueBytes != keyspace.DefaultValueBytes || w.ValueModel != keyspace.Random {
		bytes := doc.WithoutZeros(unit.Significant(w.ValueBytes, 3))
		parts = append(parts, strings.TrimSpace("values of "+bytes+" bytes "+
			strings.TrimPrefix(w.ValueModel, keyspace.Random)))
	}

	return parts
}

// overrides are the options that somebody set, with all their values: NAME=VALUE.
func (s *Sweep) overrides() []string {
	return doc.OptionsSet(doc.Each(s.runs(), func(r *result.Run) map[string]string {
		return r.Engine.Overrides
	}))
}

// unequalMemory says which engines keep more in memory than the others: above the budget, or,
// where only the cache is equal, filters and indexes outside it.
func (s *Sweep) unequalMemory() (said []string) {
	for _, name := range doc.Distinct(measured(s.Points), s.entrant) {
		for _, p := range measured(s.Points) {
			if s.entrant(p) != name || p.Run == nil || p.Run.Memory == nil {
				continue
			}

			if text := beyondMemory(p.Run); text != "" {
				said = append(said, text)
				break
			}
		}
	}

	return said
}

// beyondMemory is what a run keeps in memory that its budget, or its cache, does not say.
func beyondMemory(run *result.Run) string {
	m := run.Memory
	var kept, outside int64
	for _, share := range m.Shares {
		if share.Use != engine.PageCacheUse {
			kept += share.Bytes
		}

		if share.Holds == engine.TableMetadata || share.Holds == engine.EntryIndex {
			outside += share.Bytes
		}
	}

	switch {
	case m.BudgetBytes > 0 && kept > m.BudgetBytes:
		text := fmt.Sprintf("Memory is not equal: %s keeps %s in memory, above its budget of %s",
			run.Engine.Name, doc.ShortBytes(kept), doc.ShortBytes(m.BudgetBytes))
		if outside > 0 {
			text += fmt.Sprintf("; %s of it are filters and indexes outside its cache",
				doc.ShortBytes(outside))
		}
		return text + "."
	case m.BudgetBytes == 0 && outside > 0:
		return fmt.Sprintf("%s keeps %s of filters and indexes in memory outside its cache, so "+
			"equal caches are not equal memory.", run.Engine.Name,
			doc.ShortBytes(outside))
	}

	return ""
}

// derivedDeviceReads says how device reads follow from other counts; "" where the device's own
// requests were counted, or where there are none to speak of. short is for a sentence.
func (p Point) derivedDeviceReads() (short, whole string) {
	if p.Run == nil || p.Figures.DeviceSource == "" ||
		p.Figures.OrZero(figure.DeviceReadsPerGet) == 0 {
		return "", ""
	}

	for _, phase := range p.Run.Phases {
		if phase.Name == "measure" && phase.Device != nil {
			return "", ""
		}
	}

	return ", computed, not counted",
		"Device reads are computed, not counted: " + strings.TrimPrefix(p.Figures.DeviceSource,
			"not counted directly: ") + "."
}

// derivedNote is the sentence below a table with device reads that were not counted.
func (c curve) derivedNote() string {
	for _, p := range c.measured() {
		if _, whole := p.derivedDeviceReads(); whole != "" {
			return whole
		}
	}

	return ""
}
