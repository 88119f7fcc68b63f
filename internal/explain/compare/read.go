// Package compare judges whether the runs of one folder differ from those of another,
// figure by figure: runs, sweeps, replays and comparisons of layouts.
//
// Folders whose workload, page cache or host differ are refused, and the setting is
// named: their figures would answer no question. What may differ, and is named in the
// answer, is what people compare: engine, version, options, cache, memory, threads.
//
// A count that repeats exactly (one thread, equal seeds) is compared exactly; any other
// figure by a test over the repeats (model/difference). Non-goals: measuring
// (cmd/statelab starts the runs of compare --run), charts of curves (explain/engines).
package compare

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Side is what one folder holds.
type Side struct {
	Name   string // the folder, as given
	Groups []Group
}

// Group are the runs of one setting of the axes.
type Group struct {
	Axes map[string]string
	Runs []*result.Run // those that are ok
	All  int           // with those that failed

	watch *result.Watch // that the one run is of; nil: none
}

// Open reads the runs of a folder.
func Open(dir string) (Side, error) {
	side := Side{Name: dir}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return side, fmt.Errorf("%s is a file, not a folder of results", dir)
	}

	kind, ok := kinds.Detect(dir)
	switch {
	case !ok:
		return side, fmt.Errorf("%s is not a folder of results: it has none of %s", dir,
			strings.Join(comparable(), ", "))
	case kind.Settings == nil:
		return side, fmt.Errorf("%s holds %s, and compare reads %s", dir, kind.Words,
			strings.Join(comparable(), ", "))
	}

	settings, err := kind.Settings(dir)
	if err != nil {
		return side, err
	}

	for _, s := range settings {
		g := Group{Axes: s.Axes, All: len(s.Runs)}
		for _, folder := range s.Runs {
			run, err := kinds.ReadRun(dir, folder)
			if err != nil {
				return side, err
			}

			if run.Status == result.OK {
				g.Runs = append(g.Runs, run)
			}
		}

		side.Groups = append(side.Groups, g)
	}

	if kind.File == result.WatchFile && len(side.Groups) == 1 {
		if side.Groups[0].watch, err = result.ReadWatch(dir); err != nil {
			return side, err
		}
	}

	return side, side.empty()
}

// comparable are the files of results that are compared.
func comparable() []string {
	return kinds.Files(func(k kinds.Kind) bool { return k.Settings != nil })
}

func (s Side) empty() error {
	if slices.ContainsFunc(s.Groups, func(g Group) bool { return len(g.Runs) > 0 }) {
		return nil
	}
	return fmt.Errorf("%s: no run succeeded, so there is nothing to compare", s.Name)
}

// Split makes a side of every value of an axis of s.
func (s Side) Split(axis string) (sides []Side, err error) {
	for _, g := range s.Groups {
		value, ok := g.Axes[axis]
		if !ok {
			continue
		}

		name := axis + " " + value
		i := slices.IndexFunc(sides, func(side Side) bool { return side.Name == name })
		if i < 0 {
			i, sides = len(sides), append(sides, Side{Name: name})
		}

		sides[i].Groups = append(sides[i].Groups, g)
	}

	if len(sides) < 2 {
		return nil, fmt.Errorf("%s has %d values of %q, two are needed (its axes: %s)", s.Name,
			len(sides), axis, strings.Join(slices.Sorted(maps.Keys(valuesOf(s))), ", "))
	}

	return sides, nil
}

// pair is a group of each of two sides that are compared.
type pair struct {
	at   string // their common setting; "" if there is one pair
	a, b Group
}

// pairs match groups by the axes that both sides have, without those that have one value
// on each side: these are what is compared. left are settings of one side only.
func pairs(a, b Side) (matched []pair, left []string) {
	ours, theirs := valuesOf(a), valuesOf(b)
	names := slices.Sorted(maps.Keys(valuesOf(Side{Groups: slices.Concat(a.Groups, b.Groups)})))
	names = doc.Where(names, func(name string) bool {
		return len(ours[name]) > 1 || len(theirs[name]) > 1
	})
	label := func(g Group) string {
		return doc.List(names, func(name string) string { return name + " " + g.Axes[name] })
	}
	used := map[string]bool{}
	for _, g := range a.Groups {
		i := slices.IndexFunc(b.Groups, func(h Group) bool { return label(h) == label(g) })
		if i < 0 {
			left = append(left, label(g)+" ("+a.Name+" only)")
			continue
		}

		used[label(g)] = true
		matched = append(matched, pair{label(g), g, b.Groups[i]})
	}

	for _, h := range b.Groups {
		if !used[label(h)] {
			left = append(left, label(h)+" ("+b.Name+" only)")
		}
	}

	return matched, left
}

func valuesOf(s Side) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, g := range s.Groups {
		for name, value := range g.Axes {
			if all[name] == nil {
				all[name] = map[string]bool{}
			}
			all[name][value] = true
		}
	}

	return all
}
