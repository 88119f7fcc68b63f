// Package evidence gathers what advice about the cache of a node rests on: what the node
// runs with, what Gets would cost at every size, what its disk can do, and, if asked, what
// the recommended cache costs when it is measured. It reads a database and writes nothing
// into its folder. What follows from all this is judged by explain/advise.
package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/nodemetrics"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Request is a database and what advice about it must respect.
type Request struct {
	Dir    string
	Table  bool               // Dir is a file with a level table
	Gets   curve.TraceRequest // of random keys, or of an access list
	Trace  string             // file with the Gets instead
	Limits advise.Limits
	// Running is the process that has Dir open, of a client; nil: it is not looked for.
	Running      func(clients.Client) *advice.RunningNode
	CacheBytes   int64 // the node's, if it was told
	CacheShare   float64
	KeysWritten  *float64 // a second; nil: not known
	Missing      float64
	Cores        int
	ProbeSeconds float64
	Growth       advise.Grown // of the state
	Seed         uint64
	Out          string // folder of the advice; "": none

	Tell result.EventFunc
	Say  func(format string, args ...any)

	// To measure the advice: who carries runs out, for which command, into which folder.
	By      plan.Executor // nil: it is not measured
	Command []string
	Runs    string
	Step    func(plan.Progress)

	// Of the last trace, where a limit of open files keeps tables closed: that, and the Gets that
	// warmed up and that counted.
	openFiles *trace.OpenFiles
	traced    [2]uint64
}

// Advise judges what is known of a database: run is what inspect sees of it, and node what its
// metrics tell, nil if they were not read.
func (a *Request) Advise(
	ctx context.Context, run *result.Run, node *nodemetrics.Node,
) (advise.Advice, error) {
	if node != nil {
		a.Limits.GetsPerSecond = node.GetsPerSecond
	}

	e, err := a.evidence(run)
	if err == nil {
		err = a.contradicted(e, node)
	}

	if err != nil {
		return advise.Advice{}, err
	}

	e.Node = node
	model := a.model(e)
	traced, err := a.draw(ctx, run, &model, &e)
	if err != nil {
		return advise.Advice{}, err
	}

	if e.Growth, err = a.grow(ctx, run, model, e.Curve.Now); err != nil {
		return advise.Advice{}, err
	}

	if e.Disk, err = a.probe(ctx, run); err != nil {
		return advise.Advice{}, err
	}

	advice := advise.Judge(e)
	if a.By == nil {
		return advice, nil
	}

	if e.Verified, err = a.verify(ctx, model, traced, advice); err != nil {
		return advise.Advice{}, err
	}

	if spec := a.Gets.Spec; spec.Foreign && spec.AccessList == "" {
		e.SampleKeys = spec.SampleKeys
	}

	return advise.Judge(e), nil
}

// evidence is what is known before anything is predicted or measured.
func (a *Request) evidence(run *result.Run) (advise.Evidence, error) {
	e := advise.Evidence{
		Database: run.Database,
		Engine:   run.Engine,
		Machine:  run.Host,
		Limits:   a.Limits,
		Missing:  a.Missing,
	}

	var keys int64
	for _, l := range run.Database.Levels {
		keys += l.Keys
		if l.Files > 0 && !l.InCacheKnown {
			return e, fmt.Errorf("%s: the size of the blocks of L%d in a cache is not known", a.Dir,
				l.Level)
		}
	}

	if keys == 0 {
		return e, fmt.Errorf("%s has no tables yet: advise needs a database with data", a.Dir)
	}

	if a.KeysWritten != nil {
		e.Writes = advice.Writes{
			Known:          true,
			BytesPerSecond: *a.KeysWritten * float64(run.Database.Bytes) / float64(keys),
		}
	}

	var err error
	if a.Table {
		e.Settings, err = ProfileSettings(a.Gets.Spec.Profile, nil)
		e.Settings.Source = "assumed: a level table has no OPTIONS file, so the default of the " +
			"profile " + a.Gets.Spec.Profile
	} else {
		e.Settings, err = SettingsOf(run)
	}

	if err != nil {
		return e, err
	}

	if a.CacheShare > 0 {
		a.CacheBytes = max(1, int64(a.CacheShare*float64(run.Database.Bytes)))
	}

	if a.CacheBytes > 0 {
		e.Settings = e.Settings.WithCache(a.CacheBytes)
	}

	e.Client = a.client(e.Settings)
	if a.Running != nil {
		e.Running = a.Running(e.Client)
	}

	if minimum := advice.MinMemory(e.Client, run.Database.Files); a.Limits.MemoryBytes > 0 &&
		a.Limits.MemoryBytes < minimum {
		return e, engine.Fail(engine.CodeUsage, "--memory %s: too little for %s, whose smallest "+
			"caches and open tables take %s: give at least --memory %dMiB",
			unit.Bytes(a.Limits.MemoryBytes), e.Client, unit.Bytes(minimum), (minimum+1<<20-1)>>20)
	}

	return e, nil
}

// SettingsOf are those of the newest OPTIONS file of a node's database, or of its profile where
// there is none. In a database that statelab loaded, the file tells what the last command used, and
// nothing about a node: its settings are its profile's.
func SettingsOf(run *result.Run) (advice.Settings, error) {
	dir, profile := run.Database.Dir, run.Engine.Profile
	if run.Database.Written != "foreign" {
		manifest, err := keyspace.ReadManifest(dir)
		if err != nil {
			return advice.Settings{}, err
		}

		s, err := ProfileSettings(profile, manifest.Overrides)
		s.Source = "the profile " + profile
		return s, err
	}

	name, file, err := optionsfile.Read(dir)
	// its node has just written the next one
	if err == nil && name == "" || errors.Is(err, fs.ErrNotExist) {
		return ProfileSettings(profile, nil)
	}

	if err != nil {
		return advice.Settings{}, err
	}

	s, err := advice.SettingsOf(file)
	if err != nil {
		return s, fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}

	s.Source = name + ", written when the database was last opened for writing"
	return s, nil
}

// ProfileSettings assume that the node runs a profile, changed by overrides alone.
func ProfileSettings(profile string, overrides map[string]string) (advice.Settings, error) {
	s, errs := pebbledb.Resolve(pebbledb.Profiles(), engine.Options{
		Profile:   profile,
		Overrides: overrides,
	})

	if len(errs) > 0 {
		return advice.Settings{}, errors.Join(errs...)
	}

	const libraryMemTableBytes, libraryStop = 4 << 20, 2 // where a profile says nothing
	return advice.Settings{
		CacheBytes:      s.CacheBytes,
		MemTableBytes:   cmp.Or(int64(s.MemTableSize), libraryMemTableBytes),
		StopMemTables:   cmp.Or(s.MemTableStopWritesThreshold, libraryStop),
		Handles:         s.MaxOpenFiles,
		LastLevelFilter: s.Levels[pebbledb.Levels-1].FilterBitsPerKey > 0,
		Source: "assumed: it has no OPTIONS file, so the default of the profile " +
			profile,
	}, nil
}

// client tells whose database it is. Eight memtables of an eighth of the cache stop geth's writes,
// wherever its database lies.
func (a *Request) client(s advice.Settings) clients.Client {
	if a.Table {
		if pebbledb.ClientOf(a.Gets.Spec.Profile) == clients.Geth {
			return clients.Geth
		}
		return clients.AnyPebble
	}

	if !a.Gets.Spec.Foreign {
		return clients.Statelab
	}

	if client := dbformat.Client(a.Dir, dbformat.Found{Engine: a.Gets.Spec.Engine},
		nil); client != "" {
		return client.WithFlags()
	}

	if s.StopMemTables == 8 && s.MemTables(advice.Writes{}).CacheShare == 8 {
		return clients.Geth
	}

	return clients.AnyPebble
}

// model is what the curve is drawn from.
func (a *Request) model(e advise.Evidence) advise.Model {
	m := advise.Model{
		Levels:    e.Database.Levels,
		Values:    e.Database.Values,
		MemTables: e.Settings.MemTables(e.Writes),
		Input: predict.Input{
			Version:     subject.PebbleVersion(e.Engine.Name),
			Cores:       a.Cores,
			AbsentShare: a.Missing,
			Seeds:       []uint64{a.Seed},
		},
		RestReserve: a.restReserve(e.Engine.Name, false),
	}

	if e.Client != clients.Statelab || e.Settings.Given { // no client uses the cache of a profile
		m.NowBytes = e.Settings.CacheBytes
	}

	if e.Client == clients.Geth {
		m.MinBytes = advice.GethLeastCache
	}

	if a.Limits.MemoryBytes > 0 {
		m.MaxBytes = advice.MaxCache(e.Client, a.Limits.MemoryBytes, e.Database.Files)
	}

	return m
}

// restReserve is what memtables take of the cache of an open database that is
// not written to.
func (a *Request) restReserve(engineName string, readOnly bool) func(int64) int64 {
	return func(cacheBytes int64) int64 {
		bytes, err := pebbledb.OpenReserveBytes(engineName, a.Gets.Spec.Profile, cacheBytes,
			readOnly)
		if err != nil {
			// the profile was accepted before: this is what it amounts to
			return predict.OpenReserve
		}

		return bytes
	}
}
