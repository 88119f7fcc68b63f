package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// run is one point while it is measured: what every verb needs.
type run struct {
	spec   *Spec
	engine engine.Engine
	db     engine.DB
	tell   Tell
	clock  *measure.Clock
	device host.Device
	series *series
	result *result.Run

	phaseBegan  time.Time
	latencies   []measure.LogEntry
	putLatency  *measure.Histogram
	reservedMax int64 // cache taken by memtables, at its most
	memory      memory
	growth      growth
}

// Run does what spec says and returns the run as far as it came. The run folder
// is written in every case; the error is also in it.
func Run(ctx context.Context, e engine.Engine, spec *Spec, tell Tell) (*result.Run, error) {
	if spec.Profile == "" && len(e.Info().Profiles) > 0 {
		spec.Profile = e.Info().Profiles[0].Name
	}
	r := &run{spec: spec, engine: e, tell: tell, clock: measure.NewClock(), putLatency: measure.NewHistogram()}
	r.result = Blank(spec, e.Info().Version)
	r.result.Host = host.Facts(existing(spec.Dir))
	machine := host.StartWatch(spec.Dir)
	if spec.Verb == Read {
		var err error
		if r.result.Host.SwitchNanos, err = host.SwitchNanos(); err != nil {
			r.absent(err.Error(), "context_switch_share")
		}
	}
	r.result.Engine.Durability = e.Info().Durability
	r.result.Host.Clock, r.result.Host.ClockNanos = r.clock.Kind(), r.clock.CostNanos()

	err := r.do(ctx)
	var lost *backgroundFailure
	if r.db != nil && !errors.As(err, &lost) { // a database that failed may never close
		err = errors.Join(err, r.close())
	}
	err = errors.Join(err, r.releaseMemory())
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%s: %w", spec.WhenDiskIsFull(), err)
	}
	r.result.Status, r.result.Error = status(ctx, err)
	var warnings []engine.Warning
	r.result.Machine, warnings = machine.Stop()
	r.warn(warnings...)
	if writeErr := r.store(); writeErr != nil {
		return r.result, errors.Join(err, writeErr)
	}
	return r.result, err
}

// Blank is a run of which only the plan is known.
func Blank(spec *Spec, engineVersion string) *result.Run {
	return &result.Run{
		Schema: result.RunSchema, Status: result.Failed, Verb: spec.Verb, Started: time.Now().UTC(), Command: spec.Command,
		Engine:    result.Engine{Name: spec.Engine, Version: engineVersion, Profile: spec.Profile, Options: map[string]string{}},
		Cache:     result.Cache{Requested: spec.CacheAsked, Effective: spec.CacheBytes},
		PageCache: spec.PageCache,
		Workload: result.Workload{
			Name: spec.Workload, Keys: spec.Keys, KeyBytes: spec.KeyBytes, ValueBytes: float64(spec.ValueBytes), ValueModel: spec.ValueModel,
			KeyHash: spec.KeyHash, MissingShare: spec.MissingShare, ZipfTheta: spec.ZipfTheta, Threads: spec.Threads, Gets: spec.Gets,
			WarmupGets: spec.WarmupGets, WarmupRule: spec.WarmupRule, Rate: spec.Rate, WriteRate: spec.WriteRate, BatchKeys: spec.BatchKeys, Seed: spec.Seed,
		},
		Database: result.Database{Dir: spec.Dir},
		Absent:   map[string]string{},
		Warnings: []engine.Warning{},
	}
}

func (r *run) do(ctx context.Context) error {
	var err error
	if r.series, err = newSeries(r.spec.Out); err != nil {
		return err
	}
	if r.device, err = host.DeviceOf(existing(r.spec.Dir)); err != nil {
		r.warn(engine.Warning{Code: "no_device", Text: fmt.Sprintf("requests to the device cannot be counted: %v", err), Remedy: "put the database on a disk's own filesystem"})
	}
	switch {
	case r.spec.Verb == Inspect:
		return r.inspect(ctx)
	case r.spec.Verb == Load:
		return r.load(ctx)
	case r.spec.Verb == Read:
		return r.read(ctx)
	}
	return fmt.Errorf("this runner knows no verb %q", r.spec.Verb)
}

// open opens the database and writes down what came of the options.
func (r *run) open(ctx context.Context, o engine.Options) error {
	var err error
	if r.db, err = dbformat.Open(ctx, r.engine, o); err != nil {
		return err
	}
	r.result.Engine.Options = r.db.Effective()
	r.noteMemory()
	if text, ok := r.result.Engine.Options["cache_bytes"]; ok {
		if r.result.Cache.Effective, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("effective cache_bytes: %w", err)
		}
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
	return result.Database{Dir: r.spec.Dir, Bytes: shape.Bytes, Files: shape.Files, Levels: shape.Levels, Written: writer,
		Format: r.result.Engine.Options["format_major_version"]}, nil
}

// noteDatabase stores the state of the files and the inflection points.
func (r *run) noteDatabase() error {
	database, err := r.describe()
	if err != nil {
		return err
	}
	r.result.Database = database
	if len(database.Levels) > 0 {
		points := lsm.Inflect(database.Levels, database.Bytes)
		if r.spec.Verb == Read {
			points.Phase = lsm.PhaseOf(r.result.Cache.Effective, points)
		}
		r.result.Inflection = &points
	}
	return nil
}

func (r *run) inspect(ctx context.Context) error {
	_, err := r.phase("prepare", func(*atomicCount) error {
		if err := r.open(ctx, openOptions(r.spec)); err != nil {
			return err
		}
		return r.noteDatabase()
	})
	return err
}

func (r *run) close() error {
	r.warn(r.db.Warnings()...)
	_, err := r.phase("close", func(*atomicCount) error {
		if err := r.db.Close(); err != nil {
			return fmt.Errorf("close %s: %w", r.spec.Dir, err)
		}
		r.db = nil
		return nil
	})
	r.db = nil
	return err
}

// store writes the run folder.
func (r *run) store() error {
	var errs []error
	if r.series != nil {
		errs = append(errs, r.series.close())
	}
	if len(r.latencies) > 0 {
		errs = append(errs, r.storeLatencies())
	}
	if peak, err := host.PeakRSS(); err == nil {
		r.result.Figures.PeakRSSBytes = peak
	} else {
		r.absent(err.Error(), "peak_rss_bytes")
	}
	return errors.Join(append(errs, result.WriteRun(r.spec.Out, r.result))...)
}

func (r *run) storeLatencies() error {
	f, err := os.Create(filepath.Join(r.spec.Out, result.LatencyFile))
	if err != nil {
		return err
	}
	return errors.Join(measure.WriteLog(f, r.result.Started, r.latencies), f.Close())
}

func (r *run) warn(warnings ...engine.Warning) {
	for _, w := range warnings {
		if !slices.Contains(r.result.Warnings, w) {
			r.result.Warnings = append(r.result.Warnings, w)
		}
	}
}

// absent says why figures are not there.
func (r *run) absent(why string, figures ...string) {
	for _, name := range figures {
		r.result.Absent[name] = why
	}
}

// raiseProcs lets as many requests be in flight as there are threads: with fewer
// scheduler slots, Gets would queue in the Go runtime instead of at the disk.
// Call it after the engine is open: engines size their caches' shards by it.
func (r *run) raiseProcs() {
	if r.spec.Threads > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(r.spec.Threads)
	}
	r.result.Host.Gomaxprocs = runtime.GOMAXPROCS(0)
}

func status(ctx context.Context, err error) (string, string) {
	switch {
	case err == nil:
		return result.OK, ""
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return result.Interrupted, "interrupted: what was measured until then is kept"
	}
	return result.Failed, err.Error()
}

// existing is the nearest folder above dir that exists: dir may be made later.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return dir
		}
		dir = up
	}
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
