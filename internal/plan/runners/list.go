package runners

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/report/doc"
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
		switch found, err := t.FindKnown(info.Name); {
		case err != nil:
			row.Available, row.Missing = false, err.Error()
		case found.Path != Self():
			row.Info, row.Runner = found.Info, found.Path
		}

		known := t.Rebuilt.ByName(info.Name)
		switch {
		case known == nil || !row.Available:
		case row.Runner != "":
			row.measures = fmt.Sprintf("%s, with cgo as nodes run it (%s=%s: this program, in "+
				"pure Go)", row.Runner, CgoVariable, NeverCgo)
		case t.Cgo == NeverCgo:
			row.measures = fmt.Sprintf("this program, in pure Go, as %s=%s asks", CgoVariable,
				NeverCgo)
		default:
			row.measures = fmt.Sprintf("this program, in pure Go; with cgo as nodes run it: %s",
				known.Fix)
		}

		rows = append(rows, row)
	}

	for _, known := range t.Outside {
		found, err := t.FindKnown(known.Name)
		if err != nil {
			rows = append(rows, EngineRow{Missing: err.Error(), Info: engine.Info{
				Name:         known.Name,
				Route:        "runner " + known.Runner,
				Licence:      known.Licence,
				Capabilities: []engine.Capability{},
				Profiles:     []engine.Profile{},
			}})

			continue
		}

		rows = append(rows, EngineRow{
			Info:      found.Info,
			Available: found.Missing == "",
			Missing:   found.Missing,
			Runner:    found.Path,
		})
	}

	return rows
}

// ListOf is all that this machine can measure: engines with what they can, trees, layouts of
// state, and what statelab watch can watch.
func ListOf(rows []EngineRow, t Tables) *doc.Document {
	available := doc.Where(rows, func(r EngineRow) bool { return r.Available })
	d := &doc.Document{Title: "Engines, trees and layouts"}
	d.Answer("", fmt.Sprintf("%d of %d engines run here.", len(available), len(rows)))

	d.Add("Engines, for --engine", doc.Each(rows, EngineRow.block)...)
	addList(d, "Trees, for statelab replay --tree", t.Trees)
	addList(d, "Layouts of state, for statelab layouts --layout", t.Layouts)

	const watch = "What statelab watch can watch (statelab doctor says whether this machine " +
		"allows it)"
	d.Add(watch, doc.Block{Title: watch, Facts: watchable()})
	const can = "What \"can\" lists"
	d.Add(can, doc.Block{Title: can, Facts: capabilities(rows)})
	return d
}

// OptionsOf is one engine with all options that --set takes.
func OptionsOf(row EngineRow) *doc.Document {
	d := &doc.Document{Title: row.Name}
	d.Add("Engine", row.block())
	options := doc.Block{Title: "Options, for --set NAME=VALUE"}
	for _, o := range row.Options {
		about := fmt.Sprintf("%s (%s)", o.About, o.Values)
		if o.Default != "" {
			about += "; default " + o.Default
		}

		if row.AppliesAtWrite(o.Name) {
			about += "; applies when data is written"
		}

		options.Facts = append(options.Facts, [2]string{o.Name, about})
	}

	switch {
	case len(row.Options) > 0:
		options.Texts = []string{fmt.Sprintf("Defaults are those of --profile %s; where "+
			"none is given, it is the engine's own.", row.Profiles[0].Name)}
	case row.Available:
		options.Texts = []string{"It lists no options."}
	default:
		options.Texts = []string{"Its options are known where it runs."}
	}

	d.Add("Options", options)
	return d
}

// block is an engine: what measures it, what it can, and its profiles.
func (row EngineRow) block() doc.Block {
	facts := [][2]string{{"measured by", row.measures}}
	if !row.Available {
		facts = append(facts, [2]string{"does not run here", row.Missing})
	}

	can := doc.List(row.Capabilities, func(c engine.Capability) string { return string(c) })
	facts = append(facts, [2]string{"can", can}, [2]string{"durability", row.Durability})
	for _, p := range row.Profiles {
		facts = append(facts, [2]string{"--profile " + p.Name, p.About})
	}

	return doc.Block{Facts: doc.Known(facts),
		Title: fmt.Sprintf("%s %s (%s, %s)", row.Name, cmp.Or(row.Version, "?"), row.Route,
			row.Licence)}
}

// addList names trees or layouts, and says what keeps each from running here.
func addList[Info protocol.Info](d *doc.Document, heading string, t *Table[Info]) {
	var facts [][2]string
	for _, info := range t.Linked {
		_, name, _ := protocol.Common(info)
		facts = append(facts, [2]string{name, "built in"})
	}

	for _, known := range t.Outside {
		about := fmt.Sprintf("%s (%s, %s)", known.About, known.Runner, known.Licence)
		if _, err := t.Find(known.Name); err != nil {
			about += fmt.Sprintf("; does not run here: %v", err)
		}
		facts = append(facts, [2]string{known.Name, about})
	}

	d.Add(heading, doc.Block{Title: heading, Facts: facts})
}

// capabilities says what those of the rows mean to a user.
func capabilities(rows []EngineRow) (facts [][2]string) {
	for _, c := range [][2]engine.Capability{
		{engine.CanReadBlocks, "block reads are counted by type and level"},
		{engine.CanTraceAccesses, "the block accesses of a Get can be shown"},
		{engine.CanDirect, "--page-cache direct: reads with O_DIRECT"},
		{engine.CanReadForeign, "--use-existing: databases of other programs, which are never " +
			"written"},
		{engine.CanBudget, "--memory: one budget for all that the engine keeps in memory"},
		{engine.SharesReads, "a Get that waits for another Get's read of a block counts as a " +
			"cache miss"},
		{engine.UsesPageCache, "it maps its files: the operating system's page cache is its cache"},
		{engine.FaultsInGo, "a page fault blocks a GOMAXPROCS slot"},
		{engine.HasNoCache, "it has no block cache: --cache has no effect"},
		{engine.HasNoHandles, "it keeps all files open: --max-open-files has no effect"},
		{engine.AllocatesPerGet, "a Get allocates memory"},
		{engine.IsVolatile, "nothing is stored on disk"},
		{engine.KeepsNothing, "every key is found, with any value: answers are not checked"},
	} {
		if slices.ContainsFunc(rows, func(row EngineRow) bool { return row.Has(c[0]) }) {
			facts = append(facts, [2]string{string(c[0]), string(c[1])})
		}
	}

	return facts
}

// watchable are the engines whose Gets or page faults statelab watch sees.
func watchable() (facts [][2]string) {
	for _, w := range subject.AllWatched() {
		programs := "programs that Go built with " + w.Module + " " +
			strings.Join(w.Versions, "*, ") + "*"
		if w.Module == "" {
			programs = "programs that use its C++ library and have the symbols of its Gets"
		}

		facts = append(facts, [2]string{w.Engine, programs})
	}

	last := ""
	for _, w := range subject.AllWatchedMapped() {
		versions := strings.Join(w.Versions, "*, ") + "*"
		if w.Module == last {
			facts[len(facts)-1][1] += ", " + versions
			continue
		}

		last = w.Module
		facts = append(facts, [2]string{w.Engine, "Gets of programs that Go built with " +
			w.Module + " " + versions})
	}

	for _, layout := range subject.PageFiles() {
		facts = append(facts, [2]string{layout.Engine,
			"page faults of any process that maps its database"})
	}

	return facts
}

// PluggedTrees are runners that somebody plugged in: statelab-run-NAME, or for
// NAME-VARIANT statelab-run-NAME too.
func PluggedTrees(name string) (maybe []Known, advice string) {
	base, _, _ := strings.Cut(name, "-")
	for _, runner := range slices.Compact([]string{"statelab-run-" +
		name, "statelab-run-" + base}) {
		maybe = append(maybe, Plug(name, runner, "a runner of this name must hold it"))
	}
	return maybe, "a tree of your own needs a runner named statelab-run-" + name
}

// StateLibrary is the variable that names a user's own library of a layout; statelab-run-states
// loads it.
const StateLibrary = "STATELAB_STATE_LIBRARY"

// PluggedLayouts are runners that may hold a layout that somebody plugged in, as a
// library or as statelab-run-NAME.
func PluggedLayouts(name string) ([]Known, string) {
	return []Known{
			Plug(name, "statelab-run-states",
				"it loads $"+StateLibrary+" and lib/libstatelab_*.so"),
			Plug(name, "statelab-run-"+name, "a runner of this name must hold it"),
		},
		"a layout of your own needs a library named in $" + StateLibrary +
			" or a runner named statelab-run-" + name
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
