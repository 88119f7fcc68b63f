package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"github.com/statelab/statelab/tree"
)

// HarvestArg asks a runner of trees to write a change set: HarvestOrder on stdin,
// Harvested on stdout.
const HarvestArg = "harvest"

// TreeQuestion asks what is wrong with options of a tree. They travel with the
// names of tree.Options.
type TreeQuestion struct {
	Tree        string            `json:"tree"`
	Dir         string            `json:"dir"`
	Profile     string            `json:"profile"`
	CacheNodes  int64             `json:"cache_nodes"`
	MemoryBytes int64             `json:"memory_bytes"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	Stores      []string          `json:"stores,omitempty"`
}

// Options are those of the question.
func (q TreeQuestion) Options() tree.Options {
	return tree.Options{Dir: q.Dir, Profile: q.Profile, CacheNodes: q.CacheNodes, MemoryBytes: q.MemoryBytes, Overrides: q.Overrides, Stores: q.Stores, Create: true}
}

// HarvestOrder says what to harvest from a tree's forest into the file Out.
type HarvestOrder struct {
	Tree  string `json:"tree"`
	Dir   string `json:"dir"`
	First int64  `json:"first_version"` // 0: the first it has
	Last  int64  `json:"last_version"`  // 0: the last it has
	Out   string `json:"out"`           // "": only say what there is
}

// Harvested is what was harvested.
type Harvested struct {
	Stores []string `json:"stores"`
	First  int64    `json:"first_version"`
	Last   int64    `json:"last_version"`
}

// KnownTree is a tree that has a runner binary, whether it is here or not.
type KnownTree struct {
	Tree    string
	About   string
	Licence string
	Runner  string   // name of the binary
	Args    []string // that make it a runner
	Fix     string   // the command that makes it
}

// Tree is a tree in a runner that was found.
type Tree struct {
	Path string
	Args []string
	Info tree.Info
}

// Find finds the runner of k and asks it for the tree.
func (k KnownTree) Find() (*Tree, error) {
	path, err := Known{Runner: k.Runner, Fix: k.Fix}.path()
	if err != nil {
		return nil, err
	}
	t := &Tree{Path: path, Args: k.Args}
	text, err := t.ask(nil, DescribeArg)
	if err != nil {
		return nil, err
	}
	var d Description
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != DescriptionSchema {
		return nil, fmt.Errorf("%s is of another version (it says %q): %s", path, clip(text), k.Fix)
	}
	for _, info := range d.Trees {
		if info.Name == k.Tree {
			t.Info = info
			return t, nil
		}
	}
	return nil, fmt.Errorf("%s holds no tree %s: %s", path, k.Tree, k.Fix)
}

// Check asks the runner what is wrong with options.
func (t *Tree) Check(q TreeQuestion) []error {
	q.Tree = t.Info.Name
	question, err := json.Marshal(q)
	if err != nil {
		return []error{err}
	}
	text, err := t.ask(question, CheckArg)
	if err != nil {
		return []error{err}
	}
	var mistakes []string
	if err := json.Unmarshal(text, &mistakes); err != nil {
		return []error{fmt.Errorf("%s %s answered %q: %w", t.Path, CheckArg, clip(text), err)}
	}
	var errs []error
	for _, text := range mistakes {
		errs = append(errs, errors.New(text))
	}
	return errs
}

func (t *Tree) ask(stdin []byte, question string) ([]byte, error) {
	return ask(t.Path, stdin, append(slices.Clip(t.Args), question)...)
}

// Harvest is the command that carries out an order given on its standard input.
func (t *Tree) Harvest() *exec.Cmd {
	return exec.Command(t.Path, append(slices.Clip(t.Args), HarvestArg)...)
}
