// Package layouts explains comparisons of layouts of state: what a lookup costs over
// the number of accounts, and which published claims a run supports.
package layouts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Pages that define the figures, and that say how claims are judged.
const (
	method       = "layouts.md"
	claimsMethod = "layouts.md"
)

// Input is a comparison of layouts.
type Input struct{ *result.Layouts }

// Read reads a folder that holds layouts.json.
func Read(dir string) (Input, error) {
	l, err := result.ReadLayouts(dir)
	return Input{l}, err
}

// JSON is what the folder says, for a program.
func (in Input) JSON() any { return in.Layouts }

// Page is what a browser shows.
func (in Input) Page() *view.Page {
	judged := claims.Judge(in.Layouts)
	p := &view.Page{Title: "Statelab: state layouts", Advice: []view.Said{{Text: in.setting()}}, Warnings: in.warnings()}
	p.Answer("", in.answers(judged)...)
	p.Add("What a lookup costs", view.Block{Method: method, Table: in.costs(),
		Note: view.Upper(in.costsNote()) + ". Nothing cached: each is the first lookup of a state that was just opened. " +
			"Memory held: caches warm, the process held to its budget. At a number of accounts with a memory: predicted, not measured. " + in.samples()})
	p.Add("Which claims to believe", view.Block{Method: claimsMethod, Verdicts: verdicts(judged),
		Note: "Claims of others, each with what this run says of it. A smaller state refutes a bound that it exceeds; it confirms one only up to its size. " +
			claims.Elsewhere(judged)})
	p.Add("Over the size", in.charts()...)
	p.Add("All figures",
		view.Block{Title: "A lookup", Method: method, Table: in.lookup(),
			Note: "Of a present account, caches warm, memory held, one lookup in flight. Formulas are next to what they predict."},
		view.Block{Title: "Below the caches, and in a second", Method: method, Table: in.device(),
			Note: "Device bytes with memory held; cold: of a process that has just opened the state."},
		view.Block{Title: "Blocks of an access list", Method: trafficMethod, Table: in.traffic(), Note: trafficNote},
		view.Block{Title: "Keeping and changing the state", Method: method, Table: in.upkeep(),
			Note: "Written: times the bytes of what changed. Memory: the peak of the process that looked up."},
		view.Block{Title: "Lowest and highest of the repeats", Method: method, Table: in.spread(),
			Note: "The other tables show the run with the median time of a lookup."},
		view.Block{Title: "Predicted with this memory", Method: method, Table: in.model(),
			Note: "By a model of each layout's caches and of the page cache, next to what was measured."},
		view.Block{Title: "Not built, but predicted", Method: method, Table: in.outlook(),
			Note: "Nodes by a formula, device reads by a model of each layout's caches and of the page cache: no measurement. " +
				"Memory in bytes per account: what this run had for each account of the largest size, so more memory for a larger state. " +
				"Left out where the measured state fitted in memory."})
	p.Add("Facts",
		view.Block{Title: "Every kind of lookup", Method: method, Table: in.kinds(), Folded: true},
		view.Block{Title: "What the layouts are", Table: in.labels(), Folded: true},
		view.Block{Title: "Command", Pre: view.Shell(in.Command), Folded: true})
	return p
}

func verdicts(judged []claims.Judged) (list []view.Verdict) {
	class := map[string]string{claims.Holds: "holds", claims.HoldsIf: "if", claims.Fails: "fails", claims.Untested: "untested", claims.CannotTell: "untested"}
	for _, j := range judged {
		if j.Needs == nil {
			list = append(list, view.Verdict{Word: j.Word, Clause: j.Clause, Class: class[j.Word], Says: view.Upper(j.Says), By: j.By,
				Source: strings.TrimPrefix(j.Source, "https://"), Given: j.Given, Figures: j.Figures(), Where: strings.Join(j.Places, ", ")})
		}
	}
	return list
}

// warnings are those of one kind and layout once, and what is absent.
func (in Input) warnings() (list []view.Warning) {
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
		list = append(list, view.Warning{Text: w.Text, Remedy: w.Remedy})
	}
	for k, n := range more {
		list[at[k]].Where = fmt.Sprintf("and %d more of the kind", n)
	}
	for _, figure := range slices.Sorted(maps.Keys(in.Absent)) {
		list = append(list, view.Warning{Text: strings.ReplaceAll(figure, "_", " ") + " is absent: " + in.Absent[figure]})
	}
	return list
}

// setting is under what everything was measured, in a sentence.
func (in Input) setting() string {
	w := in.Workload
	return fmt.Sprintf("%s accounts, %d slots of %s of them; %d blocks of %d updates; %s lookups of each kind; seed %d. %s, %d cores, %s, %s; %s.",
		view.List(w.Accounts, accountsText), w.SlotsPer, unit.Percent(w.ContractShare), w.UpdateBlocks, w.UpdateAccounts, unit.Count(w.Reads), w.Seed,
		in.Host.CPU, in.Host.Cores, unit.Bytes(in.Host.MemoryBytes), strings.TrimSpace(in.Host.Device+" "+in.Host.Filesystem),
		in.Started.UTC().Format("2006-01-02 15:04 UTC"))
}
