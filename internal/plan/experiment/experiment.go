// Package experiment is the declaration of what to measure: a Go value, what the flags of a
// measuring verb mean, and a YAML file that `statelab run` reads. All three are the same thing:
// the fields of an experiment, which are declared once (fields.go), make the flags, read and
// write the file, and give editors a JSON Schema.
//
// Non-goals: judging values against engines and databases (cmd/statelab); carrying an experiment
// out (plan).
package experiment

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/setting"
)

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

// oneRead is what files of earlier versions call a sweep of one point.
const oneRead = "read"

// Measures are all of them.
func Measures() []string { return []string{Load, Sweep, Replay, Layouts, Disk, Price} }

// Here is where an experiment runs if nothing else is said: on this machine.
const Here = "local"

// Experiment declares a measurement: where, how often and with which seed, and one subject with
// its own settings. A setting with several values is an axis: every combination is a point.
type Experiment struct {
	Measure string // the verb
	Name    Text   // label in charts
	Where   setting.Value[setting.Target]
	Cluster
	DB            Text // where what is measured is, or is made
	Options       setting.Options
	Repeats, Seed Count
	Subject       Subject
	OnePoint      bool // settings that may be axes have one value: of a key stream that is traced
}

type (
	// Text is a setting of text, such as a folder.
	Text = setting.Value[string]
	// Count is a setting of a count, such as keys.
	Count = setting.Value[uint64]
	// Int is a setting of a small whole number, such as threads.
	Int = setting.Value[int]
	// Float is a setting of a number, such as an exponent.
	Float = setting.Value[float64]
	// Size is a setting of bytes.
	Size = setting.Value[int64]
	// Bool is a setting that is on or off.
	Bool = setting.Value[bool]
)

// Cluster says which nodes, and what is where on them.
type Cluster struct{ Constraint, DBAt, Submit, Scratch Text }

// Subject is what is measured: Loaded, Swept, Replayed, States, Probed or Priced.
type Subject interface {
	// fields are the settings of the subject, among those of e, in the order of files and help.
	fields(e *Experiment) []Field
}

// Named is an engine, or an engine with its profile: NAME:PROFILE.
type Named struct{ Name, Profile string }

// String is the engine as a flag takes it: ENGINE or ENGINE:PROFILE.
func (n Named) String() string {
	if n.Profile == "" {
		return n.Name
	}
	return n.Name + ":" + n.Profile
}

func parseNamed(text string) (Named, error) {
	name, profile, given := strings.Cut(text, ":")
	if name == "" || given && profile == "" {
		return Named{},
			fmt.Errorf(
				"invalid engine %q: write NAME or NAME:PROFILE; statelab engines lists them",
				text,
			)
	}

	return Named{name, profile}, nil
}

// EngineOptions is how the database of an engine is opened.
type EngineOptions struct {
	Engine  setting.Value[Named]
	Profile Text
	Cache   setting.Value[setting.CacheSize]
	Handles Count
}

// DatasetOptions are the keys and values of a database that is made, and how old it gets.
type DatasetOptions struct {
	Keys                          Count
	KeyBytes, ValueBytes          Int
	KeyHash, ValueModel, Workload Text // Workload writes them
	Age                           Text
	Batch                         Count // keys per write batch
}

// LoadConfig is a database that is made.
type LoadConfig struct {
	EngineOptions
	DatasetOptions
	Threads Int
}

// SweepConfig are Gets from databases of engines, which are made where none is named.
type SweepConfig struct {
	EngineOptions
	DatasetOptions
	Memory                         Size
	Existing, IgnoreLock, ReadOnly Bool
	Table                          Text
	Loads                          Count // databases of a point
	LoadWorkload                   Text  // order in which their keys are written
	// Simulated are sizes of the block cache whose reads are computed, not measured.
	Simulated setting.Value[setting.CacheSize]

	Gets, Puts, BatchGets, Writers, AccessGets, SampleKeys Count
	Warmup                                                 setting.Value[setting.Warmup]
	Missing, Zipf, Rate, WriteRate                         Float
	Threads, InFlight, Procs                               Int
	PageCache, BatchOrder, Accesses, KeyScheme             Text
	Ceiling                                                Text // the disk's limit
}

// ReplayConfig are change sets that are applied to trees.
type ReplayConfig struct {
	Tree, Changes, Stores                  Text
	Memory                                 Size
	CacheNodes, Gets, Versions, RootsEvery Count
	CommitLimit                            setting.Value[time.Duration]
	Discard                                Bool
}

// LayoutConfig are states that are built in layouts and looked up.
type LayoutConfig struct {
	Layout, Accesses                            Text
	Memory, AheadMemory                         Size
	Keep                                        Bool
	Accounts, ContractSlots, Ahead              Count
	Slots, Block, Updates, UpdateBlocks, Lookup Count
	First, Code                                 Count
	Contracts                                   Float // share of the accounts
}

// DiskConfig is a disk.
type DiskConfig struct {
	Dir, With Text
	InFlight  Int
	Seconds   Float
}

// PriceConfig are states whose accesses get a price.
type PriceConfig struct {
	LayoutConfig
	From, Hardware               Text
	At, ContractAt, GasPerSecond Count
	SlotsAt                      Count
	AtMemory                     Size
}

// subjects are the settings of each verb's subject.
var subjects = map[string]func() Subject{
	Load:    func() Subject { return new(LoadConfig) },
	Sweep:   func() Subject { return new(SweepConfig) },
	Replay:  func() Subject { return new(ReplayConfig) },
	Layouts: func() Subject { return new(LayoutConfig) },
	Disk:    func() Subject { return new(DiskConfig) },
	Price:   func() Subject { return new(PriceConfig) },
}

// New is an experiment with a verb's defaults.
func New(verb string) *Experiment {
	one := verb == oneRead
	if one {
		verb = Sweep
	}

	e := &Experiment{Measure: verb, Subject: subjects[verb]()}
	for _, f := range e.Fields() {
		f.Dest.SetDefault(f.Value)
	}

	if one { // which did not probe the disk
		SubjectAs[*SweepConfig](e).Ceiling.SetDefault("none")
	}

	return e
}

// Clone is a copy whose settings can be changed.
func (e *Experiment) Clone() *Experiment {
	c := *e
	subject := reflect.New(reflect.TypeOf(e.Subject).Elem())
	subject.Elem().Set(reflect.ValueOf(e.Subject).Elem())
	c.Subject = subject.Interface().(Subject)
	return &c
}

// SubjectAs are the settings of a subject: Of[*Swept](e).
func SubjectAs[S Subject](e *Experiment) S { return e.Subject.(S) }

// Resolved is e with paths that hold wherever it is read.
func (e *Experiment) Resolved() (*Experiment, error) {
	r := e.Clone()
	paths := []*Text{&r.DB}
	switch s := r.Subject.(type) {
	case *SweepConfig:
		if c := s.Ceiling.Value(); c != "auto" && c != "none" {
			paths = append(paths, &s.Ceiling)
		}
		paths = append(paths, &s.Accesses)
	case *LayoutConfig:
		paths = append(paths, &s.Accesses)
	case *ReplayConfig:
		paths = append(paths, &s.Changes)
	case *DiskConfig:
		paths = append(paths, &s.Dir)
	}

	for _, path := range paths {
		if path.Value() == "" {
			continue
		}

		full, err := filepath.Abs(path.Value())
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", path, err)
		}

		path.SetValues(full)
	}

	return r, nil
}
