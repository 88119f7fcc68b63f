package sweep

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
)

// LoadDeclared is the load that e declares, or that goes on; what is wrong with it goes to m.
func LoadDeclared(e *experiment.Experiment, resume bool, engines Engines, command []string, m *setting.Mistakes) bench.Spec {
	if !e.DB.Given() {
		m.At("db", "", "name the directory of the new database: %s", m.Name("db", "DIR"))
	}
	s := experiment.Of[*experiment.Loaded](e)
	spec := LoadSpec(e, &s.Made, command)
	spec.Engine, spec.Profile = cmp.Or(s.Engine.String(), subject.DefaultEngine()), s.Profile.V()
	spec.Dir, spec.Resume, spec.Threads, spec.Handles = plan.Absolute(e.DB.V()), resume, s.Threads.V(), int(s.Handles.V())
	if cache := s.Cache.V(); s.Cache.Given() {
		spec.CacheAsked, spec.CacheBytes = s.Cache.String(), cache.Bytes
		if cache.Share > 0 {
			m.At("cache", s.Cache.String(), "the size of a database that is being loaded is not known: give a size such as %s", m.Name("cache", "512MiB"))
		}
	}
	if e.DB.Given() {
		if err := output.OutsideDatabases(filepath.Dir(spec.Dir)); err != nil {
			m.At("db", "", "%v", err)
		}
	}
	if len(m.Found) == 0 {
		checkLoadTarget(e, resume, &spec, m)
	}
	engines.UseLibrary(spec.Overrides)
	if found := engines.Find(spec.Engine); found != nil {
		spec.Profile = cmp.Or(spec.Profile, found.Info().Profiles[0].Name)
		CheckOptions(found, spec, m)
	}
	return spec
}

// checkLoadTarget keeps a load from landing on something that is there already,
// and a resume from going on with something else than was begun.
func checkLoadTarget(e *experiment.Experiment, resume bool, spec *bench.Spec, m *setting.Mistakes) {
	dir := e.DB.V()
	manifest, err := keyspace.ReadManifest(spec.Dir)
	switch {
	case err == nil && resume:
		if s := experiment.Of[*experiment.Loaded](e); s.Engine.Given() && spec.Engine != manifest.Engine {
			m.At("engine", spec.Engine, "--resume continues the load of %s with %s: remove %s", dir, manifest.Engine, m.Name("engine", ""))
		}
		if err := dbformat.Check(manifest.Engine, engine.Options{Dir: dir}); err != nil {
			m.Add("--resume: %v", err)
		}
		spec.Engine, spec.Profile, spec.Overrides = manifest.Engine, manifest.Profile, manifest.Overrides
		spec.Keys, spec.Workload = manifest.Keys, manifest.Workload
		return
	case err == nil && manifest.Loaded == manifest.Keys:
		m.At("db", dir, "holds a complete database of %s keys already: read it, or name a new directory", unit.Count(manifest.Keys))
		return
	case err == nil:
		m.At("db", dir, "holds an unfinished load (%s of %s keys): add --resume to continue it", unit.Count(manifest.Loaded), unit.Count(manifest.Keys))
		return
	case !errors.Is(err, keyspace.ErrNoManifest):
		m.At("db", "", "%v", err)
		return
	case resume:
		m.Add("--resume: %s holds no unfinished load", dir)
		return
	}
	if err := dbformat.Check(spec.Engine, engine.Options{Dir: dir, Create: true}); err != nil {
		m.Add("%v", err)
		return
	}
	entries, err := os.ReadDir(spec.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.At("db", "", "%v", err)
	}
	for _, entry := range entries {
		if !engine.MayBeIn(entry.Name()) {
			m.At("db", dir, "the directory is not empty (%s): name a new one", entry.Name())
			return
		}
	}
}
