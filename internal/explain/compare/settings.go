package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// Difference is a setting in which two groups of runs differ.
type Difference struct {
	Setting string `json:"setting"` // as --allow names it
	From    string `json:"from"`
	To      string `json:"to"`
}

func (d Difference) String() string { return d.Setting + " (" + d.From + " and " + d.To + ")" }

// conditions are what must be the same: what was asked of the subject, and on what.
func conditions(r *result.Run) [][2]string {
	w, h := r.Workload, r.Host
	list := [][2]string{
		{"workload", w.Name}, {"keys", number(w.Keys)}, {"key-bytes", fmt.Sprint(w.KeyBytes)}, {"value-bytes", unit.Significant(w.ValueBytes, 2)},
		{"value-model", w.ValueModel}, {"key-order", w.KeyOrder}, {"missing", fmt.Sprint(w.MissingShare)}, {"zipf", fmt.Sprint(w.ZipfTheta)},
		{"gets", number(w.Gets)}, {"rate", fmt.Sprint(w.Rate)}, {"page-cache", r.PageCache},
		{"os", h.OS}, {"hardware-class", cmp.Or(h.Class, "none")}, {"cpu", h.CPU}, {"cores", fmt.Sprint(h.Cores)},
		{"host-memory", unit.Bytes(h.MemoryBytes)}, {"memory-limit", unit.Bytes(h.MemoryLimit)},
		{"filesystem", h.Filesystem}, {"device", h.Device}, {"read-ahead", fmt.Sprintf("%d KiB", h.ReadAheadKB)},
	}
	if r.Figures.Puts > 0 { // the defaults of a run that wrote nothing do not matter
		list = append(list, [2]string{"write-rate", fmt.Sprint(w.WriteRate)}, [2]string{"batch", fmt.Sprint(w.BatchKeys)})
	}
	if c := r.Changes; c != nil {
		list = append(list, [2]string{"changes", fmt.Sprintf("%s %d to %d", c.Format, c.First, c.Last)})
	}
	if f := r.Figures.Replay; f != nil {
		list = append(list, [2]string{"leaves", number(f.Leaves)}, [2]string{"change-bytes", fmt.Sprint(f.UserBytes)})
	}
	if s := r.Figures.State; s != nil {
		list = append(list, [2]string{"accounts", number(s.Accounts)}, [2]string{"slots", number(s.Slots)}, [2]string{"block", number(s.Block)})
	}
	return list
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// subjects are what may differ; an answer names what does.
func subjects(r *result.Run) [][2]string {
	e, m := r.Engine, r.Memory
	list := [][2]string{{"engine", e.Name}, {"version", e.Version}, {"profile", e.Profile}, {"cache", unit.Bytes(r.Cache.Effective)},
		{"threads", fmt.Sprint(r.Workload.Threads)}}
	if m != nil {
		list = append(list, [2]string{"memory", unit.Bytes(m.BudgetBytes)})
	}
	if build := r.Build(); build != "" {
		list = append(list, [2]string{engine.BuildOption, build})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		// Said by cache and build, and by memtable_size and handles, which are Statelab's names.
		if !slices.Contains([]string{"cache_bytes", "cache_size", engine.BuildOption, "mem_table_size", "max_open_files"}, name) {
			list = append(list, [2]string{name, e.Options[name]})
		}
	}
	return append(list, [2]string{"statelab", r.Host.Statelab}, [2]string{"kernel", r.Host.Kernel}, [2]string{"Go", r.Host.Go})
}

// differing are the settings that two runs do not share.
func differing(a, b *result.Run, of func(*result.Run) [][2]string) (out []Difference) {
	from, to := of(a), of(b)
	values := map[string]string{}
	for _, s := range to {
		values[s[0]] = s[1]
	}
	for _, s := range from {
		if other, both := values[s[0]]; both && other != s[1] {
			out = append(out, Difference{s[0], s[1], other})
		}
	}
	return out
}

// changed are the settings that are compared. Options of different engines are not listed.
func changed(a, b *result.Run) []Difference {
	list := differing(a, b, subjects)
	if a.Engine.Name != b.Engine.Name {
		list = slices.DeleteFunc(list, func(d Difference) bool {
			_, own := a.Engine.Options[d.Setting]
			return own && d.Setting != engine.BuildOption || d.Setting == "version" || d.Setting == "profile"
		})
	}
	return list
}

// refusal is the error that two runs differ in a condition that is not allowed to.
type refusal struct {
	a, b string
	list []Difference
}

func (r *refusal) Error() string {
	var texts, flags []string
	for _, d := range r.list {
		texts = append(texts, d.String())
		flags = append(flags, d.Setting)
	}
	return fmt.Sprintf("%s and %s were measured under different conditions: %s. Measure both alike, or compare them all the same with --allow %s",
		r.a, r.b, strings.Join(texts, ", "), strings.Join(flags, ","))
}
