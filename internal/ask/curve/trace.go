// Package curve works out, from the filters and indexes of a database, which blocks Gets
// access, and what caches of every size would read of them. Nothing is written, and no Get
// is made where the database can be resolved; else the Gets show their accesses, one by one.
//
// Non-goals: databases that are not here (model/predict), and caches of engines whose
// blocks are not modelled.
package curve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TraceRequest is the database whose Gets are traced.
type TraceRequest struct {
	Engine  engine.Engine // reads its keys in this process
	Version string        // of the engine that would be measured
	Spec    bench.Spec    // the Gets

	// Saw, unless it is nil, is told each key of the Gets that are traced, in order.
	Saw func(key []byte)
	// All blocks that Gets look at are traced, those beside the cache, too, with the sizes of their
	// content.
	All bool
}

// Fits refuses a kept trace of another database's engine, or of some of the keys alone.
func (o TraceRequest) Fits(path string, header trace.Header) error {
	if header.SampleShift > 0 {
		return engine.Fail(engine.CodeUsage, "--trace %s: it is a trace of sampled keys (1 of "+
			"%d), which cannot be simulated: trace all keys "+
			"(without --sample-shift)", path, 1<<header.SampleShift)
	}

	if header.SampledBlocks > 1 {
		return engine.Fail(engine.CodeUsage, "--trace %s: it is a trace of one block in %d: trace "+
			"all blocks, or use statelab simulate, which takes smaller caches", path,
			header.SampledBlocks)
	}

	if header.Engine != o.Spec.Engine {
		return engine.Fail(engine.CodeUsage, "--trace %s: it is of %s, and %s is of %s: give the "+
			"database that it was made of", path, header.Engine,
			o.Spec.Dir, o.Spec.Engine)
	}

	return nil
}

// FitsBlocks refuses a kept trace whose blocks cannot be of the database, of Pebble.
func (o TraceRequest) FitsBlocks(path string, header trace.Header, blocks []cachesim.Block) error {
	version := subject.PebbleVersion(o.Spec.Engine)
	// A database that has not changed needs no further proof.
	if same, err := resolve.Identify(o.Spec.Dir, version); err == nil && same == header.Database {
		return nil
	}

	why, err := resolve.ForeignBlocks(o.Spec.Dir, version, blocks)
	if err != nil || why == "" {
		return err
	}

	return engine.Fail(engine.CodeUsage, "--trace %s: it is not of %s, or of a later state of it "+
		"than this copy: %s", path, o.Spec.Dir, why).WithRemedy("give the database that was " +
		"traced, or trace this one (statelab trace, statelab watch --trace-out)")
}

// Record writes the trace of the key stream of o, or of a part of it.
func Record(
	ctx context.Context, w io.Writer, o TraceRequest, sample trace.Sample, part engine.Part,
	tell result.EventFunc,
) (made trace.Made, err error) {
	spec := &o.Spec
	resolver, err := follow(ctx, o)
	if err != nil {
		return made, err
	}

	defer func() { err = errors.Join(err, resolver.Close()) }()
	made.Header = trace.Header{
		Schema:        schema.Trace,
		Engine:        spec.Engine,
		EngineVersion: o.Version,
		Profile:       spec.Profile,
		ReadOnly:      spec.ReadOnly,
		Database:      resolver.Identity(),
		Keys:          streamWords(spec),
		Seed:          spec.Seed,
		SampleShift:   sample.Shift,
		WarmupGets:    int(spec.WarmupGets),
		Part:          part,
	}

	if kind := spec.Overrides[cacheOption]; kind != "" {
		made.Header.Cache, made.Header.CacheEntryBytes, err = cachesim.ParseRocksCache(kind)
		if err != nil {
			return made, err
		}
	}

	switch r := resolver.(type) {
	case *blockbased.Resolver:
		made.Warnings = r.Warnings()
	case *resolve.Resolver:
		if spec.Foreign {
			made.Warnings = r.Kept().Warnings
		}
	}

	var undrawn error
	keys, err := keyStream(ctx, o, resolver, &undrawn)
	if err != nil {
		return made, err
	}

	if sample.Shift == 0 { // what is open depends on all Gets
		limited, err := limitOpenTables(resolver, spec)
		if err != nil {
			return made, err
		}

		if limited.Enough > 0 && part.Of > 0 {
			return made,
				engine.Fail(engine.CodeUsage, "--part: which tables a Get finds open depends on "+
					"all Gets before it, and %s", limited).WithRemedy("trace all Gets at once, "+
					"without --part, or give --max-open-files %d", limited.Enough)
		}

		if limited.Enough > 0 {
			made.Header.OpenFiles = &limited
			made.Warnings = append(made.Warnings, limited.Warning())
		}
	}

	opening := resolver.Opening()
	if sample.Shift > 0 {
		opening = nil
	}

	if len(opening) > 0 {
		made.Header.Opening = true
		made.Header.WarmupGets++
	}

	if part.Number > 1 {
		opening = nil
	}

	from, to := part.Range(spec.WarmupGets + spec.Gets)
	if r, is := resolver.(*blockbased.Resolver); is {
		made.Header.CacheKeys = r.CacheKeys()
		if spec.BatchGets > 1 && spec.InFlight == 0 && sample.Shift == 0 {
			r.InBatches(uint64(spec.BatchGets), spec.WarmupGets, from)
		}
	}

	out, err := trace.NewWriter(w, made.Header)
	if err != nil {
		return made, err
	}

	for range from {
		keys() // of the parts before
	}

	asked := uint64(0)
	following := func() (key []byte, known, more bool) {
		if part.Of > 0 && asked == to-from {
			return nil, false, false
		}

		if asked++; asked%10_000 == 0 {
			tell(result.Event{Phase: "tracing", Done: asked, Total: to - from, Unit: "Gets"})
		}

		key, known, more = keys()
		if more && o.Saw != nil {
			o.Saw(key)
		}

		return key, known, more
	}

	var offered uint64
	if gets, are := resolver.(*maker); are {
		offered, err = gets.record(ctx, following, sample, out)
	} else {
		offered, err = lookuppath.Record(ctx, resolver.(lookuppath.Source), opening, following,
			to-from, sample, out)
	}

	if err = errors.Join(err, undrawn); err != nil {
		return made, err
	}

	made.Totals, err = out.Close(offered)
	made.PerGet = out.PerGet()
	return made, err
}

// follower tells which blocks Gets access: a lookuppath.Source without making them, or maker.
type follower interface {
	Identity() string
	// Opening are the blocks that opening the tables brings into the block cache.
	Opening() []uint32
	Close() error
}

// keyStream is the key stream of o. Keys of another program's database whose engine is not in this
// process are drawn from its tables, not as a run samples them; what goes wrong then is told in
// *undrawn.
func keyStream(
	ctx context.Context, o TraceRequest, from follower, undrawn *error,
) (lookuppath.Keys, error) {
	spec := &o.Spec
	if _, are := from.(*maker); !spec.Foreign || o.Engine != nil || are {
		return bench.KeyStream(ctx, o.Engine, spec)
	}

	tables, is := from.(*blockbased.Resolver)
	if !is || spec.AccessList != "" || spec.ZipfTheta > 0 {
		return nil, engine.Fail(engine.CodeUsage, "keys of a database of %s that another program "+
			"made are drawn evenly from its tables: access lists and --zipf are not supported",
			spec.Engine)
	}

	drawn := blockbased.NewMix(tables).Keys([]float64{1}, spec.MissingShare,
		spec.WarmupGets+spec.Gets, spec.Seed, undrawn)
	return func() (key []byte, known, more bool) {
		if key, known, more = drawn(); more {
			key = key[1:] // the first byte tells the only member
		}
		return key, known, more
	}, nil
}

// levelReader is implemented by engines on LevelDB's tables.
type levelReader interface {
	// ReadsTables tells how tables would be read with these options: whether their filters are
	// asked, and by which block size buffers are given out.
	ReadsTables(o engine.Options) (filters bool, blockBytes int, errs []error)
	// OpenTables is how many tables stay open.
	OpenTables(o engine.Options) int
}

// tableOption names the column family that Gets go to.
const tableOption = "table"

// cacheOption chooses the kind of the block cache.
const cacheOption = "cache-kind"

// readWith are the options that replace those of a RocksDB database's OPTIONS file, as the engine
// opens it: those of the profile and what was set. Of another program's database that has such a
// file, a profile replaces what applies to Gets alone, and the first profile nothing.
func readWith(spec *bench.Spec) (options blockbased.Options, err error) {
	options = blockbased.Options{}
	defer func() {
		if err != nil {
			return
		}

		// The file of a database of ours tells what the last run of it was.
		if spec.Handles > 0 {
			options["max_open_files"] = strconv.Itoa(spec.Handles)
		} else if !spec.Foreign {
			options["max_open_files"] = "-1"
		}

		if spec.PageCache == bench.Direct || !spec.Foreign {
			options["use_direct_reads"] = strconv.FormatBool(spec.PageCache == bench.Direct)
		}
	}()

	if spec.Profile == "" {
		maps.Copy(options, spec.Overrides)
		return options, nil
	}

	layout, err := rocksoptions.Find(spec.Profile)
	if err != nil {
		return nil, err
	}

	if spec.Foreign {
		file, err := optionsfile.Newest(spec.Dir)
		if err != nil {
			return nil, err
		}

		if file != "" {
			layout.Database = nil
			maps.DeleteFunc(layout.Table, func(name, _ string) bool {
				ofGets := strings.HasPrefix(name, "cache_") || strings.HasPrefix(name, "pin_") ||
					strings.HasPrefix(name, "metadata_cache_")
				return spec.Profile == rocksoptions.Profiles()[0].Name || !ofGets
			})
		}
	}

	maps.Copy(options, layout.All(spec.Overrides))
	return options, nil
}

// opened is a resolver that was opened, or why not.
func opened(r *blockbased.Resolver, err error) (follower, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// follow resolves the Gets where that is possible, and else makes them.
func follow(ctx context.Context, o TraceRequest) (follower, error) {
	spec := &o.Spec
	if of, _ := subject.EngineOf(spec.Engine); of.BlockTables {
		options, err := readWith(spec)
		if err != nil {
			return nil, err
		}

		if o.All {
			all := blockbased.Options{}
			maps.Copy(all, options)
			maps.Copy(all, blockbased.Options{
				"cache_index_and_filter_blocks":           "true",
				"pin_top_level_index_and_filter":          "false",
				"pin_l0_filter_and_index_blocks_in_cache": "false",
				"metadata_cache_options":                  "",
			})

			options = all
		}

		return opened(blockbased.Open(spec.Dir, spec.Overrides[tableOption], options))
	}

	if e, is := o.Engine.(levelReader); is {
		options := engine.Options{
			Dir:       spec.Dir,
			Profile:   spec.Profile,
			Overrides: spec.Overrides,
			Foreign:   spec.Foreign,
			Handles:   spec.Handles,
		}

		filters, blockBytes, errs := e.ReadsTables(options)
		if len(errs) > 0 {
			return nil, errors.Join(errs...)
		}

		if o.All {
			blockBytes = 0 // no pool of buffers rounds sizes up
		}

		r, err := blockbased.OpenLevel(spec.Dir, filters, blockBytes)
		if err == nil {
			r.SetOpenFiles(e.OpenTables(options))
		}

		return opened(r, err)
	}

	version := subject.PebbleVersion(spec.Engine)
	s, errs := pebbledb.Resolve(pebbledb.Profiles(), engine.Options{
		Profile:   spec.Profile,
		Overrides: spec.Overrides,
		Foreign:   spec.Foreign,
	})

	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	r, err := resolve.Open(spec.Dir, version)
	if err == nil && s.UseL6Filters {
		if err = r.AskLastFilters(); err != nil {
			err = errors.Join(err, r.Close())
		}
	}

	if engine.CodeOf(err) == engine.CodeUnsupported &&
		(version == cachesim.PebbleV2 || s.UseL6Filters) {
		return openMade(ctx, o)
	}

	if err != nil {
		return nil, err
	}

	if !s.AsksFilters() || spec.Foreign && r.Kept().NoFilters {
		r.IgnoreFilters()
	}

	return r, nil
}

// Describe puts what filters and indexes take, without what a cache adds to a block, into levels of
// the database of o.
func Describe(ctx context.Context, o TraceRequest, levels []engine.Level) (err error) {
	f, err := follow(ctx, o)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, f.Close()) }()
	if r, is := f.(*blockbased.Resolver); is {
		return r.Describe(levels, func(b *cachesim.Block) int64 { return int64(b.Bytes) })
	}

	return nil
}

// Traced is the whole trace of o in memory.
func Traced(
	ctx context.Context, o TraceRequest, tell result.EventFunc,
) (*cachesim.Trace, trace.Header, error) {
	var file bytes.Buffer
	if _, err := Record(ctx, &file, o, trace.Sample{}, engine.Part{}, tell); err != nil {
		return nil, trace.Header{}, err
	}
	return trace.Load(&file)
}

func streamWords(spec *bench.Spec) string {
	threads := "1 thread"
	if spec.Threads > 1 {
		threads = fmt.Sprintf("%d threads in turn", spec.Threads)
	}

	if spec.AccessList != "" {
		return fmt.Sprintf("access list %s, %s keys, %s", filepath.Base(spec.AccessList),
			spec.KeyScheme, threads)
	}

	words := string(spec.Workload) + ", " + threads
	if spec.MissingShare > 0 {
		words += fmt.Sprintf(", %g %% negative lookups", 100*spec.MissingShare)
	}

	if spec.ZipfTheta > 0 {
		words += fmt.Sprintf(", Zipf exponent %g", spec.ZipfTheta)
	}

	if table := spec.Overrides[tableOption]; table != "" {
		words += ", of " + table
	}

	if spec.BatchGets > 0 {
		words += fmt.Sprintf(", batches of %d Gets", spec.BatchGets)
		if spec.BatchSorted {
			words += ", sorted"
		}
	}

	return words
}

// Written is a trace in a file: what trace --json prints.
type Written struct {
	Schema  string       `json:"schema"`
	File    string       `json:"file"`
	Header  trace.Header `json:"header"`
	Totals  trace.Totals `json:"totals"`
	PerGet  trace.PerGet `json:"accesses_of_gets"`
	Seconds float64      `json:"seconds"`
	Bytes   int64        `json:"bytes"`

	Warnings []engine.Warning `json:"warnings,omitempty"`

	Accesses float64 `json:"-"` // of blocks, per Get
}

// MarshalJSON writes the figures by their keys.
func (t Written) MarshalJSON() ([]byte, error) {
	type plain Written

	return figure.Members{figure.BlockAccessesPerGet: &t.Accesses}.Marshal(plain(t))
}

// Blocks writes a trace of a block cache, whose file is called name.
func Blocks(w io.Writer, t *blockbased.BlockTrace, name string) (made trace.Made, err error) {
	made.Header = trace.Header{Schema: schema.Trace, Engine: subject.OfBlockTables(),
		EngineVersion: t.Version, Database: name,
		Keys: "imported", CacheKeys: t.CacheKeys, NotChecked: t.NotChecked}
	if t.Others > 0 {
		made.Warnings = []engine.Warning{{Code: "left_out", Text: unit.Count(t.Others) +
			" accesses are left out: by others than Gets, or of other files than tables"}}
	}

	if t.SampledBlocks > 1 {
		made.Header.SampledBlocks = t.SampledBlocks
		made.Warnings = append(made.Warnings, engine.Warning{Code: "sampled_blocks",
			Text: fmt.Sprintf("RocksDB traced one block in %d (BlockCacheTraceOptions."+
				"sampling_frequency, by the hashes of the blocks): accesses and misses are of "+
				"these, and simulate takes caches %d times smaller", t.SampledBlocks,
				t.SampledBlocks)})
	}

	made.Warnings = append(made.Warnings, NotChecked(t.NotChecked)...)

	out, err := trace.NewWriter(w, made.Header)
	if err != nil {
		return made, err
	}

	written := make([]uint32, len(t.Trace.Blocks)) // numbers are of the first use; from 1
	var numbers []uint32
	for i, from := range t.Gets {
		to := len(t.Accesses)
		if i+1 < len(t.Gets) {
			to = int(t.Gets[i+1])
		}

		numbers = numbers[:0]
		for _, n := range t.Accesses[from:to] {
			if written[n] == 0 {
				written[n] = out.Block(t.Trace.Blocks[n]) + 1
			}
			numbers = append(numbers, written[n]-1)
		}

		if err := out.Get(t.Found[i], numbers); err != nil {
			return made, err
		}
	}

	made.Totals, err = out.Close(uint64(len(t.Gets)))
	made.PerGet = out.PerGet()
	return made, err
}

// NotChecked are warnings of what could not be checked of an input's completeness.
func NotChecked(sentences []string) (warnings []engine.Warning) {
	for _, sentence := range sentences {
		warnings = append(warnings, engine.Warning{Code: "not_checked",
			Text: "not checked: " + sentence})
	}
	return warnings
}

// Counted is what record would write for a file.
func Counted(path string, record func(io.Writer) (trace.Made, error)) (*Written, error) {
	made, err := record(io.Discard)
	return written(path, made, 0, 0), err
}

// Write writes what record records to a file, or to standard output: then there is nothing to say
// of it, nil.
func Write(
	path string, replaces output.Replaces, record func(io.Writer) (trace.Made, error),
) (*Written, error) {
	began := time.Now()
	var made trace.Made
	write := func(to *os.File) (err error) {
		buffered := bufio.NewWriterSize(to, 1<<20)
		if made, err = record(buffered); err != nil {
			return err
		}
		return buffered.Flush()
	}

	if path == Pipe {
		return nil, write(os.Stdout)
	}

	if err := output.Write(path, replaces, write); err != nil {
		return nil, err
	}

	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}

	return written(path, made, time.Since(began).Seconds(), info.Size()), nil
}

func written(path string, made trace.Made, seconds float64, bytes int64) *Written {
	return &Written{Schema: schema.TraceFacts, File: path, Header: made.Header, Totals: made.Totals,
		PerGet:  made.PerGet,
		Seconds: seconds, Bytes: bytes, Warnings: made.Warnings,
		Accesses: float64(made.Totals.Accesses) / float64(max(1, made.Totals.Gets))}
}

// Document says what the trace holds.
func (t *Written) Document() *doc.Document {
	gets := unit.Count(t.Totals.Gets) + " Gets of this part"
	if warmup := uint64(t.Header.WarmupGets); t.Header.Part.Of == 0 && warmup <= t.Totals.Gets {
		gets = unit.Count(warmup) + " warm-up Gets and " + unit.Count(t.Totals.Gets-warmup) +
			" measured Gets"
	}

	d := &doc.Document{Title: "A trace of block accesses"}
	d.Answer("",
		fmt.Sprintf("%s access %s blocks each on average (at most %d); %s distinct blocks. "+
			"Blocks that are read to open tables are included.",
			gets, unit.Significant(t.Accesses, 3), t.PerGet.Max, unit.Count(t.Totals.Blocks)))

	d.Cards = []doc.Card{{
		Name: "file",
		Facts: [][2]string{{"file", t.File}, {"size", unit.Bytes(t.Bytes)},
			{"made in", unit.Seconds(t.Seconds)}},
		Brief: fmt.Sprintf("%s: %s, made in %s", t.File, unit.Bytes(t.Bytes),
			unit.Seconds(t.Seconds)),
	}}

	return d
}

// maker records the accesses of Gets that are made, with a cache that admits nothing. It needs
// no model of what a Get does, so it follows whatever the engine does: values in files of their
// own, tables that share a file. It takes about ten times as long as resolving.
type maker struct {
	identity string
	db       engine.DB
	reader   engine.Reader

	out     *trace.Writer
	known   map[blockAt]uint32 // the trace's numbers of blocks
	numbers []uint32           // of the Get that is being made
}

type blockAt struct{ file, offset uint64 }

func openMade(ctx context.Context, o TraceRequest) (_ *maker, err error) {
	spec := &o.Spec
	m := &maker{known: map[blockAt]uint32{}}
	if m.identity, err = resolve.Identify(spec.Dir,
		subject.PebbleVersion(spec.Engine)); err != nil {
		return nil, err
	}

	m.db, err = dbformat.Open(ctx, o.Engine, engine.Options{
		Dir:           spec.Dir,
		Profile:       spec.Profile,
		Overrides:     spec.Overrides,
		Foreign:       spec.Foreign,
		ReadOnly:      true,
		IgnoreLock:    true,
		TraceAccesses: true,
		Accessed:      m.accessed,
	})
	if err != nil {
		return nil, err
	}

	if m.reader, err = m.db.Reader(); err != nil {
		return nil, errors.Join(err, m.db.Close())
	}

	return m, nil
}

func (m *maker) accessed(a engine.Access) {
	if m.out == nil {
		return // of opening the database
	}

	at := blockAt{a.File, a.Offset}
	number, known := m.known[at]
	if !known {
		number = m.out.Block(cachesim.Block{
			File:      a.File,
			Offset:    a.Offset,
			Bytes:     a.Bytes,
			DiskBytes: a.DiskBytes,
			Type:      a.Type,
			Level:     uint8(a.Level),
		})

		m.known[at] = number
	}

	m.numbers = append(m.numbers, number)
}

func (m *maker) Identity() string { return m.identity }

// Opening are none: the engine whose Gets are made keeps what opening a table reads elsewhere.
func (*maker) Opening() []uint32 { return nil }

// record makes the Gets of keys, one after the other.
func (m *maker) record(
	ctx context.Context, keys lookuppath.Keys, sample trace.Sample, out *trace.Writer,
) (offered uint64, err error) {
	m.out = out
	var value []byte
	for {
		key, known, more := keys()
		if !more {
			return offered, nil
		}

		offered++
		if ctx.Err() != nil {
			return offered, ctx.Err()
		}

		if !sample.Takes(key) {
			continue
		}

		m.numbers = m.numbers[:0]
		var found bool
		if value, found, err = m.reader.Get(key, value); err == nil && known && !found {
			err = errors.New("it should be in the database and is not")
		}

		if err == nil {
			err = out.Get(found, m.numbers)
		}

		if err != nil {
			return offered, fmt.Errorf("trace the Get of key %x: %w", key, err)
		}
	}
}

func (m *maker) Close() error { return errors.Join(m.reader.Close(), m.db.Close()) }
