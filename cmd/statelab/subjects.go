package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/bbolt"
	"github.com/statelab/statelab/engines/goleveldb"
	"github.com/statelab/statelab/engines/mem"
	"github.com/statelab/statelab/engines/null"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/flat"
	"github.com/statelab/statelab/tree"
	nulltree "github.com/statelab/statelab/trees/null"
)

// Engines, trees and layouts that this binary links. Names of all others are in internal/subject.

// embedded are the engines that this binary links.
func embedded() []engine.Engine {
	all := []engine.Engine{pebble1.Engine{}, pebble2.Engine{}, goleveldb.Engine{}, bbolt.Engine{}}
	return append(append(all, linuxEngines()...), mem.Engine{}, null.Engine{})
}

func embeddedTrees() []tree.Tree { return []tree.Tree{nulltree.Tree{}} }

func embeddedLayouts() []layout.Layout {
	// With one table over another in L0, Pebble at rest would be in one of two conditions, by
	// chance; go-ethereum sets the same, so that its L0 is compacted when it rests.
	rests := map[string]string{"L0CompactionThreshold": "2"}
	return append([]layout.Layout{flat.Layout{Name: "flat-pebble", Engine: pebble2.Engine{}, Built: rests}}, linuxLayouts()...)
}

// tables are all that can be measured.
type tables struct {
	engines *table[engine.Info]
	trees   *table[tree.Info]
	layouts *table[layout.Info]
}

func newTables() tables {
	t := tables{
		&table[engine.Info]{linked: infos[engine.Info](embedded()), verb: runnerVerb, cgo: os.Getenv(cgoVariable)},
		&table[tree.Info]{linked: infos[tree.Info](embeddedTrees()), verb: treeRunnerVerb, plugged: pluggedTrees},
		&table[layout.Info]{linked: infos[layout.Info](embeddedLayouts()), verb: stateRunnerVerb, plugged: pluggedLayouts},
	}
	for _, e := range subject.Engines() {
		t.engines.outside = t.engines.outside.with(e.Name, e.Program)
		t.engines.rebuilt = t.engines.rebuilt.with(e.Name, e.WithCgo)
	}
	for _, of := range subject.Trees() {
		t.trees.outside = t.trees.outside.with(of.Name, of.Program)
	}
	for _, l := range subject.Layouts() {
		t.layouts.outside = t.layouts.outside.with(l.Name(), l.Program)
	}
	return t
}

// programs are runners of their own.
type programs []runners.Known

// with adds the runner of a subject that has one, once.
func (p programs) with(name string, program subject.Program) programs {
	if program.Runner == "" || p.of(name) != nil {
		return p
	}
	return append(p, runners.Known{Name: name, Program: program})
}

// of is the runner of a subject; nil: none.
func (p programs) of(name string) *runners.Known {
	if i := slices.IndexFunc(p, func(k runners.Known) bool { return k.Name == name }); i >= 0 {
		return &p[i]
	}
	return nil
}

// plugged is a runner of the user's own that may hold a subject.
func plugged(name, runner, fix string) runners.Known {
	return runners.Known{Name: name, Program: subject.Program{Runner: runner, Fix: fix}}
}

// runner is the runner of a spec's subject.
func (t tables) runner(spec protocol.Spec) (runners.Runner, error) {
	name := spec.Head().Subject
	switch spec.(type) {
	case *protocol.TreeSpec:
		return runnerOf(t.trees, name)
	case *protocol.LayoutSpec:
		return runnerOf(t.layouts, name)
	}
	return runnerOf(t.engines, name)
}

func runnerOf[Info protocol.Info](t *table[Info], name string) (runners.Runner, error) {
	found, err := t.find(name)
	if err != nil {
		return runners.Runner{}, err
	}
	return found.Runner, nil
}

func infos[Info any, Item interface{ Info() Info }](items []Item) (infos []Info) {
	for _, item := range items {
		infos = append(infos, item.Info())
	}
	return infos
}

// table lists engines, trees or layouts: those that this binary links and those in
// runners of their own.
type table[Info protocol.Info] struct {
	linked  []Info
	verb    string // starts this binary as the runner of those linked
	outside programs
	// plugged are runners of the user's own that may hold a name which is not listed,
	// and what to do to have one. nil: there are none.
	plugged func(name string) (maybe []runners.Known, advice string)
	found   map[string]*runners.Found[Info] // a runner is asked once
	// rebuilt are runners that hold some of those linked, built with cgo. They are taken where
	// they are found, unless cgo, the value of cgoVariable, says otherwise.
	rebuilt programs
	cgo     string
}

// cgoVariable says how engines are measured that runners hold built with cgo.
const (
	cgoVariable = "STATELAB_CGO"
	never       = "0" // in pure Go
	always      = "1" // a runner that is missing is an error
)

// find finds an engine, tree or layout that runs here by its name.
func (t *table[Info]) find(name string) (*runners.Found[Info], error) {
	if found := t.found[name]; found != nil {
		return found, nil
	}
	found, err := t.look(name)
	if err == nil && found.Missing != "" {
		err = errors.New(found.Missing)
	}
	if err != nil {
		return nil, err
	}
	if t.found == nil {
		t.found = map[string]*runners.Found[Info]{}
	}
	t.found[name] = found
	return found, nil
}

func (t *table[Info]) look(name string) (*runners.Found[Info], error) {
	for _, info := range t.linked {
		if _, own, _ := protocol.Common(info); own == name {
			if found, err := t.withCgo(name, info); found != nil || err != nil {
				return found, err
			}
			return &runners.Found[Info]{Runner: runners.Runner{Path: self(), Args: []string{t.verb}}, Info: info}, nil
		}
	}
	if known := t.outside.of(name); known != nil {
		return runners.Find[Info](*known)
	}
	word, _, _ := protocol.Common(*new(Info))
	unknown := fmt.Errorf("unknown %s %q (available: %s)", word, name, strings.Join(t.names(), ", "))
	if t.plugged == nil {
		return nil, unknown
	}
	maybe, advice := t.plugged(name)
	for _, known := range maybe {
		found, err := runners.Find[Info](known)
		if err == nil {
			return found, nil
		}
		if !errors.As(err, new(*runners.NotHere)) {
			unknown = fmt.Errorf("%w; %w", unknown, err)
		}
	}
	return nil, fmt.Errorf("%w; %s", unknown, advice)
}

// withCgo finds the runner that holds a linked name built with cgo; nil: this binary is to
// measure it.
func (t *table[Info]) withCgo(name string, linked Info) (*runners.Found[Info], error) {
	known := t.rebuilt.of(name)
	switch {
	case known == nil || t.cgo == never:
		return nil, nil
	case t.cgo != "" && t.cgo != always:
		return nil, fmt.Errorf("%s=%s: must be 0 (measure %s in pure Go), 1 (with cgo, or fail) or unset", cgoVariable, t.cgo, name)
	}
	found, err := runners.Find[Info](*known)
	if err == nil && versionOf(found.Info) != versionOf(linked) {
		err = fmt.Errorf("%s holds %s %s, statelab %s: %s", found.Path, name, versionOf(found.Info), versionOf(linked), known.Fix)
	}
	if t.cgo == always || err == nil {
		return found, err
	}
	if errors.As(err, new(*runners.NotHere)) {
		return nil, nil
	}
	return nil, fmt.Errorf("%w; or set %s=%s to measure in pure Go", err, cgoVariable, never)
}

// versionOf is the version of an engine.
func versionOf[Info protocol.Info](info Info) string {
	e, _ := any(info).(engine.Info)
	return e.Version
}

// names are all that this version lists.
func (t *table[Info]) names() (names []string) {
	for _, info := range t.linked {
		_, own, _ := protocol.Common(info)
		names = append(names, own)
	}
	for _, known := range t.outside {
		names = append(names, known.Name)
	}
	return names
}

// self is this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// findAll finds what a flag lists. One mistake names all that have no runner here
// and the command that builds it.
func (t *table[Info]) findAll(flag string, names []string, m *mistakes) {
	var fixes []string
	missing := map[string][]string{} // by the command
	for _, name := range names {
		_, err := t.find(name)
		var absent *runners.NotHere
		if !errors.As(err, &absent) {
			if err != nil {
				m.At(flag, "", "%v", err)
			}
			continue
		}
		if !slices.Contains(fixes, absent.Fix) {
			fixes = append(fixes, absent.Fix)
		}
		if text := fmt.Sprintf("%s (%s)", name, absent.Runner); !slices.Contains(missing[absent.Fix], text) {
			missing[absent.Fix] = append(missing[absent.Fix], text)
		}
	}
	for _, fix := range fixes {
		m.At(flag, "", "found no runner for %s beside statelab or on PATH: %s", strings.Join(missing[fix], ", "), fix)
	}
}

// chosen is an entry of a list, NAME or NAME:PROFILE.
type chosen[Info protocol.Info] struct {
	*runners.Found[Info]
	label, profile string
}

// choose finds the entries of a flag's list; those without a profile get the first.
func (t *table[Info]) choose(flag string, labels []string, m *mistakes) (entries []chosen[Info]) {
	var names []string
	for i, label := range labels {
		if strings.ContainsAny(label, "/\\ ") || label == "" || label[0] == ':' {
			m.At(flag, strconv.Quote(label), "write NAME or NAME:PROFILE")
		} else if slices.Contains(labels[:i], label) {
			m.At(flag, label, "named twice")
		} else {
			name, profile, _ := strings.Cut(label, ":")
			names, entries = append(names, name), append(entries, chosen[Info]{label: label, profile: profile})
		}
	}
	t.findAll(flag, names, m)
	for i := range entries {
		c := &entries[i]
		if c.Found = t.found[names[i]]; c.Found == nil {
			continue
		}
		_, name, profiles := protocol.Common(c.Info)
		if c.profile == "" && len(profiles) > 0 {
			c.profile = profiles[0].Name
		}
		if !slices.ContainsFunc(profiles, func(p engine.Profile) bool { return p.Name == c.profile }) {
			m.At(flag, c.label, "%s has no profile %q", name, c.profile)
			c.Found = nil
		}
	}
	return slices.DeleteFunc(entries, func(c chosen[Info]) bool { return c.Found == nil })
}
