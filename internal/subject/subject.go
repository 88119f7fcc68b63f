// Package subject describes every engine, tree and layout that statelab knows, one value
// each: the program that runs it, what it costs, the model of its reads, and what others
// published about it.
//
// The planner, the estimates and the reports look a subject up here, or loop over all; they
// know no names. What an adapter alone can tell (its version, its profiles, what it can
// count) is in its Info, which crosses the runner protocol.
//
// A subject without an entry runs all the same: it has no model, and the estimates say whose
// costs they take for it.
//
// Read in this order: subject.go, engines.go, trees.go, layouts.go, models.go, claims.go.
package subject

import (
	"slices"
	"strings"
)

// Program is the runner of its own that holds a subject; the zero value is of one that statelab
// links.
type Program struct {
	Runner  string // name of the binary
	About   string // what the subject is, in a few words
	Licence string
	Fix     string // the command that makes the runner
}

// Commands that make runners.
const (
	makeRunners   = "make runners, in statelab's source (needs a C compiler)"
	makeLibraries = "make runners, in statelab's source (needs a C compiler and Rust)"
	makeTrieDB    = "native/triedb, in statelab's source: its README says how (needs Rust and a " +
		"clone of github.com/base/triedb)"
	makeMonad = "native/monad, in statelab's source: its README says how (needs a build of " +
		"github.com/category-labs/monad)"
	makeTrees   = "make trees, in statelab's source"
	makeWithCgo = "make build, in statelab's source (needs a C compiler)"
)

// goBuild makes a runner for which Go is enough.
func goBuild(name string) string {
	return "go build -o bin/ ./cmd/statelab-run-" + name + ", in statelab's source"
}

// Names are those of all subjects, without profiles.
func Names() (names []string) {
	for _, e := range Engines() {
		names = append(names, e.Name)
	}

	for _, t := range Trees() {
		names = append(names, t.Name)
	}

	for _, l := range Layouts() {
		names = append(names, l.Name())
	}

	slices.Sort(names)
	return slices.Compact(names)
}

// base is a label without its profile and its options: NAME of "NAME:PROFILE option=value".
func base(label string) string {
	if end := strings.IndexAny(label, ": "); end >= 0 {
		return label[:end]
	}
	return label
}

// find is the first entry of a name.
func find[T any](all []T, is func(T) bool) (found T, known bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return found, false
}
