package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// evidence is what advise knows before it predicts or measures anything.
func (r *request) evidence(run *result.Run) (advise.Evidence, error) {
	e := advise.Evidence{Database: run.Database, Engine: run.Engine, Machine: run.Host, Limits: r.limits, Missing: r.missing}
	var keys int64
	for _, l := range run.Database.Levels {
		keys += l.Keys
		if l.Files > 0 && !l.InCacheKnown {
			return e, fmt.Errorf("%s: the size of the blocks of L%d in a cache is not known", r.dir, l.Level)
		}
	}
	if keys == 0 {
		return e, fmt.Errorf("%s has no tables yet: advise needs a database with data", r.dir)
	}
	if r.keysWritten != nil {
		e.Writes = advise.Writes{Known: true, BytesPerSecond: *r.keysWritten * float64(run.Database.Bytes) / float64(keys)}
	}
	var err error
	if r.table {
		e.Settings, err = profileSettings(r.spec.Profile, nil)
		e.Settings.Source = "assumed: a level table has no OPTIONS file, so the default of the profile " + r.spec.Profile
	} else {
		e.Settings, err = settingsOf(run)
	}
	if err != nil {
		return e, err
	}
	if r.cacheShare > 0 {
		r.cacheBytes = max(1, int64(r.cacheShare*float64(run.Database.Bytes)))
	}
	if r.cacheBytes > 0 {
		e.Settings = e.Settings.WithCache(r.cacheBytes)
	}
	e.Client = r.client(e.Settings)
	if least := advise.LeastMemory(e.Client, run.Database.Files); r.limits.MemoryBytes > 0 && r.limits.MemoryBytes < least {
		return e, usage("--memory %s: too little for %s, whose smallest caches and open tables take %s: give at least --memory %dMiB",
			unit.Bytes(r.limits.MemoryBytes), e.Client, unit.Bytes(least), (least+1<<20-1)>>20)
	}
	return e, nil
}

// settingsOf are those of the newest OPTIONS file of a node's database, or of its profile where
// there is none. In a database that statelab loaded, the file tells what the last command used, and
// nothing about a node: its settings are its profile's.
func settingsOf(run *result.Run) (advise.Settings, error) {
	dir, profile := run.Database.Dir, run.Engine.Profile
	if run.Database.Written != "foreign" {
		manifest, err := keyspace.ReadManifest(dir)
		if err != nil {
			return advise.Settings{}, err
		}
		s, err := profileSettings(profile, manifest.Overrides)
		s.Source = "the profile " + profile
		return s, err
	}
	name, err := newestOptions(dir)
	if err != nil {
		return advise.Settings{}, err
	}
	if name == "" {
		return profileSettings(profile, nil)
	}
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) { // its node has just written the next one
		return profileSettings(profile, nil)
	}
	if err != nil {
		return advise.Settings{}, err
	}
	s, err := advise.ParseOptions(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return s, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	s.Source = name + ", written when the database was last opened for writing"
	return s, nil
}

// pebbleProfiles are those of both versions.
func pebbleProfiles() []pebbledb.Profile {
	return []pebbledb.Profile{pebbledb.BenchKVDB(), pebbledb.GethV1(), pebbledb.GethV2(), pebbledb.Columnar(pebbledb.FirstFormatOfV2), pebbledb.Default()}
}

// profileSettings assume that the node runs a profile, changed by overrides alone.
func profileSettings(profile string, overrides map[string]string) (advise.Settings, error) {
	s, errs := pebbledb.Resolve(pebbleProfiles(), engine.Options{Profile: profile, Overrides: overrides})
	if len(errs) > 0 {
		return advise.Settings{}, errors.Join(errs...)
	}
	const libraryMemTableBytes, libraryStop = 4 << 20, 2 // where a profile says nothing
	return advise.Settings{
		CacheBytes: s.CacheBytes, MemTableBytes: cmp.Or(int64(s.MemTableSize), libraryMemTableBytes),
		StopMemTables: cmp.Or(s.MemTableStopWritesThreshold, libraryStop),
		Handles:       s.MaxOpenFiles, LastLevelFilter: s.Levels[pebbledb.Levels-1].FilterBitsPerKey > 0,
		Source: "assumed: it has no OPTIONS file, so the default of the profile " + profile,
	}, nil
}

// client tells whose database it is. Eight memtables of an eighth of the cache stop geth's writes,
// wherever its database lies.
func (r *request) client(s advise.Settings) advise.Client {
	if r.table && strings.HasPrefix(r.spec.Profile, "geth-") {
		return advise.Geth
	}
	if r.table {
		return advise.Pebble
	}
	if !r.target.Foreign {
		return advise.Statelab
	}
	switch dbformat.Client(r.dir, dbformat.Found{Engine: r.spec.Engine}, nil) {
	case dbformat.CosmosSDK:
		return advise.Cosmos
	case dbformat.Geth, dbformat.BSC:
		return advise.Geth
	}
	if s.StopMemTables == 8 && s.MemTables(advise.Writes{}).CacheShare == 8 {
		return advise.Geth
	}
	return advise.Pebble
}

// model is what the curve is drawn from.
func (r *request) model(e advise.Evidence) advise.Model {
	m := advise.Model{
		Levels: e.Database.Levels, MemTables: e.Settings.MemTables(e.Writes),
		Input:       predict.Input{Version: version1or2(e.Engine.Name), Cores: r.cores, AbsentShare: r.missing, Seeds: []uint64{r.seed}},
		RestReserve: r.restReserve(e.Engine.Name, false),
	}
	if e.Client != advise.Statelab || e.Settings.Given { // no client uses the cache of a profile
		m.NowBytes = e.Settings.CacheBytes
	}
	if e.Client == advise.Geth {
		m.LeastBytes = advise.GethLeastCache
	}
	if r.limits.MemoryBytes > 0 {
		m.MostBytes = advise.MostCache(e.Client, r.limits.MemoryBytes, e.Database.Files)
	}
	return m
}

// restReserve is what memtables take of the cache of an open database that is
// not written to.
func (r *request) restReserve(engineName string, readOnly bool) func(int64) int64 {
	return func(cacheBytes int64) int64 {
		bytes, err := pebbledb.OpenReserveBytes(engineName, r.spec.Profile, cacheBytes, readOnly)
		if err != nil {
			return predict.OpenReserve // the profile was accepted before: this is what it amounts to
		}
		return bytes
	}
}

// probe reads from the disk of the database. Its own files are read if they are
// large enough; nothing is written beside the files of another's database.
func (a *app) probe(r request, out string, run *result.Run, p *progress) (advise.Disk, error) {
	if r.probeSeconds == 0 {
		if r.table {
			return advise.Disk{Absent: "a level table has no disk to read from"}, nil
		}
		return advise.Disk{Absent: "--probe-seconds 0"}, nil
	}
	dir := r.dir
	if r.target.Foreign && run.Database.Bytes < enoughToProbe {
		var err error
		if dir, err = elsewhere(r.dir, out); err != nil {
			return advise.Disk{Absent: err.Error()}, nil
		}
	}
	p.tell("", result.Event{Phase: "probing the disk"})
	points, err := host.ProbeReads(a.ctx, dir, []int{1, 4, 16}, r.probeSeconds)
	if err != nil && a.ctx.Err() == nil {
		return advise.Disk{Absent: err.Error()}, nil // the rest of the advice stands
	}
	var disk advise.Disk
	for _, point := range points {
		disk.Points = append(disk.Points, advise.ProbePoint{InFlight: point.InFlight, ReadsPerSecond: point.ReadsPerSecond, MeanNanos: point.MeanNanos,
			P99Nanos: point.P99Nanos})
	}
	return disk, err
}

// enoughToProbe is well above what host.ProbeReads wants of a directory's files.
const enoughToProbe = 512 << 20

// elsewhere is a folder on the disk of dir where a file may be written.
func elsewhere(dir, out string) (string, error) {
	own, err := host.DeviceOf(dir)
	if err != nil {
		return "", err
	}
	for _, other := range []string{out, os.TempDir()} {
		if other == "" {
			continue
		}
		if d, err := host.DeviceOf(other); err == nil && d.Name == own.Name {
			return other, nil
		}
	}
	return "", fmt.Errorf("the database is too small to be probed, and statelab writes nothing into its folder: name a folder on %s with --out", own.Name)
}

// verifyAdvice measures the cache that runs and the recommended one, each in a
// process of its own, read-only, and predicts those very runs.
func (a *app) verifyAdvice(r request, out string, model advise.Model, traced bool, advice advise.Advice, p *progress) ([]advise.Verified, error) {
	spec := r.spec
	spec.Threads = verifyThreads
	if spec.AccessList != "" {
		spec.Threads = 1 // in the list's order
	}
	if host.DirectSupported(r.dir) == nil {
		spec.PageCache = bench.Direct
	}
	var caches []setting.CacheSize
	for _, bytes := range slices.Compact([]int64{advice.Now.CacheBytes, advice.Then.CacheBytes}) {
		if bytes > 0 {
			caches = append(caches, setting.Bytes(bytes))
		}
	}
	sizes := setting.To(caches...)
	folder := filepath.Join(out, verifyFolder)
	how := plan.Plan{Out: folder, Repeats: 1, Seed: r.seed}
	if err := os.MkdirAll(filepath.Join(folder, result.PointsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the measurement: %w", err)
	}
	work := sweep.New(sweep.Sweep{Name: "advise " + r.dir, Command: a.command(), Base: spec, Axes: []sweep.Axis{sweep.Caches(&sizes)}}, how, a)
	so, err := plan.Run(a.ctx, how, work, func(at plan.Progress) { p.step("measuring: ", at, at.Event) })
	done := work.Result
	if err == nil && so.Status != result.OK {
		err = so.Failure(so.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	p.say("measured: %s", folder)
	var verified []advise.Verified
	for _, point := range done.Points {
		v, err := a.predictRun(r, model, traced, spec, point)
		if err != nil {
			return nil, err
		}
		verified = append(verified, v)
	}
	return verified, nil
}

// verifyThreads shorten the measurement; they do not change what a Get reads.
const verifyThreads = 4

// predictRun predicts a run that was measured: its warm-up, its Gets.
func (a *app) predictRun(r request, model advise.Model, traced bool, spec bench.Spec, point result.Point) (v advise.Verified, err error) {
	if point.Figures.BlockReadsPerGet == nil {
		return v, fmt.Errorf("verify %s: block reads were not counted", unit.Bytes(point.CacheBytes))
	}
	spec.WarmupGets, spec.Gets = point.WarmupGets, point.Figures.Gets
	predicted := 0.0
	if traced && spec.WarmupGets+2*spec.Gets <= maxCurveGets {
		points, err := a.curveOf(r.target, spec, r.cores, pebbledb.OpenReserveBytes, []int64{point.CacheBytes})
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", unit.Bytes(point.CacheBytes), err)
		}
		predicted = points[0].BlockReadsPerGet
	} else {
		in := model.Input
		in.Levels, in.CacheBytes, in.WarmupGets, in.Gets = model.Levels, []int64{point.CacheBytes}, spec.WarmupGets, spec.Gets
		in.ReservedBytes = r.restReserve(spec.Engine, true)(point.CacheBytes)
		points, err := predict.Run(a.ctx, in)
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", unit.Bytes(point.CacheBytes), err)
		}
		predicted = points[0].BlockReadsPerGet
	}
	v = advise.Verified{
		CacheBytes: point.CacheBytes, WarmupGets: point.WarmupGets, Gets: point.Figures.Gets,
		Predicted: predicted, Measured: *point.Figures.BlockReadsPerGet,
		DeviceReadsPerGet: point.Figures.DeviceReadsPerGet, PageCache: spec.PageCache,
	}
	if v.Measured > 0 {
		v.ErrorPercent = 100 * (v.Predicted/v.Measured - 1)
	}
	return v, nil
}
