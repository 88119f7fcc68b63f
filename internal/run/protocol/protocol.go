// Package protocol is what passes between the planner and its runners: questions
// and answers, and the spec of a run. Events are result.Event, since series hold
// parts of them.
//
// JSON names and schemas are a contract with runners of other versions: names are
// added, none is changed.
// Non-goals: starting runners (plan/runners), serving them (runner).
package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
)

// Questions a runner answers, as its last argument. Without one it carries out the
// spec on its standard input.
const (
	Describe = "describe" // Description on stdout
	Check    = "check"    // a question about options on stdin, a list of mistakes on stdout
	// HarvestOrder on stdin, tree.Survey of what was harvested on stdout; trees only
	Harvest = "harvest"
)

// maxBytes bounds what either side reads of the other's JSON.
const maxBytes = 16 << 20

// Bounded is r up to the limit of what one side may send the other.
func Bounded(r io.Reader) io.Reader { return io.LimitReader(r, maxBytes) }

// Decode reads what the other side sent.
func Decode(r io.Reader, v any) error { return json.NewDecoder(Bounded(r)).Decode(v) }

// Description is what a runner says of itself.
type Description struct {
	Schema  string            `json:"schema"`
	Engines []DescribedEngine `json:"engines"`
	Trees   []tree.Info       `json:"trees,omitempty"`
	Layouts []layout.Info     `json:"layouts,omitempty"`
}

// DescribedEngine is one engine of a runner. Missing says what keeps it from
// running here, and the way to get it.
type DescribedEngine struct {
	engine.Info
	Missing string `json:"missing,omitempty"`
}

// Info is what an adapter says of itself.
type Info interface {
	engine.Info | tree.Info | layout.Info
}

// Common is what every Info has; word is what users call its kind.
func Common[I Info](info I) (word, name string, profiles []engine.Profile) {
	switch info := any(info).(type) {
	case engine.Info:
		return "engine", info.Name, info.Profiles
	case tree.Info:
		return "tree", info.Name, info.Profiles
	case layout.Info:
		return "layout", info.Name, info.Profiles
	}

	return "", "", nil // the types above are all
}

// Pick finds an engine, tree or layout in d, and says what it is missing.
func Pick[I Info](d *Description, name string) (info I, missing string, found bool) {
	for _, e := range d.Engines {
		if info, is := any(e.Info).(I); is && e.Name == name {
			return info, e.Missing, true
		}
	}

	for _, list := range []any{d.Trees, d.Layouts} {
		infos, _ := list.([]I)
		for _, info := range infos {
			if _, has, _ := Common(info); has == name {
				return info, "", true
			}
		}
	}

	return info, "", false
}

// Question asks what is wrong with options.
type Question interface {
	Subject() string // name of the engine, tree or layout
}

// EngineQuestion asks what is wrong with options of an engine, those that can be checked before
// anything is opened.
type EngineQuestion struct {
	Engine  string         `json:"engine"`
	Options engine.Options `json:"options"`
}

// Subject is the name of the engine.
func (q EngineQuestion) Subject() string { return q.Engine }

// TreeQuestion asks what is wrong with options of a tree.
type TreeQuestion struct {
	Tree        string            `json:"tree"`
	Dir         string            `json:"dir"`
	Profile     string            `json:"profile"`
	CacheNodes  int64             `json:"cache_nodes"`
	MemoryBytes int64             `json:"memory_bytes"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	Stores      []string          `json:"stores,omitempty"`
}

// Subject is the name of the tree.
func (q TreeQuestion) Subject() string { return q.Tree }

// LayoutQuestion asks what is wrong with options of a layout.
type LayoutQuestion struct {
	Layout      string            `json:"layout"`
	Profile     string            `json:"profile"`
	MemoryBytes int64             `json:"memory_bytes"`
	Overrides   map[string]string `json:"overrides,omitempty"`
}

// Subject is the name of the layout.
func (q LayoutQuestion) Subject() string { return q.Layout }

// HarvestOrder says what to harvest from a tree's forest into the file Out.
type HarvestOrder struct {
	Tree  string `json:"tree"`
	Dir   string `json:"dir"`
	First int64  `json:"first_version"` // 0: the first it has
	Last  int64  `json:"last_version"`  // 0: the last it has
	Out   string `json:"out"`           // "": only describe the forest
	// Whole: the set will begin where the forest does, so the chain's own roots are its.
	Whole bool `json:"whole,omitempty"`
}

// Spec is what a runner is told of one run, whatever it measures.
type Spec interface {
	Head() Head
	// WhenDiskIsFull is what the user can do then.
	WhenDiskIsFull() string
}

// Head is what every spec says.
type Head struct {
	Schema  string
	Subject string // name of the engine, tree or layout
	Out     string // the run folder
}

// Verbs of an EngineSpec.
const (
	Inspect = "inspect"
	Load    = "load"
	Read    = "read"
	Rewrite = "rewrite"
)

// Page cache modes of an EngineSpec.
const (
	Direct = "direct" // O_DIRECT: block reads are device reads
	Cold   = "cold"   // the database's pages are dropped first, and proved to be gone
	Warm   = "warm"   // the database's pages are read in first
	AsIs   = "asis"
)

// EngineSpec is one point of an engine.
type EngineSpec struct {
	Schema  string   `json:"schema"`
	Verb    string   `json:"verb"`
	Out     string   `json:"out"`     // the run folder; exists
	Command []string `json:"command"` // for run.json

	Engine     string            `json:"engine"`
	Dir        string            `json:"dir"`
	Profile    string            `json:"profile"`
	Overrides  map[string]string `json:"overrides,omitempty"`
	ReadOnly   bool              `json:"read_only"`
	Foreign    bool              `json:"foreign"` // not loaded by statelab: keys are sampled
	IgnoreLock bool              `json:"ignore_lock"`
	CacheAsked string            `json:"cache_asked"` // as typed
	CacheBytes int64             `json:"cache_bytes"` // 0: the profile's
	// MemoryBytes is one budget for the engine, its page cache included. 0: none.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`

	// From is the database whose tables are rewritten into Dir, opened with FromOverrides.
	From          string            `json:"from,omitempty"`
	FromOverrides map[string]string `json:"from_overrides,omitempty"`

	// SharedProcess: the process does other things, too (package measure).
	SharedProcess bool `json:"shared_process,omitempty"`

	// Part is the part of the tables to inspect.
	Part engine.Part `json:"part,omitzero"`

	Handles   int    `json:"handles"`
	PageCache string `json:"page_cache"`

	Workload     string  `json:"workload"`
	Threads      int     `json:"threads"`
	Seed         uint64  `json:"seed"`
	Gets         uint64  `json:"gets"`
	WarmupGets   uint64  `json:"warmup_gets"`
	WarmupAuto   bool    `json:"warmup_auto"` // until the reads per Get stop changing
	WarmupRule   string  `json:"warmup_rule"`
	MissingShare float64 `json:"missing_share"`
	ZipfTheta    float64 `json:"zipf_theta"`
	Rate         float64 `json:"rate_per_second"` // 0: closed loop
	SampleKeys   int     `json:"sample_keys"`     // of a foreign database
	// played on a foreign database instead of sampled keys
	AccessList string `json:"access_list,omitempty"`
	// by which it is resolved: accesses.KeySchemes
	KeyScheme string  `json:"key_scheme,omitempty"`
	Writers   int     `json:"writers"`
	WriteRate float64 `json:"write_rate_per_second"` // 0: as fast as they go
	Puts      uint64  `json:"puts"`                  // overwrite
	BatchKeys int     `json:"batch_keys"`
	// keys of a batch of Gets; 0: one Get at a time
	BatchGets   int  `json:"batch_gets,omitempty"`
	BatchSorted bool `json:"batch_sorted,omitempty"`
	// Gets of a batch at once; 0: the engine's GetMany, or one
	InFlight int `json:"in_flight,omitempty"`
	// GOMAXPROCS while measuring; 0: as many as Gets at once
	Procs int `json:"procs,omitempty"`

	// AccessGets is how many of the measured Gets are replayed with a cache that
	// admits nothing, to learn the accesses by type. 0: none.
	AccessGets uint64 `json:"access_gets"`
	// Accesses per Get by type, where an earlier point of the same database and
	// workload has found them.
	Accesses map[string]float64 `json:"accesses,omitempty"`

	// Load.
	Keys       uint64 `json:"keys"`
	KeyBytes   int    `json:"key_bytes"`
	KeyHash    string `json:"key_hash"`
	ValueModel string `json:"value_model"`
	ValueBytes int    `json:"value_bytes"`
	Resume     bool   `json:"resume"`
	// overwriting after the load: none, steady, or a number of rounds
	Age string `json:"age,omitempty"`
}

// Head is what every spec begins with.
func (s EngineSpec) Head() Head { return Head{s.Schema, s.Engine, s.Out} }

// WhenDiskIsFull is the remedy: what to free, and how to go on.
func (s EngineSpec) WhenDiskIsFull() string {
	switch {
	case s.SharedProcess:
		return "free some space, or use a new Workload.Dir with fewer Keys"
	case s.Verb == Load:
		return fmt.Sprintf("free some space and continue with statelab load --resume --db %s, or "+
			"load fewer --keys", s.Dir)
	}
	return "free some space and do it again"
}

// TreeSpec is one change set into one tree.
type TreeSpec struct {
	Schema  string   `json:"schema"`
	Out     string   `json:"out"`     // the run folder; exists
	Command []string `json:"command"` // for run.json

	Tree        string            `json:"tree"`
	Dir         string            `json:"dir"` // of the tree
	Profile     string            `json:"profile"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	CacheNodes  int64             `json:"cache_nodes"`
	MemoryBytes int64             `json:"memory_bytes"`

	Changes string   `json:"changes"`          // path of the change set
	Stores  []string `json:"stores,omitempty"` // to replay; none: all that the set names
	// how many of the set to apply, from its first; 0: all
	Versions int64 `json:"versions"`
	// RootsEvery is how many versions apart roots are stored; 0 chooses a distance
	// that stores at most 10,000 of them.
	RootsEvery int64 `json:"roots_every"`
	// CommitLimitNanos is how long a call of the tree may take; 0: for ever.
	CommitLimitNanos int64 `json:"commit_limit_ns"`
	// Resume goes on with the tree in Dir, at the version it is found at.
	Resume bool `json:"resume"`

	Gets uint64 `json:"gets"` // after the writes; half of present keys
	Seed uint64 `json:"seed"`
}

// Head is what every spec begins with.
func (s TreeSpec) Head() Head { return Head{s.Schema, s.Tree, s.Out} }

// WhenDiskIsFull is the remedy: what to free, and how to go on.
func (s TreeSpec) WhenDiskIsFull() string {
	return fmt.Sprintf("free some space and continue with the same command and --resume (the "+
		"tree is in %s), or replay fewer --versions", s.Dir)
}

// Stages of a LayoutSpec, a process each: memory and caches of the second owe
// nothing to the first.
const (
	Build  = "build"  // a new state, then blocks of updates
	Lookup = "lookup" // of the state that was built
)

// LayoutSpec is one stage of one layout at one size.
type LayoutSpec struct {
	Schema  string   `json:"schema"`
	Stage   string   `json:"stage"`
	Out     string   `json:"out"`     // the run folder; exists
	Command []string `json:"command"` // for run.json

	Layout      string            `json:"layout"`
	Dir         string            `json:"dir"` // of the state
	Profile     string            `json:"profile"`
	Overrides   map[string]string `json:"overrides,omitempty"`
	MemoryBytes int64             `json:"memory_bytes"` // 0: the profile's, and nothing is held

	Chain Chain  `json:"chain"`
	Reads uint64 `json:"reads"` // lookups of each kind
	// of each kind, each of a state just opened; 0: a hundredth of Reads, 5 to 50
	First uint64 `json:"first"`
	// Accesses is the path of an access list, which is played beside the accounts of Chain; with
	// one there may be none of those.
	Accesses string `json:"accesses,omitempty"`
}

// Check names everything wrong with the state and its traffic.
func (s LayoutSpec) Check() []error {
	c := s.Chain
	if s.Accesses != "" && c.Accounts == 0 {
		c.Accounts, c.UpdateBlocks, c.UpdateAccounts = 1, 0, 0
	}
	return c.Check()
}

// Head is what every spec begins with.
func (s LayoutSpec) Head() Head { return Head{s.Schema, s.Layout, s.Out} }

// WhenDiskIsFull is the remedy: what to free, and how to go on.
func (s LayoutSpec) WhenDiskIsFull() string {
	return fmt.Sprintf("free some space and continue with the same command and --resume (the "+
		"state is in %s), or compare fewer --accounts", s.Dir)
}

// Chain describes a state and the blocks that make it: Accounts new accounts in
// blocks of BlockAccounts, then UpdateBlocks that each change UpdateAccounts of them.
type Chain struct {
	Seed           uint64  `json:"seed"`
	Accounts       uint64  `json:"accounts"`
	ContractShare  float64 `json:"contract_share"` // of the accounts, that have storage
	SlotsPer       uint64  `json:"slots_per_contract"`
	BlockAccounts  uint64  `json:"block_accounts"`
	UpdateBlocks   uint64  `json:"update_blocks"`
	UpdateAccounts uint64  `json:"update_accounts"`
	// ContractSlots are those of one contract, the account with index 0, beside the others. Slots
	// are then looked up in it, and update blocks in turn change accounts without storage and
	// slots of it. 0: there is none.
	ContractSlots uint64 `json:"contract_slots,omitempty"`
	// of each account with storage, for layouts that keep code in their trie
	CodeBytes uint64 `json:"code_bytes,omitempty"`
}

// MaxCodeBytes is the longest code that Ethereum allows (EIP-170).
const MaxCodeBytes = 24_576

// MaxSlotsPer keeps the numbers of slots of different accounts apart.
const MaxSlotsPer = 1 << 20

// Check names everything wrong with c.
func (c Chain) Check() (errs []error) {
	if c.Accounts == 0 || c.Accounts > 1<<40 {
		errs = append(errs, fmt.Errorf("%d accounts: from 1 to 1T", c.Accounts))
	}

	if c.BlockAccounts == 0 {
		errs = append(errs, errors.New("blocks of 0 accounts"))
	}

	if !(c.ContractShare >= 0 && c.ContractShare <= 1) {
		errs = append(errs,
			fmt.Errorf("a share of %g contracts: from 0%% to 100%%", c.ContractShare))
	}

	if c.SlotsPer > MaxSlotsPer {
		errs = append(errs,
			fmt.Errorf("%d slots of a contract: at most %d", c.SlotsPer, MaxSlotsPer))
	}

	if c.ContractSlots > MaxSlotsPer {
		errs = append(errs,
			fmt.Errorf("%d slots of the one contract: at most %d can be built", c.ContractSlots,
				MaxSlotsPer))
	}

	if c.ContractSlots > 0 && c.UpdateAccounts > c.ContractSlots/2 {
		errs = append(errs,
			fmt.Errorf("%d updates of a block: at most half of the %d slots of the one contract",
				c.UpdateAccounts, c.ContractSlots))
	}

	if c.CodeBytes > MaxCodeBytes {
		errs = append(errs, fmt.Errorf("%d bytes of code: at most %d", c.CodeBytes, MaxCodeBytes))
	}

	if c.UpdateAccounts > c.Accounts/2 {
		errs = append(errs,
			fmt.Errorf("%d updates of a block: at most half of %d accounts", c.UpdateAccounts,
				c.Accounts))
	}

	return errs
}
