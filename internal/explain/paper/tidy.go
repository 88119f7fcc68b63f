package paper

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Columns of the table in long form. Those of axes are between pointColumns and figureColumns,
// those of settings at the end. folderColumn is the first one of several folders.
const (
	folderColumn = "folder"
	axisPrefix   = "axis."
)

var (
	pointColumns  = []string{"run", "status", "repeats"}
	figureColumns = []string{"figure", "part", "unit", "value", "low", "high", "interval",
		"unavailable"}
)

// What low and high are, in the column interval.
const (
	ofRepeats = "range of repeats"
	ofError   = "error"
)

// row has cells by column.
type row map[string]string

// HasTable tells whether a folder has runs with figures, of which TidyCSV writes a table.
func HasTable(dir string) bool {
	kind, ok := kinds.Detect(dir)

	return ok && kind.Settings != nil
}

// TidyCSV writes all figures of folders as one CSV table in long form: a row for each figure of
// each point, or for each part of it, such as a block type or a quantile.
//
// Figures have the keys, units and values of run.json, from the run that stands for the point. low
// and high are the range over repeats that are ok, where at least two have the figure, else the
// figure less and plus its error, where that is known. A figure that could not be measured has the
// reason. Each row has all axes of the point, and all settings of the run by their names in
// run.json. A point without figures has one row, with its error.
func TidyCSV(w io.Writer, dirs ...string) error {
	var rows []row
	first := pointColumns
	for _, dir := range dirs {
		found, err := tidy(dir)
		if err != nil {
			return err
		}

		if len(dirs) > 1 {
			first = append([]string{folderColumn}, pointColumns...)
			for _, r := range found {
				r[folderColumn] = filepath.Base(dir)
			}
		}

		rows = append(rows, found...)
	}

	others := map[string]bool{}
	for _, r := range rows {
		for column := range r {
			others[column] = true
		}
	}

	for _, column := range slices.Concat(first, figureColumns) {
		delete(others, column)
	}

	rest := slices.Sorted(maps.Keys(others))
	isAxis := func(column string) bool { return strings.HasPrefix(column, axisPrefix) }
	isSetting := func(column string) bool { return !isAxis(column) }
	columns := slices.Concat(first, doc.Where(rest, isAxis), figureColumns,
		doc.Where(rest, isSetting))

	records := append([][]string{columns}, doc.Each(rows, func(r row) []string {
		return doc.Each(columns, func(column string) string { return r[column] })
	})...)
	if err := csv.NewWriter(w).WriteAll(records); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}

	return nil
}

// tidy are the rows of all points of a folder.
func tidy(dir string) (rows []row, err error) {
	kind, ok := kinds.Detect(dir)
	if !ok || kind.Settings == nil {
		return nil, engine.Fail(engine.CodeUsage, "%s has no runs with figures: name the folder "+
			"of a run, a sweep, a replay or layouts", dir)
	}

	points, err := pointsOf(kind, dir)
	if err != nil {
		return nil, err
	}

	for _, p := range points {
		of, err := tidyPoint(dir, p)
		if err != nil {
			return nil, err
		}

		rows = append(rows, of...)
	}

	if kind.File != result.SweepFile {
		return rows, nil
	}

	of, err := simulated(dir)

	return append(rows, of...), err
}

// simulated are the rows of caches of a sweep that were not measured.
func simulated(dir string) (rows []row, err error) {
	sweep, err := result.ReadSweep(dir)
	if err != nil {
		return nil, err
	}

	reads, hits := figure.BlockReadsPerGet.Predicted(), figure.HitRate
	for _, p := range sweep.Simulated {
		bytes := strconv.FormatInt(p.CacheBytes, 10)
		common := row{"status": "simulated", axisPrefix + "cache": bytes, "cache.effective": bytes}
		add := func(f figure.Figure, part string, value float64) {
			r := maps.Clone(common)
			r["figure"], r["part"], r["unit"] = f.Key, part, string(f.Unit)
			r["value"] = full(value)
			rows = append(rows, r)
		}

		add(reads, "", p.BlockReadsPerGet)
		add(hits, "all", p.HitRate["all"])
	}

	return rows, nil
}

// tidyPoint are the rows of one point.
func tidyPoint(dir string, p kinds.Setting) (rows []row, err error) {
	common := row{"run": p.Run, "repeats": strconv.Itoa(len(p.Runs)), "status": result.Failed}
	for axis, value := range p.Axes {
		common[axisPrefix+axis] = value
	}

	if p.Run == "" {
		common["unavailable"] = "no run of the point has figures"

		return []row{common}, nil
	}

	run, err := kinds.ReadRun(dir, p.Run)
	if err != nil {
		common["unavailable"] = "the run cannot be read" // the report says why

		return []row{common}, nil
	}

	common["status"] = run.Status
	if err := addSettings(common, run); err != nil {
		return nil, err
	}

	values, err := numbers(run.Figures)
	if err != nil {
		return nil, err
	}

	ranges, err := overRepeats(dir, p.Runs)
	if err != nil {
		return nil, err
	}

	add := func(key figureKey, more row) {
		r := maps.Clone(common)
		f, _ := figure.Stored(key.figure) // of which keys are
		r["figure"], r["part"], r["unit"] = key.figure, key.part, string(f.Unit)
		maps.Copy(r, more)
		rows = append(rows, r)
	}

	for _, key := range slices.SortedFunc(maps.Keys(values), figureKey.compare) {
		cells := row{"value": values[key].String()}
		if all, ok := ranges[key]; ok {
			cells["low"], cells["high"] = full(all.Low), full(all.High)
			cells["interval"] = ofRepeats
		} else if around, ok := withError(key, values); ok {
			cells["low"], cells["high"] = full(around.Low), full(around.High)
			cells["interval"] = ofError
		}

		add(key, cells)
	}

	reasons := run.Reasons()
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if _, is := figure.Stored(name); is {
			add(figureKey{figure: name}, row{"unavailable": reasons[name]})
		}
	}

	if len(rows) == 0 {
		common["unavailable"] = run.Error
		rows = append(rows, common)
	}

	return rows, nil
}

func full(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// figureKey is a figure, and which part of it: a block type, a level, a quantile, a kind of lookup;
// "" of a figure that is one number.
type figureKey struct{ figure, part string }

func (k figureKey) compare(other figureKey) int {
	return slices.Compare([]string{k.figure, k.part}, []string{other.figure, other.part})
}

// overRepeats are the ranges of figures over the repeats that are ok, where at least two have them.
// A repeat that cannot be read is left out; the report names it.
func overRepeats(dir string, folders []string) (map[figureKey]result.Range, error) {
	ranges, seen := map[figureKey]result.Range{}, map[figureKey]int{}
	for _, folder := range folders {
		run, err := kinds.ReadRun(dir, folder)
		if err != nil || run.Status != result.OK {
			continue
		}

		values, err := numbers(run.Figures)
		if err != nil {
			return nil, err
		}

		for key, text := range values {
			v, err := text.Float64()
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", key.figure, folder, err)
			}

			all := ranges[key]
			if seen[key] == 0 {
				all = result.Range{Low: v, High: v}
			}

			seen[key]++
			ranges[key] = result.Range{Low: min(all.Low, v), High: max(all.High, v)}
		}
	}

	maps.DeleteFunc(ranges, func(key figureKey, _ result.Range) bool { return seen[key] < 2 })

	return ranges, nil
}

// withError is a figure less and plus its error, which is a figure of its own.
func withError(key figureKey, values map[figureKey]json.Number) (r result.Range, ok bool) {
	of, is := figure.ByKey(key.figure)
	if !is {
		return r, false
	}

	off, is := values[figureKey{of.Error().Key, key.part}]
	if !is {
		return r, false
	}

	v, err := values[key].Float64()
	e, err2 := off.Float64()

	return result.Range{Low: v - e, High: v + e}, err == nil && err2 == nil
}

// numbers are all figures of a run, as they are stored.
func numbers(f result.Figures) (map[figureKey]json.Number, error) {
	found := map[figureKey]json.Number{}
	collect := func(part string, v any) error {
		members, err := members(v)
		if err == nil {
			collectFigures(found, part, members)
		}

		return err
	}

	for _, round := range f.Age {
		if err := collect(fmt.Sprintf("round %d", round.Round), round); err != nil {
			return nil, err
		}
	}

	if s := f.State; s != nil {
		for _, l := range s.Lookups {
			part := fmt.Sprintf("%s, %s, %d in flight", l.Kind, l.Condition, l.InFlight)
			if err := collect(part, l); err != nil {
				return nil, err
			}
		}

		if err := collect("", s); err != nil { // its lists are no members with figures
			return nil, err
		}
	}

	f.State = nil

	return found, collect("", f)
}

// samples is the member of a latency that is not a time.
const samples = "count"

// collectFigures adds the figures among members and in the objects among them, which are parts.
func collectFigures(into map[figureKey]json.Number, part string, members map[string]any) {
	within := func(name string) string { return strings.TrimPrefix(part+", "+name, ", ") }
	for name, value := range members {
		_, is := figure.Stored(name)
		switch value := value.(type) {
		case json.Number:
			if is {
				into[figureKey{name, part}] = value
			}
		case map[string]any:
			if !is {
				collectFigures(into, within(name), value)

				continue
			}

			for of, one := range value {
				if number, single := one.(json.Number); single && of != samples {
					into[figureKey{name, within(of)}] = number
				}
			}
		}
	}
}

// addSettings adds what a run was asked for, and what it ran with and on.
func addSettings(to row, run *result.Run) error {
	settings, err := members(struct {
		Verb      string            `json:"verb"`
		Started   string            `json:"started"`
		Command   string            `json:"command"`
		Engine    result.Engine     `json:"engine"`
		Workload  result.Workload   `json:"workload"`
		Cache     result.Cache      `json:"cache"`
		PageCache string            `json:"page_cache"`
		Memory    *result.Memory    `json:"memory"`
		Host      result.Host       `json:"host"`
		Database  result.Database   `json:"database"`
		Changes   *result.ChangeSet `json:"changes"`
	}{
		run.Verb, run.Started.UTC().Format("2006-01-02T15:04:05Z"), doc.Shell(run.Command),
		run.Engine, run.Workload, run.Cache, run.PageCache, run.Memory, run.Host, run.Database,
		run.Changes,
	})
	if err != nil {
		return err
	}

	if workload, is := settings["workload"].(map[string]any); is {
		delete(workload, "warmup") // what it saw
	}

	flatten(to, "", settings)

	return nil
}

// flatten names the members of objects with a dot between. Lists are left out.
func flatten(to row, prefix string, members map[string]any) {
	for name, value := range members {
		switch value := value.(type) {
		case map[string]any:
			flatten(to, prefix+name+".", value)
		case []any, nil:
		default:
			to[prefix+name] = fmt.Sprint(value)
		}
	}
}

// members are those of a value as a JSON object, with numbers as they are written.
func members(v any) (all map[string]any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&all)

	return all, err
}
