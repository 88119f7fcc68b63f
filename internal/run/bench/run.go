// Package bench runs one point of an engine: its phases, and what the timed loop gets
// and checks.
//
// Goals: only the engine's call is timed; workers share nothing while they run;
// every counter is a difference between two snapshots at a phase's ends; a
// failed Get or a wrong value fails the run.
// Non-goals: choosing points (sweep), surviving an engine's crash (runners),
// explaining figures (report).
//
// Read in this order: run.go, read.go, warm.go, team.go, gets.go, figures.go;
// then load.go and write.go.
package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// run is one point while it is measured: what every verb needs.
type run struct {
	resolved *keyset // of a foreign database: sampled, or those of an access list
	*session.Session[engine.Counters]
	spec   *Spec
	engine engine.Engine
	db     engine.DB

	putLatency  *measure.Histogram
	reservedMax int64 // cache taken by memtables, at its most
	growth      growth
}

// Run does what spec says and returns the run as far as it came. The run folder
// is written in every case; the error is also in it.
func Run(
	ctx context.Context, e engine.Engine, spec *Spec, tell result.EventFunc,
) (*result.Run, error) {
	if spec.Profile == "" && len(e.Info().Profiles) > 0 {
		spec.Profile = e.Info().Profiles[0].Name
	}

	r := &run{spec: spec, engine: e, putLatency: measure.NewHistogram()}
	r.Session = session.Begin(Blank(spec, e.Info().Version), spec.Out, spec.Dir, tell,
		session.Subject[engine.Counters]{
			Now: r.counters,
			Between: func(before, after engine.Counters) engine.Counters {
				return after.Sub(before)
			},
			Note: note,
		})

	switch {
	case spec.SharedProcess:
		r.MarkUnavailable(r.Uncounted(), figure.SwitchShare)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // which is not only this run's
	case spec.Verb == Read:
		var err error
		if r.Result.Host.SwitchNanos, err = host.SwitchNanos(); err != nil {
			r.MarkUnavailable(err.Error(), figure.SwitchShare)
		}
	}

	r.Result.Engine.Durability, r.Result.Engine.FaultsInGo = e.Info().Durability,
		e.Info().Has(engine.FaultsInGo)
	err := r.do(ctx)
	// a database that failed may never close
	if r.db != nil && !errors.As(err, new(*backgroundFailure)) {
		err = errors.Join(err, r.close())
	}

	return r.End(ctx, err, spec.WhenDiskIsFull())
}

// words are what to tell the user: inPackage in a program that calls package measure, which has no
// flags.
func (r *run) words(ofCommand, inPackage string) string {
	if r.spec.SharedProcess {
		return inPackage
	}
	return ofCommand
}

// Blank is a run of which only the plan is known.
func Blank(spec *Spec, engineVersion string) *result.Run {
	return &result.Run{
		Status: result.Failed, Verb: spec.Verb, Started: time.Now().UTC(), Command: spec.Command,
		SharedProcess: spec.SharedProcess,
		Engine: result.Engine{
			Name:      spec.Engine,
			Version:   engineVersion,
			Profile:   spec.Profile,
			Options:   map[string]string{},
			Overrides: spec.Overrides,
		},
		Cache:     result.Cache{Requested: spec.CacheAsked, Effective: spec.CacheBytes},
		PageCache: spec.PageCache,
		Workload: result.Workload{
			Name:         spec.Workload,
			Keys:         spec.Keys,
			KeyBytes:     spec.KeyBytes,
			ValueBytes:   float64(spec.ValueBytes),
			ValueModel:   spec.ValueModel,
			KeyHash:      spec.KeyHash,
			MissingShare: spec.MissingShare,
			ZipfTheta:    spec.ZipfTheta,
			Threads:      spec.Threads,
			Gets:         spec.Gets,
			WarmupGets:   spec.WarmupGets,
			WarmupRule:   spec.WarmupRule,
			Rate:         spec.Rate,
			WriteRate:    spec.WriteRate,
			BatchKeys:    spec.BatchKeys,
			Seed:         spec.Seed,
			BatchGets:    spec.BatchGets,
			BatchSorted:  spec.BatchSorted,
			InFlight:     spec.InFlight,
		},
		Database: result.Database{Dir: spec.Dir},
		Absent:   map[string]string{},
	}
}

func (r *run) do(ctx context.Context) error {
	if err := r.OpenSeries(false); err != nil {
		return err
	}

	switch r.spec.Verb {
	case Inspect:
		return r.inspect(ctx)
	case Load:
		return r.load(ctx)
	case Read:
		return r.read(ctx)
	case Rewrite:
		return r.rewrite(ctx)
	}

	return fmt.Errorf("this runner knows no verb %q", r.spec.Verb)
}

// open opens the database and writes down what came of the options.
func (r *run) open(ctx context.Context, o engine.Options) error {
	var err error
	if r.db, err = dbformat.Open(ctx, r.engine, o); err != nil {
		// A load that was killed early has left a manifest and no files of the engine.
		var none *engine.NotADatabaseError
		if m, _, unread := r.manifest(); errors.As(err, &none) && unread == nil &&
			r.spec.Verb == Read && !r.spec.Foreign && m.Loaded < m.Keys {
			return r.incomplete(m)
		}

		return err
	}

	r.Result.Engine.Options = r.db.Effective()
	r.noteMemory()
	r.Result.Cache.Effective = r.db.CacheBytes()
	if o.TraceAccesses {
		return nil // with a cache that is meant to keep nothing
	}

	return r.noteBlockCache()
}

// noteBlockCache stores what memtables leave of the cache for blocks. Gets with a
// cache that keeps no block measure nothing that the size of the cache explains.
func (r *run) noteBlockCache() error {
	reserved := r.db.Counters().CacheReservedBytes
	if reserved == nil {
		return nil
	}

	size := r.Result.Cache.Effective
	left := max(0, size-*reserved)
	r.Result.Cache.BlockBytes = &left
	if r.spec.Verb == Read && left == 0 {
		full := engine.Fail(engine.CodeNoBlocks, "memtables take %s of a cache of %s, which "+
			"leaves nothing for blocks", unit.Bytes(*reserved), unit.Bytes(size))
		full.Remedy = r.words(fmt.Sprintf("measure again with a larger --cache, such as %s, into "+
			"a new --out", unit.Bytes(2**reserved)),
			fmt.Sprintf("use a larger Workload.CacheBytes, such as %d", 2**reserved))
		return full
	}

	return nil
}

// describe notes the state of the files.
func (r *run) describe() (result.Database, error) {
	shape, err := r.db.Shape()
	if err != nil {
		return result.Database{}, fmt.Errorf("read the level table: %w", err)
	}

	writer := "statelab"
	if r.spec.Foreign {
		writer = "foreign"
	}

	return result.Database{
		Dir:     r.spec.Dir,
		Bytes:   shape.Bytes,
		Files:   shape.Files,
		Levels:  shape.Levels,
		Written: writer,
		Tables:  shape.Tables,
		Values:  shape.Values,
		Format:  r.Result.Engine.Options["format_major_version"],
	}, nil
}

// noteDatabase stores the state of the files and the inflection points.
func (r *run) noteDatabase() error {
	database, err := r.describe()
	if err != nil {
		return err
	}

	r.Result.Database = database
	// Where one column family or a part of the tables was chosen, other files are not described.
	if r.spec.Foreign && r.spec.Overrides["table"] == "" && r.spec.Part.Of == 0 {
		if w, is := dbformat.Unlisted(r.spec.Dir, listedFiles(database)); is {
			r.Warn(w)
		}
	}

	if len(database.Levels) > 0 {
		r.Result.Inflection = new(lsm.Inflect(database.Levels, database.Values, database.Bytes))
	}

	return nil
}

// listedFiles are the table files that a database consists of, of all its column families.
func listedFiles(d result.Database) (files int) {
	for _, family := range d.Tables {
		files += family.Files
	}
	return max(files, d.Files)
}

func (r *run) inspect(ctx context.Context) error {
	_, err := r.Phase("prepare", func(*atomicCount) error {
		if err := r.open(ctx, openOptions(r.spec)); err != nil {
			return err
		}
		return r.noteDatabase()
	})
	return err
}

func (r *run) close() error {
	r.Warn(r.db.Warnings()...)
	if w, other := dbformat.OtherVersion(r.engine.Info().Name, r.spec.Dir); other {
		r.Warn(w)
	}

	_, err := r.Phase("close", func(*atomicCount) error {
		if err := r.db.Close(); err != nil {
			return fmt.Errorf("close %s: %w", r.spec.Dir, err)
		}
		r.db = nil
		return nil
	})

	r.db = nil
	return err
}

// raiseProcs lets as many requests be in flight as there are threads: with fewer
// scheduler slots, Gets would queue in the Go runtime instead of at the disk. The spec's
// own number is for measuring just that.
// Call it after the engine is open: engines size their caches' shards by it.
func (r *run) raiseProcs() {
	switch atOnce := r.spec.Threads * max(1, r.spec.InFlight); {
	case r.spec.Procs > 0:
		runtime.GOMAXPROCS(r.spec.Procs)
	case atOnce > runtime.GOMAXPROCS(0):
		runtime.GOMAXPROCS(atOnce)
	}
	r.Result.Host.Gomaxprocs = runtime.GOMAXPROCS(0)
}

// manifest reads the manifest of a database that statelab loaded.
func (r *run) manifest() (*keyspace.Manifest, *keyspace.Values, error) {
	m, err := keyspace.ReadManifest(r.spec.Dir)
	if err != nil {
		return nil, nil, err
	}
	values, err := m.Values()
	return m, values, err
}

// Spec is what the planner tells a runner, under the name that this package's users know.
type Spec = protocol.EngineSpec

// Verbs of a Spec.
const (
	Inspect = protocol.Inspect
	Load    = protocol.Load
	Read    = protocol.Read
	Rewrite = protocol.Rewrite
)

// What a Spec says about the page cache.
const (
	Direct = protocol.Direct
	Cold   = protocol.Cold
	Warm   = protocol.Warm
	AsIs   = protocol.AsIs
)

// PageCacheModes in the order of help texts.
func PageCacheModes() []string { return []string{AsIs, Direct, Cold, Warm} }

func openOptions(s *Spec) engine.Options {
	return engine.Options{
		Dir:         s.Dir,
		Profile:     s.Profile,
		ReadOnly:    s.ReadOnly,
		Foreign:     s.Foreign,
		IgnoreLock:  s.IgnoreLock,
		CacheBytes:  s.CacheBytes,
		MemoryBytes: s.MemoryBytes,
		Handles:     s.Handles,
		Direct:      s.PageCache == Direct,
		Overrides:   s.Overrides,
		Part:        s.Part,
	}
}

// rewrite is the verb rewrite: a new database takes over the tables of another one, and its keys
// are known if those of the other are.
func (r *run) rewrite(ctx context.Context) (err error) {
	s, options := r.spec, map[string]string{}
	m, err := keyspace.ReadManifest(s.From)
	switch {
	case err == nil:
		maps.Copy(options, m.Overrides)
		m.Overrides = maps.Clone(options)
		maps.Copy(m.Overrides, s.Overrides)
	case !errors.Is(err, keyspace.ErrNoManifest):
		return err
	}

	var from engine.DB
	defer func() {
		if from != nil {
			err = errors.Join(err, from.Close())
		}
	}()

	if _, err := r.Phase("prepare", func(*atomicCount) (err error) {
		if from, err = dbformat.Open(ctx, r.engine, engine.Options{
			Dir:        s.From,
			Profile:    s.Profile,
			Overrides:  s.FromOverrides,
			Foreign:    true,
			ReadOnly:   true,
			IgnoreLock: s.IgnoreLock,
		}); err != nil {
			return err
		}

		source, can := from.(engine.Rewriter)
		if !can {
			return engine.Fail(engine.CodeUnsupported, "databases of %s cannot be rewritten",
				s.Engine)
		}

		like, err := source.RewriteOptions()
		if err != nil {
			return err
		}

		maps.Copy(options, like)
		maps.Copy(options, s.Overrides)
		o := openOptions(s)
		o.Create, o.Overrides = true, options
		return r.open(ctx, o)
	}); err != nil {
		return err
	}

	_, err = r.Phase("load", func(*atomicCount) error {
		if err := r.db.(engine.Rewriter).Rewrite(ctx, from, func(tables, of int) {
			r.Tell(result.Event{
				Phase: "rewriting",
				Done:  uint64(tables),
				Total: uint64(of),
				Unit:  "tables",
			})
		}); err != nil {
			return err
		}

		if m != nil {
			if err := keyspace.WriteManifest(s.Dir, m); err != nil {
				return err
			}
		}

		return r.noteDatabase()
	})

	return err
}
