// Package experiment is the declaration of what to measure: a Go value, what the
// flags of a measuring verb mean, and a YAML file that `statelab run` reads. All
// three are the same thing: one table of fields (fields.go) makes the flags, reads
// and writes the file, and gives editors a JSON Schema.
//
// Non-goals: judging values, which needs engines and databases (cmd/statelab);
// carrying an experiment out (plan).
package experiment

import "strings"

// Schema is the version of experiment files.
const Schema = "statelab.experiment/1"

// File is the experiment inside a folder of results.
const File = "experiment.yaml"

// What an experiment can measure: the verbs.
const (
	Load    = "load"
	Sweep   = "sweep"
	Replay  = "replay"
	Layouts = "layouts"
	Disk    = "disk"
	Price   = "price"
)

// oneRead is what files of earlier versions measure that are a sweep of one point.
const oneRead = "read"

// Measures are all of them.
func Measures() []string { return []string{Load, Sweep, Replay, Layouts, Disk, Price} }

// Here is where an experiment runs if nothing else is said: on this machine.
const Here = "local"

// Cluster is Slurm; a partition follows a colon.
const Cluster = "slurm"

// List is one value or several with commas between them, a sequence in YAML.
type List string

// Values are l's values; none for an empty list.
func (l List) Values() []string {
	if l == "" {
		return nil
	}
	values := strings.Split(string(l), ",")
	for i, v := range values {
		values[i] = strings.TrimSpace(v)
	}
	return values
}

// tidy is l without spaces around its values, which mean nothing.
func (l List) tidy() List { return List(strings.Join(l.Values(), ",")) }

// First is the first value, "" for an empty list.
func (l List) First() string {
	if values := l.Values(); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Several reports whether l is an axis with more than one value.
func (l List) Several() bool { return len(l.Values()) > 1 }

// Batches names the flags of batches that other sets in another way than e does.
func (e *Experiment) Batches(other *Experiment) (flags []string) {
	for _, s := range []struct {
		flag      string
		mine, its List
	}{{"batch-gets", e.BatchGets, other.BatchGets}, {"batch-order", e.BatchOrder, other.BatchOrder}, {"in-flight", e.InFlight, other.InFlight}} {
		if s.mine != s.its {
			flags = append(flags, s.flag)
		}
	}
	return flags
}

// Experiment declares a measurement. Values are texts as a user writes them (5M,
// 64MiB, 0.1%): whoever carries the experiment out reads them, and reports all
// mistakes at once. A List with several values is an axis: every combination of
// values is a point.
type Experiment struct {
	Measure string // the verb
	Name    string // label in charts
	Where   string // Here, or Cluster with or without a partition

	// Cluster: which nodes, and what is where on them.
	Constraint, DBAt, Submit List
	Scratch                  string

	// Subject: what is measured, with which options. Engine, Tree and Layout exclude
	// each other.
	Engine, Tree, Layout   List
	Profile, Cache, Memory List
	Handles                List
	CacheNodes             string
	Options                []string // Name=Value or, as an axis, Name=Value,Value
	Table                  string

	// Database: where it is and how it is opened. For trees and layouts DB is the
	// folder for the files that they make.
	DB                             string
	Existing, IgnoreLock, ReadOnly bool
	Keep, Discard                  bool

	// Load: a database that is made.
	Keys, Age                                 List
	KeyBytes, KeyHash, ValueBytes, ValueModel string

	// Workload.
	Workload, Gets, Warmup, Missing, Zipf      string
	Rate, Threads, PageCache                   List
	BatchGets, BatchOrder, Procs               List
	Writers, WriteRate, Puts, Batch            string
	AccessGets, SampleKeys                     string
	Changes, Versions, RootsEvery, CommitLimit string
	Stores                                     List

	// State of layouts.
	Accounts                                                      List
	ContractSlots                                                 List
	Ahead, AheadMemory                                            List // sizes that are predicted, and the memory there
	Contracts, Slots, Block, Updates, UpdateBlocks, Lookup, First string
	Accesses, KeyScheme                                           string // an access list, and whose keys

	// Disk.
	Dir, Seconds, With, Ceiling string
	InFlight                    List // of multireadrandom and layouts, too

	// Price.
	From, At, ContractAt, Hardware List
	GasPerSecond                   string

	Repeats, Seed string
}
