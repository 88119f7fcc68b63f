package runners

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
)

// EngineRow is an engine of a list, with --json too.
type EngineRow struct {
	engine.Info
	Available bool   `json:"available"`
	Missing   string `json:"missing,omitempty"` // why not, and the command that fixes it
	Runner    string `json:"runner,omitempty"`  // path of the engine's own runner

	measures string // which build measures an engine of which there are two, and why
}

// EngineRows are all engines.
func EngineRows(t *Table[engine.Info]) (rows []EngineRow) {
	for _, info := range t.Linked {
		row := EngineRow{Info: info, Available: true}
		switch found, err := t.Look(info.Name); {
		case err != nil:
			row.Available, row.Missing = false, err.Error()
		case found.Path != Self():
			row.Info, row.Runner = found.Info, found.Path
		}
		known := t.Rebuilt.Of(info.Name)
		switch {
		case known == nil || !row.Available:
		case row.Runner != "":
			row.measures = fmt.Sprintf("%s, with cgo as nodes run it (%s=%s: this program, in pure Go)", row.Runner, CgoVariable, NeverCgo)
		case t.Cgo == NeverCgo:
			row.measures = fmt.Sprintf("this program, in pure Go, as %s=%s asks", CgoVariable, NeverCgo)
		default:
			row.measures = fmt.Sprintf("this program, in pure Go; with cgo as nodes run it: %s", known.Fix)
		}
		rows = append(rows, row)
	}
	for _, known := range t.Outside {
		found, err := t.Look(known.Name)
		if err != nil {
			rows = append(rows, EngineRow{Missing: err.Error(), Info: engine.Info{
				Name: known.Name, Route: "runner " + known.Runner, Licence: known.Licence, Capabilities: []engine.Capability{}, Profiles: []engine.Profile{}}})
			continue
		}
		rows = append(rows, EngineRow{Info: found.Info, Available: found.Missing == "", Missing: found.Missing, Runner: found.Path})
	}
	return rows
}

// Text prints the row.
func (row EngineRow) Text(w io.Writer) {
	fmt.Fprintf(w, "%s %s (%s, %s)\n", row.Name, cmp.Or(row.Version, "?"), row.Route, row.Licence)
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %s: %s\n", what, text)
		}
	}
	line("measured by", row.measures)
	if !row.Available {
		line("does not run here", row.Missing)
	}
	var can []string
	for _, c := range row.Capabilities {
		can = append(can, string(c))
	}
	line("can", strings.Join(can, ", "))
	line("durability", row.Durability)
	for _, p := range row.Profiles {
		fmt.Fprintf(w, "  --profile %-14s %s\n", p.Name, p.About)
	}
}

// List names trees or layouts, and says what keeps each from running here.
func List[Info protocol.Info](w io.Writer, heading string, t *Table[Info]) {
	fmt.Fprintf(w, "\n%s:\n", heading)
	for _, info := range t.Linked {
		_, name, _ := protocol.Common(info)
		fmt.Fprintf(w, "%s (built in)\n", name)
	}
	for _, known := range t.Outside {
		fmt.Fprintf(w, "%s (%s, %s)\n  %s\n", known.Name, known.Runner, known.Licence, known.About)
		if _, err := t.Find(known.Name); err != nil {
			fmt.Fprintf(w, "  does not run here: %v\n", err)
		}
	}
}

// Capabilities says what those of the rows mean to a user.
func Capabilities(w io.Writer, rows []EngineRow) {
	fmt.Fprintln(w, "\nWhat \"can\" lists:")
	for _, c := range [][2]engine.Capability{
		{engine.CanReadBlocks, "block reads are counted by type and level"},
		{engine.CanTraceAccesses, "the block accesses of a Get can be shown"},
		{engine.CanDirect, "--page-cache direct: reads with O_DIRECT"},
		{engine.CanIngest, "--workload fillsorted: a database is built from sorted keys"},
		{engine.CanReadForeign, "--use-existing: databases of other programs, which are never written"},
		{engine.CanBudget, "--memory: one budget for all that the engine keeps in memory"},
		{engine.CanGetMany, "--workload multireadrandom: a call of its own for several keys"},
		{engine.SharesReads, "a Get that waits for another Get's read of a block counts as a cache miss"},
		{engine.UsesPageCache, "it maps its files: the operating system's page cache is its cache"},
		{engine.FaultsInGo, "a page fault keeps one of Go's processors waiting"},
		{engine.HasNoCache, "it has no block cache: --cache has no effect"},
		{engine.HasNoHandles, "it keeps all files open: --handles has no effect"},
		{engine.AllocatesPerGet, "a Get allocates memory"},
		{engine.IsVolatile, "nothing is stored on disk"},
		{engine.KeepsNothing, "every key is found, with any value: answers are not checked"},
	} {
		if slices.ContainsFunc(rows, func(row EngineRow) bool { return row.Has(c[0]) }) {
			fmt.Fprintf(w, "  %-15s %s\n", c[0], c[1])
		}
	}
}

// PluggedTrees are runners that somebody plugged in: statelab-run-NAME, or for
// NAME-VARIANT statelab-run-NAME too.
func PluggedTrees(name string) (maybe []Known, advice string) {
	base, _, _ := strings.Cut(name, "-")
	for _, runner := range slices.Compact([]string{"statelab-run-" + name, "statelab-run-" + base}) {
		maybe = append(maybe, Plug(name, runner, "a runner of this name must hold it"))
	}
	return maybe, "a tree of your own needs a runner named statelab-run-" + name
}

// StateLibrary is the variable that names a user's own library of a layout; statelab-run-states loads it.
const StateLibrary = "STATELAB_STATE_LIBRARY"

// PluggedLayouts are runners that may hold a layout that somebody plugged in, as a
// library or as statelab-run-NAME.
func PluggedLayouts(name string) ([]Known, string) {
	return []Known{
		Plug(name, "statelab-run-states", "it loads $"+StateLibrary+" and lib/libstatelab_*.so"),
		Plug(name, "statelab-run-"+name, "a runner of this name must hold it"),
	}, "a layout of your own needs a library named in $" + StateLibrary + " or a runner named statelab-run-" + name
}

// Paths are the runners that were found.
func (t *Table[Info]) Paths() (paths []string) {
	for _, found := range t.Found {
		paths = append(paths, found.Path)
	}
	return paths
}

// Unique are paths, each once, in their order.
func Unique(paths []string) (once []string) {
	for _, path := range paths {
		if !slices.Contains(once, path) {
			once = append(once, path)
		}
	}
	return once
}

// The option and the variable by which engines/cengine takes its library.
const (
	nativeLibraryOption = "library"
	nativeLibraryEnv    = "STATELAB_NATIVE_LIBRARY"
)

// UseLibrary makes the runners that are found from now on load the library that the first of
// options names, if any does: what a runner says of the engine "native" depends on its library, and
// it is asked before any option reaches it. This process's own environment stays as it is.
func (t *Table[Info]) UseLibrary(options ...map[string]string) {
	for _, o := range options {
		if path, given := o[nativeLibraryOption]; given {
			t.env = []string{nativeLibraryEnv + "=" + output.Absolute(path)}
			return
		}
	}
}

// Watchable lists what statelab watch can watch.
func Watchable(to io.Writer) {
	fmt.Fprintln(to, "\nWhat statelab watch can watch (statelab doctor says whether this machine allows it):")
	for _, w := range subject.AllWatched() {
		programs := "programs that Go built with " + w.Module + " " + strings.Join(w.Versions, "*, ") + "*"
		if w.Module == "" {
			programs = "programs that use its C++ library and have the symbols of its Gets"
		}
		fmt.Fprintf(to, "  %-15s %s\n", w.Engine, programs)
	}
	for _, layout := range subject.PageFiles() {
		fmt.Fprintf(to, "  %-15s page faults of any process that maps its database\n", layout.Engine)
	}
}
