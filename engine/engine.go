// Package engine is the contract between statelab, which measures, and a key-value engine, which is
// measured.
//
// To have an engine measured, write an adapter: a type that implements [Engine], whose Open returns
// a [DB] with a [Reader] and a [Writer]. Package engine/simple makes one of five methods, for an
// engine without options and without a cache of its own. Test the adapter with
// enginetest.Run(t, MyEngine{}) of package engine/enginetest, and measure it with package measure.
//
// The adapter says in [Info] which options it honours and what is true of its figures: each is a
// [Capability], and the suite tests the ones that it names. Options that need a capability are set
// only for engines that have it. What a DB, Reader or Writer can do beyond its interface needs no
// capability: it implements [BackgroundWorker], [KeySampler], [ManyGetter], [MemoryReporter],
// [RangeDeleter], [Rewriter], [SortedBuilder] or [WriteBuffered], and the suite tests what it
// finds. An Engine may be [Dependent].
//
// An adapter translates: it does not measure time and does not guess. A counter that the engine
// does not have is nil, never zero. Errors of Open are a [NotADatabaseError] where Dir holds
// nothing that the engine opens, and a [LockedError] where another process has it open; [Fail]
// makes others whose kind matters.
//
// The package imports the standard library alone. A module that requires statelab nevertheless gets
// at least the versions of Pebble and other modules that statelab's go.mod requires, as they are
// one module.
//
// Goals: a Get that adds nothing but one interface call; counters that mean the
// same for every engine; errors instead of silence.
// Non-goals: iteration, transactions, snapshots: a lookup needs none of them.
package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Capability is an option that an adapter honours, or a fact about its engine that decides what
// its figures mean. It has to be known before a database is opened.
type Capability string

// Capabilities of engines.
const (
	CanReadBlocks Capability = "block_reads" // counts block reads by type and level
	CanDirect     Capability = "direct"      // O_DIRECT reads
	// opens databases of other programs, never writing
	CanReadForeign   Capability = "foreign"
	CanTraceAccesses Capability = "block_accesses" // Options.TraceAccesses is honoured
	// Gets that wait for another's read of a block count as cache misses
	SharesReads Capability = "shared_reads"
	IsVolatile  Capability = "volatile" // keeps nothing on disk
	// a Get finds every key, with any value: answers are not checked
	KeepsNothing Capability = "keeps_nothing"
	// reads through mmap: the operating system's page cache is its cache
	UsesPageCache Capability = "page_cache"
	// and its Go code touches the mapped pages: a page fault keeps the goroutine's processor
	FaultsInGo Capability = "faults_in_go"
	// Options.MemoryBytes is honoured, and the DB is a MemoryReporter
	CanBudget Capability = "memory_budget"
	// keeps no blocks itself: CacheBytes has no effect, cache_bytes is 0
	HasNoCache Capability = "no_block_cache"
	// keeps all its files open: Handles has no effect, handles is 0
	HasNoHandles Capability = "no_handles"
	// a Get of the engine allocates more than a handful of objects
	AllocatesPerGet Capability = "get_allocates"
)

// Info describes an adapter.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of the engine, not of the adapter
	Route   string `json:"route"`   // how it gets into the process: "go module", "dlopen", ...
	Licence string `json:"licence"`
	// Durability says in a few words what survives a kill and what a power cut
	// after Commit, as the adapter configures the engine: compared engines differ.
	Durability   string       `json:"durability,omitempty"`
	Capabilities []Capability `json:"capabilities"`
	Profiles     []Profile    `json:"profiles"` // the first is the default
	// StoredOptions are the overrides that apply when data is written, such as the size of
	// blocks: a database keeps the values that it was loaded with.
	StoredOptions []string `json:"stored_options,omitempty"`
	// Options are the overrides, with what each is; empty: the adapter does not list them.
	Options []Option `json:"options,omitempty"`
}

// Option is an option of an engine that a user can set by the engine's own name for it.
type Option struct {
	Name    string `json:"name"`
	Default string `json:"default"` // of the first profile; "": the engine's own
	Values  string `json:"values"`  // what may be written, such as "a size of at least 4KiB"
	About   string `json:"about"`   // what it decides
}

// AppliesAtWrite reports whether an override applies when data is written. One of a part, such as
// Levels[3].BlockSize, does as the one of the whole does.
func (i Info) AppliesAtWrite(option string) bool {
	_, last, ok := strings.Cut(option, "].")
	if !ok {
		last = option
	}
	return slices.Contains(i.StoredOptions, last)
}

// Has reports whether the adapter has capability c.
func (i Info) Has(c Capability) bool {
	return slices.Contains(i.Capabilities, c)
}

// BuildOption is the effective option that says how an engine was built that can be built
// either way: PureGo or WithCgo. Others do not have it.
const (
	BuildOption = "build"
	PureGo      = "pure Go"
	WithCgo     = "cgo"
)

// FilterBitsOption is the effective option that says how many bits per key filters take: one
// number, or one for each level. Engines whose own options say it have no such option.
const FilterBitsOption = "FilterBitsPerKey"

// Profile is a named set of engine options.
type Profile struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Client is the program whose options these are, by its short name such as geth; "": of none.
	Client string `json:"client,omitempty"`
}

// Engine opens databases. Implementations hold no state.
type Engine interface {
	Info() Info

	// Check names everything wrong with o (unknown profile, unknown override,
	// impossible value), touching no file. nil means o can be tried.
	Check(o Options) []error

	// Open opens or, with o.Create, makes a database in o.Dir. It refuses what Check refuses.
	Open(ctx context.Context, o Options) (DB, error)
}

// Dependent is an Engine that needs something its binary does not hold, such as a
// shared library.
type Dependent interface {
	// Ready says what is missing, with the command that gets it; nil if the engine
	// runs here.
	Ready() error
}

// OwnFolder is the folder inside a database's directory that belongs to the
// harness (manifest, run folder of the load). Engines leave it alone; a
// directory that holds nothing else counts as empty.
const OwnFolder = "statelab"

// MayBeIn reports whether an entry may be in a directory that is still empty to
// an engine.
func MayBeIn(entry string) bool { return entry == OwnFolder || entry == "lost+found" }

// Options say how to open a database. The zero value of a field means "what
// the profile says".
type Options struct {
	Dir     string `json:"dir"`
	Profile string `json:"profile"` // "" is the engine's first profile

	// Create makes a database: Dir is missing, or has no entry but those that MayBeIn allows;
	// another one is refused. Without Create, nothing is made where there is no database.
	Create   bool `json:"-"`
	ReadOnly bool `json:"read_only"` // write nothing
	// another program's database: implies ReadOnly; no file in Dir may change
	Foreign bool `json:"foreign"`
	// IgnoreLock opens read-only although another process holds the database.
	// Refused (a LockedError that names the way out) where that is not safe.
	IgnoreLock bool `json:"-"`

	CacheBytes int64 `json:"cache_bytes"` // block cache; 0 is the profile's
	// MemoryBytes is one budget for all that the engine keeps in memory: block
	// cache, filters and indexes outside it, write buffers, open tables. The
	// adapter splits it and says how (MemoryReporter). 0: no budget. With
	// CacheBytes too, Check refuses.
	MemoryBytes int64 `json:"memory_bytes"`
	Handles     int   `json:"handles"` // open files the engine may keep; 0 is the profile's

	Direct bool `json:"direct"` // block reads bypass the page cache (O_DIRECT)

	// TraceAccesses opens with a cache that admits nothing, so that every block
	// access becomes a block read: Counters then hold the accesses of a Get.
	TraceAccesses bool `json:"-"`

	// Accessed is told, with TraceAccesses, of every block that a Get needs, in order, by the
	// goroutine that makes the Get; nil: nobody asks. Engines that count block reads at the file
	// layer honour it.
	Accessed func(Access) `json:"-"`

	// Part is the part of the tables that Shape is to describe, alone. Engines whose Shape
	// is not the sum over table files ignore it.
	Part Part `json:"-"`

	// Overrides are engine options by the engine's own names, such as
	// "MemTableSize": "64MiB" or "Levels[0].BlockSize": "8192".
	Overrides map[string]string `json:"overrides,omitempty"`

	// Log receives the engine's own messages; nil drops them.
	Log func(string) `json:"-"`
}

// Access is a block that a Get needed.
type Access struct {
	File             uint64 // its number
	Offset           uint64
	Type             BlockType
	Level            int
	DiskBytes, Bytes int32 // as stored, and decompressed
}

// ReadsOnly reports whether o, in any way, asks to write nothing.
func (o Options) ReadsOnly() bool { return o.ReadOnly || o.Foreign || o.IgnoreLock }

// Part is part Number, from 1, of the Of parts that the files of tables are divided into by
// their numbers. The zero value is the whole. The fields of levels of all parts sum up to
// those of the whole.
type Part struct {
	Number int `json:"number"`
	Of     int `json:"of"`
}

// Has reports whether a file belongs to p.
func (p Part) Has(file uint64) bool { return p.Of == 0 || file%uint64(p.Of) == uint64(p.Number-1) }

// Range are the items from (inclusive) to (exclusive) of n that are p's; all of them if there are
// no parts.
func (p Part) Range(n uint64) (from, to uint64) {
	if p.Of == 0 {
		return 0, n
	}
	end := func(parts int) uint64 { // n/of*parts would overflow later than n*parts
		of := uint64(p.Of)
		return n/of*uint64(parts) + n%of*uint64(parts)/of
	}
	return end(p.Number - 1), end(p.Number)
}

// DB is an open database. Methods are safe for concurrent use.
type DB interface {
	// Reader returns a reader for one goroutine.
	Reader() (Reader, error)
	// Writer returns a writer for one goroutine; an error where the database is
	// read-only.
	Writer() (Writer, error)

	// Sync returns when everything committed so far survives a kill of the
	// process.
	Sync(ctx context.Context) error
	// Settle flushes what is buffered and returns when no background work (flush, compaction, table
	// statistics) is left. progress may be nil; it is called now and then.
	Settle(ctx context.Context, progress func(Settling)) error

	// Counters are totals since Open.
	Counters() Counters
	// Shape is the state of the files now.
	Shape() (Shape, error)
	// Effective are the options the engine runs with, defaults resolved, by
	// the engine's own names. cache_bytes and handles are always among them.
	Effective() map[string]string
	// CacheBytes is the size of the block cache that the engine runs with; 0 if it has none.
	CacheBytes() int64
	// Warnings are about this database or these options.
	Warnings() []Warning

	// Close is called when all readers and writers are closed. When it returns, nothing goes on.
	Close() error
}

// Reader looks keys up. Not safe for concurrent use.
type Reader interface {
	// Get copies the value of key behind dst[:0], growing it as needed, and
	// returns it; the caller owns it. found is false for an absent key, which is no error.
	Get(key, dst []byte) (value []byte, found bool, err error)
	Close() error
}

// ManyGetter is a Reader that looks up several keys in one call, for engines that
// can read for one key while they wait for another.
type ManyGetter interface {
	Reader
	// GetMany looks keys[i] up into answers[i], which are as many. sorted says that the
	// keys ascend. After an error no answer counts.
	GetMany(keys [][]byte, sorted bool, answers []Answer) error
}

// Answer is what Get returns for one of several keys. Its Value is dst before the call
// and value after it: the caller's in both cases.
type Answer struct {
	Value []byte
	Found bool
}

// Writer collects writes into batches. Not safe for concurrent use. Key and
// value may be reused by the caller after a call returns.
type Writer interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	// Commit applies the collected writes atomically and empties the batch. It
	// need not wait for the disk: Sync does.
	Commit() error
	Close() error
}

// RangeDeleter is a Writer that can delete a range of keys.
type RangeDeleter interface {
	// DeleteRange deletes, with the batch, every key from <= key < to.
	DeleteRange(from, to []byte) error
}

// Entries streams pairs in ascending key order and ends with io.EOF. A pair that
// is skipped costs little and is not returned. The slices are valid until the
// following call.
type Entries func(skip bool) (key, value []byte, err error)

// SortedBuilder is a DB that can take keys in ascending order far faster than
// through Put, into the level shape that random loading would have ended with.
type SortedBuilder interface {
	// BuildSorted fills the empty database with spec.Keys pairs, or goes on with a
	// build of the same spec that was interrupted. open(from, to) streams the pairs
	// number from <= i < to; it is called from several goroutines. done is told how
	// many pairs more are finished.
	BuildSorted(
		ctx context.Context, spec SortedSpec, open func(from, to uint64) Entries,
		done func(pairs uint64),
	) error
}

// Rewriter is an empty DB that takes over the tables of another one of its engine, and writes them
// with its own options.
type Rewriter interface {
	// RewriteOptions are options with which a DB is to be opened that is to take over the tables of
	// this one, besides those that it shall have instead.
	RewriteOptions() (map[string]string, error)
	// Rewrite returns when all is written; done is told how many of the tables are.
	Rewrite(ctx context.Context, from DB, done func(tables, of int)) error
}

// SortedSpec describes what BuildSorted is going to be given.
type SortedSpec struct {
	Keys       uint64
	KeyBytes   int
	ValueBytes int // mean
	Seed       uint64
	Workers    int
	Resume     bool // the database may hold a part of this build
}

// KeySampler is a DB whose keys can be sampled without reading all of it.
type KeySampler interface {
	// SampleKeys calls yield with about n keys, chosen by seed, in no particular order; the slice
	// is the callee's. The keys exist at the time of the call, and each key that does is as likely
	// as any other; keys that are in memory alone may never be drawn.
	SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error
}

// BackgroundWorker is a DB that tells what its background work could not do, such
// as write to a full disk. Writers may wait for ever from then on.
type BackgroundWorker interface {
	BackgroundError() error
}

// WriteBuffered is a DB that collects writes in memory and writes them sorted to tables.
type WriteBuffered interface {
	// WriteBufferBytes are the keys and values, in bytes, that become tables together.
	WriteBufferBytes() int64
}

// MemoryReporter is a DB that says what its memory goes to.
type MemoryReporter interface {
	// Memory lists the parts of the budget, largest first. Their sum is what the
	// engine may keep in memory, whether or not a budget was given.
	Memory() []MemoryShare
}

// MemoryShare is a part of an engine's memory, or of a layout's.
type MemoryShare struct {
	// in words: "block cache", "write buffers", "open tables", PageCacheUse
	Use   string `json:"use"`
	Bytes int64  `json:"bytes"`
	// Basis says how the figure is known: "limit" (the engine keeps to it),
	// "measured" (its own account now) or "estimate".
	Basis string `json:"basis"`
	// Holds says which of its reads a layout answers from this part, for the model of its memory.
	Holds Holding `json:"holds,omitempty"`
}

// PageCacheUse is the use of the part that the operating system keeps for an engine or a layout in
// its page cache. It is spent only as far as the rest of the budget leaves room for it, so the part
// is known by this text, which libraries behind the C headers give, too.
const PageCacheUse = "page cache"

// Holding is what a part of a layout's memory keeps; "" of parts that answer no read.
type Holding string

// What parts of memory keep.
const (
	Blocks         Holding = "blocks"          // blocks or pages, as they lie on the disk
	CleanState     Holding = "clean_state"     // nodes or flat states, above a cache of blocks
	PinnedBranches Holding = "pinned_branches" // the upper branches of a trie
	EntryIndex     Holding = "entry_index"     // where every entry lies
	TableMetadata  Holding = "table_metadata"  // filters and indexes, outside the block cache
)

// Settling is the state of background work while Settle waits.
type Settling struct {
	PendingBytes int64 // estimated debt
	Running      int   // jobs
}

// Warning is a doubt about a figure, with the way to remove it.
type Warning struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	// in a summary: labels of what it is about, with which the text begins; "": of all
	Of string `json:"of,omitempty"`
}

// TableNotChosen is the code of the warning that a database has several tables by name and
// Gets went to its default one.
const TableNotChosen = "table_not_chosen"

// UnflushedLog is the code of the warning that a write-ahead log answers a part of the Gets,
// without a block.
const UnflushedLog = "unflushed_log"

// LockedError says that another process holds the database.
type LockedError struct {
	Dir     string
	Hint    string // the way out, such as a flag
	Process int    // its number; 0: not known
}

// Error says who has the database open, and what to do.
func (e *LockedError) Error() string {
	by := "another process"
	if e.Process > 0 {
		by = fmt.Sprintf("process %d", e.Process)
	}
	return fmt.Sprintf("%s is in use by %s: %s", e.Dir, by, e.Hint)
}

// FailureCode is CodeInUse.
func (e *LockedError) FailureCode() Code { return CodeInUse }

// NotADatabaseError says that Dir holds nothing this engine can open.
type NotADatabaseError struct {
	Dir    string
	Why    string
	Remedy string // what makes a database of it, or where one is; "": not known
}

// Error says which directory it is, why it is none, and what can be done.
func (e *NotADatabaseError) Error() string {
	text := fmt.Sprintf("%s holds no database this engine can open: %s", e.Dir, e.Why)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// FailureCode is CodeNotDatabase.
func (e *NotADatabaseError) FailureCode() Code { return CodeNotDatabase }
