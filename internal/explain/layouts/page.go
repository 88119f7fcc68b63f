// Package layouts explains comparisons of layouts of state: what a lookup costs over
// the number of accounts, and which published claims a run supports.
package layouts

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Pages that define the figures, and that say how claims are judged.
const (
	method       = "layouts.md"
	claimsMethod = "layouts.md"
)

// Input is a comparison of layouts.
type Input struct{ claims.Evidence }

// Read reads a folder that holds layouts.json.
func Read(dir string) (Input, error) {
	l, err := result.ReadLayouts(dir)
	return Input{claims.Evidence{Layouts: l}}, err
}

// Document says what a lookup costs in each layout, and which claims to believe.
func (in Input) Document() *doc.Document {
	judged := claims.Check(in.Layouts)
	p := &doc.Document{
		Title:    "Statelab: state layouts",
		Advice:   []doc.Statement{{Text: in.conditions(), Detail: true}},
		Warnings: doc.Detailed(in.warnings()),
	}

	p.Answer("", append(in.answers(judged), in.workload()...)...)
	p.Add("What a lookup costs", doc.Block{
		Title:  doc.Upper(in.costsNote()),
		Method: method,
		Table:  in.costs(),
		Texts:  doc.Without([]string{in.samples()}),
		Note: "Nothing cached: each is the first lookup of a state that was just opened. " +
			"Memory held: caches warm, the process held to its budget. At a number of accounts " +
			"with a memory: predicted, not measured.",
	})

	here := doc.Where(judged, func(j claims.Judged) bool { return j.Needs == nil })
	p.Add("Which claims to believe", doc.Block{
		Method:   claimsMethod,
		Verdicts: claims.Verdicts(here),
		Note: "Claims of others, each with what this run says of it. A smaller state refutes a " +
			"bound that it exceeds; it confirms one only up to its size.",
		Texts: doc.Without([]string{claims.NotCovered(judged)}),
	})

	p.Add("Over the size", doc.AsDetail(in.charts())...)
	p.Add("All figures",
		doc.Block{Title: "A lookup", Method: method, Table: in.lookup(),
			Note: "Of a present account, caches warm, memory held, one lookup in flight. " +
				"Formulas are next to what they predict."},
		doc.Block{Title: "Below the caches, and in a second", Method: method, Table: in.device(),
			Note: "Device bytes with memory held; cold: of a process that has just opened the " +
				"state."},
		doc.Block{
			Title:  "Nodes and blocks, nothing cached",
			Method: method,
			Table:  in.nodeBytes(),
			Note:   nodeBytesNote,
		},
		doc.Block{
			Title:  "Blocks of an access list",
			Method: trafficMethod,
			Table:  in.traffic(),
			Note:   trafficNote,
		},
		doc.Block{Title: "Keeping and changing the state", Method: method, Table: in.upkeep(),
			Note: "Written: times the bytes of what changed. Memory: the peak of the process " +
				"that looked up."},
		doc.Block{Title: "Lowest and highest of the repeats", Method: method, Table: in.spread(),
			Note: "The other tables show the run with the median time of a lookup."},
		doc.Block{
			Title:  "With this memory, by a model of the caches",
			Method: method,
			Table:  in.model(),
			Note: "By a model of each layout's caches and of the page cache, next to what was " +
				"measured.",
		},
		doc.Block{Title: "Not built, but predicted", Method: method, Table: in.outlook(),
			Note: "Nodes by a formula, device reads by a model of each layout's caches and of " +
				"the page cache: no measurement. Memory in bytes per account: what this run had " +
				"for each account of the largest size, so more memory for a larger state. Left " +
				"out where the measured state fitted in memory."})

	p.Add("Facts",
		doc.Block{Title: "Every kind of lookup", Method: method, Table: in.kinds(), Folded: true},
		doc.Block{Title: "What the layouts are", Table: in.labels(), Folded: true},
		doc.Block{Title: "Command", Pre: doc.Shell(in.Command), Folded: true})

	return p
}

// warnings are those of one kind and layout once, and what is absent.
func (in Input) warnings() (list []doc.Warning) {
	type kind struct{ layout, code string }
	at, more := map[kind]int{}, map[kind]int{}
	for _, w := range in.Warnings {
		layout, _, _ := strings.Cut(w.Text, ": ")
		k := kind{layout, w.Code}
		if _, known := at[k]; known {
			more[k]++
			continue
		}

		at[k] = len(list)
		list = append(list, doc.Warning{Text: w.Text, Remedy: w.Remedy})
	}

	for k, n := range more {
		list[at[k]].Where = fmt.Sprintf("and %d more of the kind", n)
	}

	for _, figure := range slices.Sorted(maps.Keys(in.Absent)) {
		list = append(list, doc.Warning{Text: strings.ReplaceAll(figure, "_", " ") +
			" is unavailable: " + in.Absent[figure]})
	}

	return list
}

// Setting is what was measured: the state, its updates and its lookups.
func (in Input) Setting() string {
	w := in.Workload
	slots := fmt.Sprintf("%d slots of %s of them", w.SlotsPer, unit.Percent(w.ContractShare))
	if w.ContractSlots > 0 {
		slots = doc.ShortCount(w.ContractSlots) + " slots of one contract, in which alone " +
			"they are looked up and changed"
	}

	if w.CodeBytes > 0 {
		slots += fmt.Sprintf(", %s bytes of code of each contract", unit.Count(w.CodeBytes))
	}

	text := fmt.Sprintf("%s accounts, %s; %d blocks of %d updates; %s lookups of each kind",
		doc.List(w.Accounts, doc.ShortCount[uint64]), slots,
		w.UpdateBlocks, w.UpdateAccounts, unit.Count(w.Reads))
	if w.Accesses != "" {
		text += "; the blocks of " + filepath.Base(w.Accesses)
	}

	return text
}

// workload says what the answers are of: the state and its lookups, which are uniform, and the
// options that were set.
func (in Input) workload() (said []string) {
	said = append(said, "Workload: "+in.Setting()+", of keys drawn evenly.")

	set := doc.OptionsSet(doc.Each(in.Rows, func(r result.LayoutRow) map[string]string {
		return r.Overrides
	}))
	if len(set) > 0 {
		said = append(said, "Options that differ from the profile: "+strings.Join(set, ", ")+".")
	}

	return said
}

// conditions are under what everything was measured, in two sentences.
func (in Input) conditions() string {
	return fmt.Sprintf("Seed %d. %s, %d cores, %s, %s; %s.", in.Workload.Seed,
		in.Host.CPU, in.Host.Cores, unit.Bytes(in.Host.MemoryBytes),
		strings.TrimSpace(in.Host.Device+" "+in.Host.Filesystem),
		in.Started.UTC().Format("2006-01-02 15:04 UTC"))
}

// answers are the sentences that the user came for.
func (in Input) answers(judged []claims.Judged) (answers []string) {
	largest := claims.Largest(in.Layouts)
	var costs []string
	if held := in.readsRange(largest, result.HeldLookups); held != "" {
		budget := "memory not held"
		if in.Workload.MemoryBytes > 0 {
			budget = "memory held to " + doc.ShortBytes(in.Workload.MemoryBytes)
		}
		costs = append(costs, budget+": "+held)
	}

	if first := in.readsRange(largest, result.FirstLookups); first != "" {
		costs = append(costs, "with nothing cached: "+first)
	}

	answers = in.asked()
	if len(costs) > 0 {
		answers = append(answers,
			fmt.Sprintf("A lookup of one of %s accounts costs, %s.", doc.ShortCount(largest),
				strings.Join(costs, "; ")))
	}

	if unknown := in.readsUnknown(largest); unknown != "" {
		answers = append(answers, "The reads of "+unknown+" cannot be counted: mapped files on a "+
			"filesystem in memory cause none. Put --db on a disk.")
	}

	agree := "" // of the largest size
	for _, v := range in.Roots {
		size, names := doc.ShortCount(v.Accounts), strings.Join(v.Layouts, ", ")
		switch v.Verdict {
		case result.Identical:
			agree = fmt.Sprintf("Roots at %s accounts: identical, %d blocks of %s.", size,
				v.Compared, names)
		case result.Different:
			answers = append(answers,
				fmt.Sprintf("Roots at %s accounts DIFFER from block %d on, among %s.", size,
					v.Block, names))
		}
	}

	return doc.Without(append(answers, agree, in.trafficRoots(), claims.Sentence(judged)))
}

// readsUnknown are the layouts whose reads at a size no count has.
func (in Input) readsUnknown(accounts uint64) string {
	unknown := doc.Where(in.Rows, func(r result.LayoutRow) bool {
		return r.Accounts == accounts &&
			slices.ContainsFunc(r.Lookups, func(l result.Lookups) bool {
				return l.ReadsUnknown && l.Condition == result.FirstLookups
			})
	})
	return doc.List(unknown, func(r result.LayoutRow) string { return r.Layout })
}

// nothing is fewer reads than any device shows.
const nothing = 0.001

// asked answers which layout suits the sizes and the memory that the run was asked about.
func (in Input) asked() (answers []string) {
	type choice struct {
		layout string
		reads  float64
	}

	for _, accounts := range in.Workload.At {
		for _, memory := range in.Workload.AtMemory {
			var choices []choice
			var unknown []string
			for _, name := range in.Names() {
				if reads := in.Predicted(name, accounts, memory); reads != nil && doc.Sane(*reads) {
					choices = append(choices, choice{name, *reads})
				} else {
					unknown = append(unknown, name)
				}
			}

			at := fmt.Sprintf("With %s accounts and %s of memory", doc.ShortCount(accounts),
				doc.ShortBytes(memory))
			if len(choices) == 0 {
				answers = append(answers, at+": no layout here has a model that predicts this.")
				continue
			}

			slices.SortStableFunc(choices, func(a, b choice) int {
				return cmp.Compare(a.reads, b.reads)
			})
			if last := choices[len(choices)-1]; len(choices) > 1 && last.reads < nothing {
				answers = append(answers,
					fmt.Sprintf("%s, %s all read nothing of the device to look up an account, by "+
						"prediction: choose by something else.", at,
						doc.List(choices, func(c choice) string { return c.layout })))
				continue
			}

			text := fmt.Sprintf("%s, %s reads least: %s device reads for each lookup of an "+
				"account with warm caches, by prediction "+
				"(the first lookup of a state, which statelab price predicts, reads many times "+
				"as much)", at, choices[0].layout,
				doc.PerGet(choices[0].reads))

			if len(choices) > 1 {
				text += "; " + doc.List(choices[1:], func(c choice) string {
					return c.layout + " " + doc.PerGet(c.reads)
				})
			}

			if len(unknown) > 0 {
				text += ". Without a prediction: " + strings.Join(unknown, ", ")
			}

			answers = append(answers, text+".")
		}
	}

	return answers
}

// readsRange names the layouts that read least and most at a size: "flat-pebble 0.53
// to geth-hash 2.12 device reads".
func (in Input) readsRange(accounts uint64, condition string) string {
	type reading struct {
		claims.Reading
		layout string
	}

	var all []reading
	for i, row := range in.Rows {
		if r, ok := in.Reads(i, condition); ok && row.Status == result.OK &&
			row.Accounts == accounts {
			all = append(all, reading{r, row.Layout})
		}
	}

	if len(all) == 0 {
		return ""
	}

	byValue := func(a, b reading) int { return cmp.Compare(a.Value, b.Value) }
	minimum, maximum := slices.MinFunc(all, byValue), slices.MaxFunc(all, byValue)
	from, to := minimum.layout, maximum.layout
	switch {
	case from == to && len(all) > 1:
		return fmt.Sprintf("%s and all other layouts %s %s", from, doc.PerGet(minimum.Value),
			minimum.Unit)
	case from == to:
		return fmt.Sprintf("%s %s %s", from, doc.PerGet(minimum.Value), minimum.Unit)
	}

	text := from + " " + doc.PerGet(minimum.Value)
	if minimum.Unit != maximum.Unit {
		text += " " + minimum.Unit
	}

	return fmt.Sprintf("%s to %s %s %s", text, to, doc.PerGet(maximum.Value), maximum.Unit)
}
