// Package sweep measures an engine along axes: what flags or a file declare as points, the
// databases that they need, and what their runs come to.
//
// Non-goals: the order of runs and what is finished (plan), measuring (bench),
// drawing (explain).
package sweep

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Sweep is what to measure.
type Sweep struct {
	Name    string // label in charts
	Command []string
	Base    bench.Spec  // what all points share
	Load    *bench.Spec // how to make a database where Base.Dir is empty
	Axes    []Axis
	// Simulated are further caches whose block reads are simulated, not measured.
	Simulated []setting.CacheSize
	// Databases is the folder of those that are made; empty: in the folder of the results.
	Databases string
}

// Axis is what varies.
type Axis struct {
	Name   string
	Values []Step
}

// Step is a value of an axis: how it is shown, and what it changes of a setting.
type Step struct {
	Text  string
	apply func(*Setting)
}

// along is the axis of the values of v, which set applies.
func along[T any](name string, v *setting.Value[T], set func(*Setting, T)) Axis {
	axis := Axis{Name: name}
	for i, value := range v.All() {
		axis.Values = append(axis.Values, Step{v.Texts()[i], func(s *Setting) { set(s, value) }})
	}
	return axis
}

// Caches is an axis of cache sizes.
func Caches(v *setting.Value[setting.CacheSize]) Axis {
	return along(CacheAxis, v, func(s *Setting, c setting.CacheSize) {
		s.Cache, s.Read.CacheBytes = c, c.Bytes
	})
}

// Setting is one value of every axis.
type Setting struct {
	Number     int // 0, 1, ... in axis order: names the folder
	Values     map[string]string
	Class      string // of hardware; empty: any
	Cache      setting.CacheSize
	Read, Load bench.Spec
}

// maxPoints is far beyond what anybody has the time for.
const maxPoints = 100_000

// Settings lists all combinations of the axes' values, the last axis changing fastest.
func (p Sweep) Settings() []Setting {
	base := Setting{Values: map[string]string{}, Read: p.Base}
	if p.Load != nil {
		base.Load = *p.Load
	}

	settings := []Setting{base}
	for _, axis := range p.Axes {
		var next []Setting
		for _, s := range settings {
			for _, value := range axis.Values {
				t := s
				t.Values = map[string]string{axis.Name: value.Text}
				maps.Copy(t.Values, s.Values)
				value.apply(&t)
				next = append(next, t)
			}
		}

		settings = next
	}

	for i := range settings {
		settings[i].Number = i
	}

	return settings
}

// axes are how the summary names p's.
func (p Sweep) axes() (axes []result.Axis) {
	for _, axis := range p.Axes {
		a := result.Axis{Name: axis.Name}
		for _, value := range axis.Values {
			a.Values = append(a.Values, value.Text)
		}
		axes = append(axes, a)
	}
	return axes
}

// Spec is how s reads; dbBytes turns a share into bytes.
func (s Setting) Spec(dbBytes int64) bench.Spec {
	spec := s.Read
	if s.Cache != (setting.CacheSize{}) {
		spec.CacheAsked, spec.CacheBytes = s.Values[CacheAxis], s.Cache.BytesFor(dbBytes)
	}
	return spec
}

// LoadSpec is how a database of a setting is made; its loads count from 0. Dir is its name among
// the sweep's databases: files depend on the engine, its profile, its options and the seed.
func (s Setting) LoadSpec(number int) bench.Spec {
	load := s.Load
	load.Seed = loadSeed(load.Seed, number)
	load.Engine, load.Profile = s.Read.Engine, s.Read.Profile
	parts := []string{load.Engine, load.Profile, fmt.Sprint(load.Keys), optionsName(load.Overrides)}
	if rounds, _, err := bench.AgeRounds(load.Age); err == nil && rounds > 0 {
		parts = append(parts, "age-"+load.Age)
	}
	if load.Workload != workload.FillRandom {
		parts = append(parts, load.Workload)
	}
	if number > 0 {
		parts = append(parts, fmt.Sprintf("load-%d", number+1))
	}

	load.Dir = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }),
		"-")
	return load
}

// loadSeed is the seed of a load. The first has the experiment's own. The others do not meet those
// of another experiment, whose seed may be the next number.
func loadSeed(seed uint64, number int) uint64 {
	if number == 0 {
		return seed
	}
	const unused = 11 // bits: JSON numbers are exact up to 53
	return rand.New(rand.NewPCG(seed, uint64(number))).Uint64() >> unused
}

// with are options and one more, in a map of their own: settings share what the axes before gave
// them.
func with(overrides map[string]string, name, value string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, overrides)
	all[name] = value
	return all
}

// longestName is how much of a folder's name options may take.
const longestName = 100

// optionsName is the part of a folder's name that tells options apart: the options
// themselves where they can stand in a name.
func optionsName(overrides map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		parts = append(parts, name+"="+overrides[name])
	}

	text := strings.Join(parts, "-")
	if len(text) <= longestName && !strings.ContainsFunc(text, func(r rune) bool {
		return r > unicode.MaxASCII ||
			!unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("=-_.[]", r)
	}) {
		return text
	}

	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("options-%x", sum[:8])
}

// Steps are what each run of p will take, in their order: the first on a database that is to be
// made makes it. withCgo tells of an engine whether it is measured built with cgo; predicts,
// whether the curve is predicted at the end.
func (p Sweep) Steps(
	how plan.Plan, on estimate.Machine, withCgo func(engine string) bool, predicts bool,
) (steps []estimate.Step, err error) {
	settings := p.Settings()
	made := map[string]estimate.Step{}
	held, files := host.FilesIn(p.Base.Dir)
	var points []estimate.ReadSpec
	for _, step := range plan.Order(len(settings), how.Repeats, how.Seed) {
		setting := settings[step.Point]
		var load estimate.Step
		first := false
		if p.Base.Dir == "" {
			spec := setting.LoadSpec(how.Load(step))
			var known bool
			if load, known = made[spec.Dir]; !known {
				if load, err = estimate.Load(&spec, on); err != nil {
					return nil, err
				}
				made[spec.Dir], first = load, true
			}

			held = load.TableBytes
		}

		spec := setting.Spec(held)
		point := estimate.ReadSpec{
			EngineSpec:    spec,
			DatabaseBytes: held,
			Files:         files,
			Cgo:           withCgo(spec.Engine),
		}

		point.Keys = max(setting.Load.Keys, uint64(spec.SampleKeys))
		points = append(points, point)
		read := estimate.Read(point, on)
		if first {
			load.Kind, load.Name = "load and read", load.Name+", then reading"
			load.Seconds, load.MemoryBytes = load.Seconds+read.Seconds,
				max(load.MemoryBytes, read.MemoryBytes)
			read = load
		}

		steps = append(steps, read)
	}

	if predicts {
		steps = append(steps, estimate.Curve(points))
	}

	return steps, nil
}

// Unfinished are the steps that --resume has to measure, and the curve after them.
func (p Sweep) Unfinished(steps []estimate.Step, how plan.Plan) (left []estimate.Step) {
	points := New(p, how, nil).Points()
	order := plan.Order(len(points), how.Repeats, how.Seed)
	for n, step := range steps {
		if n < len(order) {
			if run, err := result.ReadRun(filepath.Join(how.Out,
				how.Folder(points, order[n]))); err == nil && run.Status == result.OK {
				continue
			}
		}

		left = append(left, step)
	}

	return left
}

// LoadDeclared is the load that e declares, or that goes on; what is wrong with it goes to m.
func LoadDeclared(
	e *experiment.Experiment, resume bool, engines Engines, command []string, m *setting.Mistakes,
) bench.Spec {
	if !e.DB.IsSet() {
		m.At("db", "", "name the directory of the new database: %s", m.Name("db", "DIR"))
	}

	s := experiment.SubjectAs[*experiment.LoadConfig](e)
	spec := LoadSpec(e, &s.DatasetOptions, command)
	spec.Engine, spec.Profile = cmp.Or(s.Engine.String(), subject.DefaultEngine()),
		s.Profile.Value()
	spec.Dir, spec.Resume, spec.Threads, spec.Handles = output.Absolute(e.DB.Value()), resume,
		s.Threads.Value(), int(s.Handles.Value())
	if cache := s.Cache.Value(); s.Cache.IsSet() {
		spec.CacheAsked, spec.CacheBytes = s.Cache.String(), cache.Bytes
		if cache.Share > 0 {
			m.At("cache", s.Cache.String(), "the size of a database that is being loaded is not "+
				"known: give a size such as %s", m.Name("cache", "512MiB"))
		}
	}

	if e.DB.IsSet() {
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
	dir := e.DB.Value()
	manifest, err := keyspace.ReadManifest(spec.Dir)
	switch {
	case err == nil && resume:
		if s := experiment.SubjectAs[*experiment.LoadConfig](e); s.Engine.IsSet() &&
			spec.Engine != manifest.Engine {
			m.At("engine", spec.Engine, "--resume continues the load of %s with %s: remove %s",
				dir, manifest.Engine, m.Name("engine", ""))
		}

		if err := dbformat.Check(manifest.Engine, engine.Options{Dir: dir}); err != nil {
			m.Add("--resume: %v", err)
		}

		spec.Engine, spec.Profile, spec.Overrides = manifest.Engine, manifest.Profile,
			manifest.Overrides
		spec.Keys, spec.Workload = manifest.Keys, manifest.Workload
		return
	case err == nil && manifest.Loaded == manifest.Keys:
		m.At("db", dir, "holds a complete database of %s keys already: read it, or name a new "+
			"directory", unit.Count(manifest.Keys))
		return
	case err == nil:
		m.At("db", dir, "holds an unfinished load (%s of %s keys): add --resume to continue it",
			unit.Count(manifest.Loaded), unit.Count(manifest.Keys))
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
