package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
)

// settings are the fields of a Workload, in its order, each with the flag of statelab sweep that
// has its default, and with its text where the rules of that flag are its own; "": the default.
func (w Workload) settings() []workloadField {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}

	count := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}

	real := func(x float64) string {
		if x == 0 {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}

	pageCache := ""
	if w.Direct {
		pageCache = bench.Direct
	}

	return []workloadField{
		{"Dir", "db", w.Dir},
		{"Keys", "keys", count(w.Keys)},
		{"KeyBytes", "key-bytes", number(int64(w.KeyBytes))},
		{"ValueBytes", "value-bytes", number(int64(w.ValueBytes))},
		{"Seed", "seed", count(w.Seed)},
		{"Profile", "profile", w.Profile},
		{"Options", "set", ""},
		{"CacheBytes", "cache", ""},
		{"Direct", "page-cache", pageCache},
		{"Gets", "gets", count(w.Gets)},
		{"WarmupGets", "warmup", count(w.WarmupGets)},
		{"Threads", "threads", number(int64(w.Threads))},
		{"MissingShare", "missing", ""},
		{"ZipfTheta", "zipf", real(w.ZipfTheta)},
		{"Out", "out", w.Out},
	}
}

type workloadField struct{ name, flag, text string }

// writtenIn implements setting.Written: mistakes name the fields of the workload.
type writtenIn struct{ workload Workload }

func (writtenIn) Place(string) string { return "" }

// Name is the field of a Workload that a flag stands for.
func (w writtenIn) Name(flag, value string) string {
	fields := w.workload.settings()
	i := slices.IndexFunc(fields, func(f workloadField) bool { return f.flag == flag })
	if i < 0 {
		return setting.Flag(flag, value)
	}

	name := "Workload." + fields[i].name
	switch {
	case value == "":
		return name
	case flag == "page-cache":
		return name + " " + strconv.FormatBool(value == bench.Direct)
	}

	return name + " " + value
}

// check says all that is wrong with w, and how its database is loaded. caches are those of a sweep.
func (p *prepared) check(w Workload, caches []int64) (load bench.Spec, err error) {
	if err := checkEngine(p.engine); err != nil {
		return load, err
	}

	m := &setting.Mistakes{In: writtenIn{w}}
	e := experiment.New(experiment.Sweep)
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	for _, f := range w.settings() {
		if field, is := e.ByFlag(f.flag); is && f.text != "" {
			if err := field.Dest.Set(f.text); err != nil {
				return load, err
			}
			m.CheckSetting(f.flag, field.Dest)
		}
	}

	s.Missing.SetValues(w.MissingShare)
	if !(w.MissingShare >= 0 && w.MissingShare <= 1) {
		m.At("missing", fmt.Sprint(w.MissingShare), "must be from 0 to 1 (example: 0.2)")
	}

	if w.CacheBytes < 0 {
		m.At("cache", fmt.Sprint(w.CacheBytes), "must be a number of bytes (example: 1<<20)")
	}

	for _, name := range slices.Sorted(maps.Keys(w.Options)) {
		e.Options = e.Options.With(setting.Option{Name: name, Values: []string{w.Options[name]}})
	}

	switch {
	case caches == nil:
	case len(caches) == 0:
		m.Add("give at least one cache size in bytes (example: 1<<20)")
	case p.engine.Info().Has(engine.HasNoCache):
		m.Add("engine %s has no block cache to sweep (engine.HasNoCache): use Run",
			p.engine.Info().Name)
	}

	setting.Axis(&p.caches, setting.Cache)
	for i, bytes := range caches {
		if bytes <= 0 || slices.Contains(caches[:i], bytes) {
			m.Add("a cache of %d bytes: cacheBytes must be different numbers above 0", bytes)
		}
		p.caches.SetValues(append(p.caches.All(), setting.Bytes(bytes))...)
	}

	if caches != nil && w.CacheBytes != 0 {
		m.At("cache", "", "not with Sweep, which measures the caches that it is given: leave it 0")
	}

	if w.Out != "" {
		if err := output.Folder(w.Out); err != nil {
			m.At("out", "", "%v", err)
		}
	}

	target := p.target(w, m)
	if err := m.Err(); err != nil {
		return load, err
	}

	unknown := []string{} // which command makes this program measure again
	p.spec = sweep.ReadSpec(e, target, unknown, m)
	p.spec.CacheBytes = w.CacheBytes
	if w.Dir == "" {
		p.spec.Dir = ""
	}

	load = sweep.LoadSpec(e, &s.DatasetOptions, unknown)
	load.Workload, load.Engine, load.Profile = workload.FillRandom, p.spec.Engine, p.spec.Profile
	points := p.caches.All()
	if caches == nil {
		points = []setting.CacheSize{setting.Bytes(w.CacheBytes)}
	}

	for _, cache := range points {
		spec := p.spec
		spec.CacheBytes = cache.Bytes
		sweep.CheckOptions(p.engine, spec, m)
	}

	return load, m.Err()
}

// checkEngine refuses an engine that cannot be measured, whatever the workload.
func checkEngine(e engine.Engine) error {
	if e == nil {
		return engine.Fail(engine.CodeUsage, "the engine is nil: give a value of engine.Engine")
	}

	info := e.Info()
	switch {
	case info.Name == "":
		return engine.Fail(engine.CodeUsage, "the engine has no name: Info must give one")
	case len(info.Profiles) == 0:
		return engine.Fail(engine.CodeUsage, "engine %s has no profile: Info must list one, such "+
			"as default", info.Name)
	case info.Has(engine.IsVolatile):
		return engine.Fail(engine.CodeUnsupported, "engine %s keeps nothing on disk "+
			"(engine.IsVolatile), but a database is closed after its load and opened again to be "+
			"measured: store its data in Options.Dir", info.Name)
	}

	if d, ok := e.(engine.Dependent); ok {
		return d.Ready()
	}

	return nil
}

// target is the database that w names: one that is there, or one to load.
func (p *prepared) target(w Workload, m *setting.Mistakes) sweep.Target {
	name := p.engine.Info().Name
	t := sweep.Target{Dir: w.Dir, Engine: p.engine, Profile: w.Profile}
	there, err := keyspace.ReadManifest(w.Dir)
	switch {
	case w.Dir == "" || errors.Is(err, keyspace.ErrNoManifest):
		checkNew(w, m)
		return t
	case err != nil:
		m.At("db", w.Dir, "%v", err)
		return t
	case there.Engine != name:
		m.At("db", w.Dir, "holds a database of %s, not of %s: name another folder",
			there.Engine, name)
		return t
	}

	for _, asked := range []struct {
		flag      string
		has, want uint64
	}{
		{"keys", there.Keys, w.Keys},
		{"key-bytes", uint64(there.KeyBytes), uint64(w.KeyBytes)},
		{"value-bytes", uint64(there.ValueBytes), uint64(w.ValueBytes)},
	} {
		if asked.want != 0 && asked.want != asked.has {
			m.At(asked.flag, strconv.FormatUint(asked.want, 10), "the database in %s was loaded "+
				"with %d: leave it 0, or name a new folder in %s", w.Dir, asked.has,
				m.Name("db", ""))
		}
	}

	return sweep.Wanted{
		Dir:     w.Dir,
		Engine:  name,
		Profile: w.Profile,
		Options: w.Options,
	}.Find(finder{p.engine}, m)
}

// checkNew says why no database can be loaded.
func checkNew(w Workload, m *setting.Mistakes) {
	if w.Keys == 0 {
		m.At("keys", "", "give the number of keys to load (example: 100_000), or the folder of a "+
			"database that is loaded in %s", m.Name("db", ""))
	}

	if w.Dir == "" {
		return
	}

	dir := output.Absolute(w.Dir)
	if err := output.OutsideDatabases(filepath.Dir(dir)); err != nil {
		m.At("db", "", "%v", err)
	}

	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.At("db", "", "%v", err)
	}

	for _, entry := range entries {
		if !engine.MayBeIn(entry.Name()) {
			m.At("db", w.Dir, "it is not empty (it holds %s), and statelab did not load it: "+
				"name a new folder", entry.Name())
			return
		}
	}
}

// finder implements sweep.Engines with one engine.
type finder struct{ engine.Engine }

// Find returns it.
func (f finder) Find(...string) engine.Engine { return f.Engine }

// Known reports whether it has this name.
func (f finder) Known(name string) bool { return name == f.Info().Name }

// UseLibrary has nothing to do.
func (finder) UseLibrary(...map[string]string) {}

// MemTables are not known.
func (finder) MemTables(string, string, int64, bool) int64 { return 0 }
