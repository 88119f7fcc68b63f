package result

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result/figure"
)

// Measured is what a folder of results holds of one setting: a point of a sweep, a tree of a
// replay, a layout of state at one size, one run, or one watched process.
type Measured struct {
	// Axes are what tells the setting from the others of its folder, such as "cache": "64MiB",
	// "tree": "iavl1", or "layout": "flat-pebble" and "accounts": "100000". Empty where the folder
	// holds one.
	Axes map[string]string
	// Run has all else: of several repeats the run that stands for them, of a layout that of the
	// lookups. nil of a watched process, and where the run cannot be read.
	Run *Run
	// Err is why the setting has no figures; nil if it was measured.
	Err error

	value  func(figure.Figure) figure.Value
	ranges map[string]Range
}

// Value is a figure, in its Unit: a number, or the reason why there is none. A duration whose
// histogram is kept is its mean; ask for a quantile by f.P50() or f.P99().
func (m Measured) Value(f figure.Figure) figure.Value {
	if m.Err != nil {
		return figure.Unavailable(m.Err.Error())
	}
	return m.value(f)
}

// Range is the range of a figure over repeats. ok is false where there is none: of a single run,
// and of figures whose range is not stored.
func (m Measured) Range(f figure.Figure) (r Range, ok bool) {
	r, ok = m.ranges[f.Key]
	return r, ok
}

// Points reads a folder that sweep, compare, replay, layouts, load, watch or package measure wrote,
// of this version or an older one, and iterates over what was measured, in the order of the folder.
// A setting that failed is among them. The error is why the folder cannot be read.
func Points(dir string) (iter.Seq[Measured], error) {
	for _, kind := range []struct {
		file string
		read func(dir string) (iter.Seq[Measured], error)
	}{
		{ReplayFile, replayPoints},
		{LayoutsFile, layoutPoints},
		{SweepFile, sweepPoints},
		{WatchFile, watchPoint},
		{RunFile, runPoint},
	} {
		_, err := os.Stat(filepath.Join(dir, kind.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return nil, err
		}
		return kind.read(dir)
	}

	return nil, engine.Fail(engine.CodeNoResult, "%s has none of %s: it is not a folder of "+
		"measurements", dir, strings.Join([]string{ReplayFile, LayoutsFile, SweepFile, WatchFile,
		RunFile}, ", "))
}

func runPoint(dir string) (iter.Seq[Measured], error) {
	run, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}

	return func(yield func(Measured) bool) {
		yield(Measured{
			Axes:  map[string]string{},
			Run:   run,
			Err:   failureOf(run.Status, run.Error, run.FailureInfo),
			value: run.Figures.value,
		})
	}, nil
}

func watchPoint(dir string) (iter.Seq[Measured], error) {
	w, err := ReadWatch(dir)
	if err != nil {
		return nil, err
	}

	return func(yield func(Measured) bool) {
		yield(Measured{
			Axes: map[string]string{},
			value: func(f figure.Figure) figure.Value {
				return valueOr(w.members(), f, w.Set)
			},
		})
	}, nil
}

func sweepPoints(dir string) (iter.Seq[Measured], error) {
	s, err := ReadSweep(dir)
	if err != nil {
		return nil, err
	}

	return func(yield func(Measured) bool) {
		for _, p := range s.Points {
			m := Measured{
				Axes:   p.Axes,
				Run:    p.Of,
				Err:    errors.Join(failureOf(p.Status, p.Error, p.FailureInfo), p.Problem),
				value:  p.Figures.value,
				ranges: p.Spread,
			}
			if !yield(m) {
				return
			}
		}
	}, nil
}

func replayPoints(dir string) (iter.Seq[Measured], error) {
	r, err := ReadReplay(dir)
	if err != nil {
		return nil, err
	}

	return func(yield func(Measured) bool) {
		for _, t := range r.Trees {
			m := Measured{
				Axes:   map[string]string{"tree": t.Tree},
				Run:    t.Of,
				Err:    errors.Join(failureOf(t.Status, t.Error, t.FailureInfo), t.Problem),
				value:  t.Figures.value,
				ranges: t.Spread,
			}
			if !yield(m) {
				return
			}
		}
	}, nil
}

func layoutPoints(dir string) (iter.Seq[Measured], error) {
	l, err := ReadLayouts(dir)
	if err != nil {
		return nil, err
	}

	return func(yield func(Measured) bool) {
		for _, row := range l.Rows {
			m := Measured{
				Axes: map[string]string{
					"layout":   row.Layout,
					"accounts": strconv.FormatUint(row.Accounts, 10),
				},
				Err:    failureOf(row.Status, row.Error, row.FailureInfo),
				ranges: row.Spread,
			}

			var others figure.Set                                 // of what is no member of a row
			if run, err := readBelow(dir, row.Read); err == nil { // an older row has all
				m.Run, others = run, run.Figures.Set
			}

			m.value = func(f figure.Figure) figure.Value {
				if f.Lookup != "" {
					return ofLookups(row.Lookups, f)
				}
				return valueOr(row.members(), f, others)
			}

			if !yield(m) {
				return
			}
		}
	}, nil
}

// failureOf is the error of what ended with a status, nil if it is ok.
func failureOf(status, text string, why FailureInfo) error {
	switch {
	case status == OK:
		return nil
	case text == "":
		return why.Failure(status)
	}
	return why.Failure(text)
}

// value is a figure of a run.
func (f *Figures) value(of figure.Figure) figure.Value {
	if v := f.Set.Value(of); v.IsKnown() { // as most are
		return v
	}

	switch {
	case of.Lookup == "":
		return valueOr(f.members(), of, f.Set)
	case f.State == nil:
		return figure.Value{}
	}
	return ofLookups(f.State.Lookups, of)
}

// valueOr is a figure that is among the members of a struct, or in the set beside them.
func valueOr(m figure.Members, f figure.Figure, s figure.Set) figure.Value {
	v := valueIn(m, f)
	if v.IsKnown() || v.Reason() != figure.NotRecorded {
		return v
	}
	return s.Value(f)
}

// valueIn is a figure that is among the members of a struct: a number, or the mean or a quantile of
// a histogram.
func valueIn(m figure.Members, f figure.Figure) figure.Value {
	for one, field := range m {
		if one.Key != f.Key && (one.Key != f.Base || f.Quantile == "" && f.Lookup == "") {
			continue
		}

		switch v := field.(type) {
		case *figure.Value:
			return *v
		case *float64:
			return figure.Known(*v)
		case **Latency:
			return (*v).Quantile(f)
		case *map[string]float64:
			return valueOfParts(f, *v)
		}
	}

	return figure.Value{}
}

// valueOfParts is the figure of which there are several numbers: that of all parts, or the reason
// that names the field with them.
func valueOfParts(f figure.Figure, parts map[string]float64) figure.Value {
	all, is := parts["all"]
	switch {
	case is:
		return figure.Known(all)
	case len(parts) == 0:
		return figure.Value{}
	}

	field := "the map of this figure"
	switch f.Key {
	case figure.BlockReadsPerGet.ByType().Key:
		field = "Figures.BlockReadsPerGetByType"
	case figure.BlockReadsPerGet.ByLevel().Key:
		field = "Figures.BlockReadsPerGetByLevel"
	case figure.BlockAccessesPerGet.ByType().Key:
		field = "Figures.BlockAccessesPerGetByType"
	case figure.HitRate.Key:
		field = "Figures.HitRate"
	case figure.WriteBytesPerPut.Key:
		field = "Figures.WriteBytesPerPut"
	}

	return figure.Unavailable("it has a number for each part: see " + field)
}
