package compare

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Board ranks what answered one question under the same conditions.
type Board struct {
	Question string
	Figure   string // its name in a sentence
	At       string // the conditions
	Rows     []Ranked
	metric   metric
}

// Ranked is a line of a board: the runs of one setting of one folder.
type Ranked struct {
	Side    int // whose folder
	Subject string
	Values  Values
	Middle  float64 // of its runs, see metric.middle
	Verdict string  // on the difference from the first line; "" of the first
	group   Group
	folder  string
}

// Loads are the databases that statelab loaded for the runs; 0 where it did not load them.
func (r Ranked) Loads() int {
	if run := r.group.Runs[0]; run.Verb != "read" || run.Database.Written != "statelab" {
		return 0
	}
	return len(r.group.loads())
}

// Boards ranks the runs of folders, question by question. Only runs under the same
// conditions, with as many threads and the same memory, stand on one board.
func Boards(sides []Side) (boards []*Board) {
	for _, m := range metrics() {
		if m.Question == "" {
			continue
		}

		by := map[string]*Board{}
		var found []*Board
		for n, side := range sides {
			for _, g := range side.Groups {
				v := values(m, g.Runs)
				if len(v) == 0 || len(v) < len(g.Runs) || slices.Max(v) == 0 && !m.Repeats {
					continue
				}

				if e, _ := subject.EngineOf(g.Runs[0].Engine.Name); e.KeepsNothing {
					continue
				}

				at := budget(g.Runs[0])
				if source := g.Runs[0].Figures.BlockReadSource; source != "" &&
					m.Key == figure.BlockReadsPerGet.Key {
					// such counts are not ranked with those of blocks
					at = joined(at, "counted as "+source)
				}

				if slices.ContainsFunc(g.Runs, inMemory) {
					at = joined(at, "all data in memory")
				}

				key := fmt.Sprint(conditions(g.Runs[0]), at)
				if by[key] == nil {
					by[key] = &Board{Question: m.Question, Figure: m.Noun, At: place(g.Runs[0], at),
						metric: m}
					found = append(found, by[key])
				}

				by[key].Rows = append(by[key].Rows, Ranked{
					Side:    n,
					folder:  filepath.Base(side.Name),
					Subject: subjectOf(g),
					Values:  v,
					Middle:  m.middle(v),
					group:   g,
				})
			}
		}

		slices.SortStableFunc(found, func(a, b *Board) int {
			return cmp.Compare(len(b.Rows), len(a.Rows))
		})
		boards = append(boards, found...)
	}

	for _, b := range boards {
		b.nameBuilds()
		b.rank()
	}

	return boards
}

// nameBuilds says of each line how its engine was built, where lines differ in it.
func (b *Board) nameBuilds() {
	builds := doc.Without(doc.Distinct(b.Rows, func(r Ranked) string {
		return r.group.Runs[0].Build()
	}))
	for i := range b.Rows {
		if row := &b.Rows[i]; len(builds) > 1 && row.group.Runs[0].Build() != "" {
			row.Subject += ", " + row.group.Runs[0].Build()
		}
	}
}

// inMemory tells whether a run says that nothing had to be read anew.
func inMemory(r *result.Run) bool {
	return slices.ContainsFunc(r.Warnings, func(w engine.Warning) bool {
		return w.Code == "fits_in_memory"
	})
}

// budget is what the subject was given: threads, and its memory or else its cache.
func budget(r *result.Run) string {
	text := ""
	if n := r.Workload.Threads; n > 0 {
		text = unit.Plural(n, "thread") + ", "
	}

	if m := r.Memory; m != nil && m.BudgetBytes > 0 {
		return text + doc.ShortBytes(m.BudgetBytes) + " of memory"
	}

	if r.Cache.Effective > 0 {
		return text + "a cache of " + doc.ShortBytes(r.Cache.Effective)
	}

	return strings.TrimSuffix(text, ", ")
}

func joined(conditions, more string) string {
	return strings.TrimPrefix(conditions+", "+more, ", ")
}

// place are the conditions, in words.
func place(r *result.Run, budget string) string {
	w, h := r.Workload, r.Host
	parts := []string{w.Name, unit.Count(int64(w.Keys)) + " keys of " + fmt.Sprint(w.KeyBytes) +
		" bytes"}
	switch {
	case r.Figures.State != nil:
		parts = []string{unit.Count(int64(r.Figures.State.Accounts)) + " accounts"}
	case r.Changes != nil:
		parts = []string{fmt.Sprintf("versions %d to %d of %s", r.Changes.First, r.Changes.Last,
			r.Changes.Format)}
	}

	if w.Rate > 0 {
		parts = append(parts, doc.ShortCount(w.Rate)+" Gets/s asked for")
	}

	parts = append(parts, budget)
	if r.PageCache != "" {
		parts = append(parts, "page cache "+r.PageCache)
	}

	return strings.Join(doc.Without(parts), ", ") + "; " + h.Kind() + ", " + h.Filesystem +
		" on " + h.Device
}

func subjectOf(g Group) string {
	e := g.Runs[0].Engine
	text := cmp.Or(g.Axes["layout"], e.Name)
	if e.Version != "" {
		text += " " + e.Version
	}

	if e.Profile != "" && e.Profile != "default" {
		text += " (" + e.Profile + ")"
	}

	return text
}

// rank sorts the lines and says of each whether it certainly differs from the first.
func (b *Board) rank() {
	slices.SortStableFunc(b.Rows, func(x, y Ranked) int {
		if b.metric.Better == figure.Higher {
			x, y = y, x
		}
		return cmp.Compare(x.Middle, y.Middle)
	})

	for i := range b.Rows[1:] {
		row := &b.Rows[i+1]
		judged, err := pair{a: b.Rows[0].group, b: row.group}.judge("", "", Options{
			Alpha:  difference.Alpha / float64(len(b.Rows)-1),
			Margin: difference.Margin,
		})

		at := slices.IndexFunc(judged.Figures,
			func(f Figure) bool { return f.Name == b.metric.Key })
		if err != nil || at < 0 {
			row.Verdict = "not compared: its runs were made under different conditions"
			continue
		}

		switch f := judged.Figures[at]; {
		case f.Verdict == difference.Same:
			row.Verdict = "the same as the first"
		case f.Within:
			row.Verdict = "differs from the first by less than matters (" +
				percent(difference.Margin) + " %)"
		case f.Certain() && f.Relative:
			row.Verdict = fmt.Sprintf("%s %% %s than the first",
				strings.TrimPrefix(signed(f.Change, percent), "−"),
				b.metric.Direction(f.Change))
			row.Verdict = strings.TrimPrefix(row.Verdict, "+")
		case f.Certain():
			row.Verdict = "differs from the first"
		case f.Verdict == difference.CannotTell:
			row.Verdict = "cannot tell from the first: " + f.needs(0)
		default:
			row.Verdict = "no difference from the first found"
		}
	}
}

// Print writes a value of the board's figure.
func (b *Board) Print(v float64) string { return b.metric.print(v) }

// Chart is a bar for each line, with the range of its runs; nil of one line.
func (b *Board) Chart() *doc.Chart {
	if len(b.Rows) < 2 {
		return nil
	}

	scale := cmp.Or(doc.ScaleOf(b.metric.Figure).Size, 1)
	return doc.Ranges(b.Question, "", doc.Axis{Label: b.Figure,
		Unit: doc.ScaleOf(b.metric.Figure).Name}, b.Rows, b.short, func(r Ranked) (at float64,
		span doc.Range) {
		return r.Middle / scale,
			doc.Range{Low: slices.Min(r.Values) / scale, High: slices.Max(r.Values) / scale}
	})
}

// short names a line under its bar: by the engine, or where others have the same
// engine, by the folder, or else by all that is known of it.
func (b *Board) short(row Ranked) string {
	for _, name := range []func(Ranked) string{
		func(r Ranked) string { return strings.Fields(r.Subject)[0] },
		func(r Ranked) string { return r.folder },
	} {
		others := doc.Where(b.Rows, func(r Ranked) bool { return name(r) == name(row) })
		if len(others) == 1 {
			return name(row)
		}
	}

	return row.Subject
}

// Difference is a setting in which two groups of runs differ.
type Difference struct {
	Setting string `json:"setting"` // as --allow names it
	From    string `json:"from"`
	To      string `json:"to"`
}

// String is the setting with both of its values.
func (d Difference) String() string { return d.Setting + " (" + d.From + " and " + d.To + ")" }

// conditions are what must be the same: what was asked of the subject, and on what.
func conditions(r *result.Run) [][2]string {
	w, h := r.Workload, r.Host
	list := [][2]string{
		{"workload", w.Name},
		{"keys", number(w.Keys)},
		{"key-bytes", fmt.Sprint(w.KeyBytes)},
		{"value-bytes", unit.Significant(w.ValueBytes, 2)},
		{"value-model", w.ValueModel},
		{"key-order", w.KeyOrder},
		{"missing", fmt.Sprint(w.MissingShare)},
		{"zipf", fmt.Sprint(w.ZipfTheta)},
		{"gets", number(w.Gets)},
		{"rate", fmt.Sprint(w.Rate)},
		{"page-cache", r.PageCache},
		{"os", h.OS},
		{"hardware-class", cmp.Or(h.Class, "none")},
		{"cpu", h.CPU},
		{"cores", fmt.Sprint(h.Cores)},
		{"host-memory", unit.Bytes(h.MemoryBytes)},
		{"memory-limit", unit.Bytes(h.MemoryLimit)},
		{"filesystem", h.Filesystem},
		{"device", h.Device},
		{"read-ahead", fmt.Sprintf("%d KiB", h.ReadAheadKB)},
	}

	if r.Figures.Puts > 0 { // the defaults of a run that wrote nothing do not matter
		list = append(
			list,
			[2]string{"write-rate", fmt.Sprint(w.WriteRate)},
			[2]string{"batch", fmt.Sprint(w.BatchKeys)},
		)
	}

	if c := r.Changes; c != nil {
		list = append(list, [2]string{"changes",
			fmt.Sprintf("%s %d to %d", c.Format, c.First, c.Last)})
	}

	if f := r.Figures.Replay; f != nil {
		list = append(
			list,
			[2]string{"leaves", number(f.Leaves)},
			[2]string{"change-bytes", fmt.Sprint(f.UserBytes)},
		)
	}

	if s := r.Figures.State; s != nil {
		list = append(
			list,
			[2]string{"accounts", number(s.Accounts)},
			[2]string{"slots", number(s.Slots)},
			[2]string{"block", number(s.Block)},
		)
	}

	return list
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// subjects are what may differ; an answer names what does.
func subjects(r *result.Run) [][2]string {
	e, m := r.Engine, r.Memory
	list := [][2]string{
		{"engine", e.Name},
		{"version", e.Version},
		{"profile", e.Profile},
		{"cache", unit.Bytes(r.Cache.Effective)},
		{"threads", fmt.Sprint(r.Workload.Threads)},
		{"process", processWords(r)},
	}

	if m != nil {
		list = append(list, [2]string{"memory", unit.Bytes(m.BudgetBytes)})
	}

	if build := r.Build(); build != "" {
		list = append(list, [2]string{engine.BuildOption, build})
	}

	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		// Said by cache and build, and by memtable_size and handles, which are Statelab's names.
		if !slices.Contains([]string{"cache_bytes", "cache_size", engine.BuildOption,
			"mem_table_size", "max_open_files"}, name) {
			list = append(list, [2]string{name, e.Options[name]})
		}
	}

	return append(
		list,
		[2]string{"statelab", r.Host.Program()},
		[2]string{"kernel", r.Host.Kernel},
		[2]string{"Go", r.Host.Go},
	)
}

// processWords say what the process of a run did: other work in it makes times longer.
func processWords(r *result.Run) string {
	if r.SharedProcess {
		return "inside another program"
	}
	return "its own"
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
			return own && d.Setting != engine.BuildOption || d.Setting == "version" ||
				d.Setting == "profile"
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
	flags := doc.Each(r.list, func(d Difference) string { return d.Setting })
	return fmt.Sprintf("%s and %s were measured under different conditions: %s. Measure both "+
		"alike, or compare them all the same with --allow %s",
		r.a, r.b, doc.List(r.list, Difference.String), strings.Join(flags, ","))
}
