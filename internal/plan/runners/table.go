package runners

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
)

// Table lists engines, trees or layouts: those that this program links and those in
// runners of their own.
type Table[Info protocol.Info] struct {
	Linked  []Info
	Verb    string // starts this program as the runner of those linked
	Outside Programs
	// Plugged are runners of the user's own that may hold a name which is not listed,
	// and what to do to have one. nil: there are none.
	Plugged func(name string) (maybe []Known, advice string)
	// Rebuilt are runners that hold some of those linked, built with cgo. They are taken where
	// they are found, unless Cgo, the value of CgoVariable, says otherwise.
	Rebuilt Programs
	Cgo     string
	Found   map[string]*Found[Info] // a runner is asked once

	env []string // of its runners, added to this process's
}

// CgoVariable says how engines are measured that runners hold built with cgo.
const (
	CgoVariable = "STATELAB_CGO"
	NeverCgo    = "0" // in pure Go
	AlwaysCgo   = "1" // a runner that is missing is an error
)

// Programs are runners of their own.
type Programs []Known

// With adds the runner of a subject that has one, once.
func (p Programs) With(name string, program subject.Program) Programs {
	if program.Runner == "" || p.ByName(name) != nil {
		return p
	}
	return append(p, Known{Name: name, Program: program})
}

// ByName is the runner of a subject; nil: none.
func (p Programs) ByName(name string) *Known {
	if i := slices.IndexFunc(p, func(k Known) bool { return k.Name == name }); i >= 0 {
		return &p[i]
	}
	return nil
}

// Plug is a runner of the user's own that may hold a subject.
func Plug(name, runner, fix string) Known {
	return Known{Name: name, Program: subject.Program{Runner: runner, Fix: fix}}
}

// Find finds an engine, tree or layout that runs here by its name.
func (t *Table[Info]) Find(name string) (*Found[Info], error) {
	if found := t.Found[name]; found != nil {
		return found, nil
	}

	found, err := t.FindKnown(name)
	if err == nil && found.Missing != "" {
		err = errors.New(found.Missing)
	}

	if err != nil {
		return nil, err
	}

	if t.Found == nil {
		t.Found = map[string]*Found[Info]{}
	}

	t.Found[name] = found
	return found, nil
}

// Runner is the runner of a name.
func (t *Table[Info]) Runner(name string) (Runner, error) {
	found, err := t.Find(name)
	if err != nil {
		return Runner{}, err
	}
	return found.Runner, nil
}

// FindKnown finds a name, whether it runs here or not.
func (t *Table[Info]) FindKnown(name string) (*Found[Info], error) {
	for _, info := range t.Linked {
		if _, own, _ := protocol.Common(info); own == name {
			if found, err := t.withCgo(name, info); found != nil || err != nil {
				return found, err
			}
			return &Found[Info]{Runner: Runner{Path: Self(), Args: []string{t.Verb}}, Info: info},
				nil
		}
	}

	if known := t.Outside.ByName(name); known != nil {
		return Find[Info](*known, t.env...)
	}

	word, _, _ := protocol.Common(*new(Info))
	unknown := fmt.Errorf(
		"unknown %s %q (known: %s; statelab engines says which are missing here)",
		word,
		name,
		strings.Join(t.Names(), ", "),
	)

	if t.Plugged == nil {
		return nil, unknown
	}

	maybe, advice := t.Plugged(name)
	for _, known := range maybe {
		found, err := Find[Info](known, t.env...)
		if err == nil {
			return found, nil
		}

		if !errors.As(err, new(*NotInstalledError)) {
			unknown = fmt.Errorf("%w; %w", unknown, err)
		}
	}

	return nil, fmt.Errorf("%w; %s", unknown, advice)
}

// withCgo finds the runner that holds a linked name built with cgo; nil: this program is to
// measure it.
func (t *Table[Info]) withCgo(name string, linked Info) (*Found[Info], error) {
	known := t.Rebuilt.ByName(name)
	switch {
	case known == nil || t.Cgo == NeverCgo:
		return nil, nil
	case t.Cgo != "" && t.Cgo != AlwaysCgo:
		return nil, fmt.Errorf("%s=%s: must be 0 (measure %s in pure Go), 1 (with cgo, or fail) "+
			"or unset", CgoVariable, t.Cgo, name)
	}

	found, err := Find[Info](*known, t.env...)
	if err == nil && versionOf(found.Info) != versionOf(linked) {
		err = fmt.Errorf("%s holds %s %s, statelab %s: %s", found.Path, name,
			versionOf(found.Info), versionOf(linked), known.Fix)
	}

	if t.Cgo == AlwaysCgo || err == nil {
		return found, err
	}

	if errors.As(err, new(*NotInstalledError)) {
		return nil, nil
	}

	return nil, fmt.Errorf("%w; or set %s=%s to measure in pure Go", err, CgoVariable, NeverCgo)
}

// WithCgo reports whether a runner that holds a linked engine built with cgo measures it.
func (t *Table[Info]) WithCgo(name string) bool {
	found := t.Found[name]
	return found != nil && found.Path != Self() && t.Rebuilt.ByName(name) != nil
}

// versionOf is the version of an engine.
func versionOf[Info protocol.Info](info Info) string {
	e, _ := any(info).(engine.Info)
	return e.Version
}

// Names are all that this version lists.
func (t *Table[Info]) Names() (names []string) {
	for _, info := range t.Linked {
		_, own, _ := protocol.Common(info)
		names = append(names, own)
	}
	for _, known := range t.Outside {
		names = append(names, known.Name)
	}
	return names
}

// Self is this program.
func Self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// FindAll finds what a flag lists. One mistake names all that have no runner here and the
// command that builds it.
func (t *Table[Info]) FindAll(flag string, names []string, m *setting.Mistakes) {
	var fixes []string
	missing := map[string][]string{} // by the command
	for _, name := range names {
		_, err := t.Find(name)
		var absent *NotInstalledError
		if !errors.As(err, &absent) {
			if err != nil {
				m.At(flag, "", "%v", err)
			}
			continue
		}

		if !slices.Contains(fixes, absent.Fix) {
			fixes = append(fixes, absent.Fix)
		}

		text := fmt.Sprintf("%s (%s)", name, absent.Runner)
		if !slices.Contains(missing[absent.Fix], text) {
			missing[absent.Fix] = append(missing[absent.Fix], text)
		}
	}

	for _, fix := range fixes {
		m.At(flag, "", "found no runner for %s next to statelab or on PATH: %s",
			strings.Join(missing[fix], ", "), fix)
	}
}

// Chosen is an entry of a list, NAME or NAME:PROFILE.
type Chosen[Info protocol.Info] struct {
	*Found[Info]
	Label, Profile string
}

// Choose finds the entries of a flag's list; those without a profile get the first.
func (t *Table[Info]) Choose(
	flag string, labels []string, m *setting.Mistakes,
) (entries []Chosen[Info]) {
	var names []string
	for i, label := range labels {
		if strings.ContainsAny(label, "/\\ ") || label == "" || label[0] == ':' {
			m.At(flag, strconv.Quote(label), "write NAME or NAME:PROFILE")
		} else if slices.Contains(labels[:i], label) {
			m.At(flag, label, "named twice")
		} else {
			name, profile, _ := strings.Cut(label, ":")
			names, entries = append(names, name),
				append(entries, Chosen[Info]{Label: label, Profile: profile})
		}
	}

	t.FindAll(flag, names, m)
	for i := range entries {
		c := &entries[i]
		if c.Found = t.Found[names[i]]; c.Found == nil {
			continue
		}

		_, name, profiles := protocol.Common(c.Info)
		if c.Profile == "" && len(profiles) > 0 {
			c.Profile = profiles[0].Name
		}

		if !slices.ContainsFunc(profiles,
			func(p engine.Profile) bool { return p.Name == c.Profile }) {
			m.At(flag, c.Label, "%s has no profile %q", name, c.Profile)
			c.Found = nil
		}
	}

	return slices.DeleteFunc(entries, func(c Chosen[Info]) bool { return c.Found == nil })
}

// Tables are all that can be measured.
type Tables struct {
	Engines *Table[engine.Info]
	Trees   *Table[tree.Info]
	Layouts *Table[layout.Info]
}

// NewTables are those of a program that links some of them; a verb each starts it as the runner of
// its engines, trees and layouts.
func NewTables(
	engines []engine.Info, trees []tree.Info, layouts []layout.Info,
	engineVerb, treeVerb, layoutVerb string,
) Tables {
	t := Tables{
		&Table[engine.Info]{Linked: engines, Verb: engineVerb, Cgo: os.Getenv(CgoVariable)},
		&Table[tree.Info]{Linked: trees, Verb: treeVerb, Plugged: PluggedTrees},
		&Table[layout.Info]{Linked: layouts, Verb: layoutVerb, Plugged: PluggedLayouts},
	}

	for _, e := range subject.Engines() {
		t.Engines.Outside = t.Engines.Outside.With(e.Name, e.Program)
		t.Engines.Rebuilt = t.Engines.Rebuilt.With(e.Name, e.WithCgo)
	}

	for _, of := range subject.Trees() {
		t.Trees.Outside = t.Trees.Outside.With(of.Name, of.Program)
	}

	for _, l := range subject.Layouts() {
		t.Layouts.Outside = t.Layouts.Outside.With(l.Name(), l.Program)
	}

	return t
}

// Runner is the runner of a spec's subject.
func (t Tables) Runner(spec protocol.Spec) (Runner, error) {
	name := spec.Head().Subject
	switch spec.(type) {
	case *protocol.TreeSpec:
		return t.Trees.Runner(name)
	case *protocol.LayoutSpec:
		return t.Layouts.Runner(name)
	}
	return t.Engines.Runner(name)
}

// Programs are this one and the runners that were found.
func (t Tables) Programs() []string {
	all := append([]string{Self()}, t.Engines.Paths()...)
	return Unique(append(append(all, t.Trees.Paths()...), t.Layouts.Paths()...))
}
