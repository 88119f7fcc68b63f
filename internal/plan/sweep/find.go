package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Engines are those that can be measured.
type Engines interface {
	// Find finds engines that run here and returns the first; nil where there is none. It reports
	// those that are missing.
	Find(names ...string) engine.Engine
	Known(name string) bool
	// UseLibrary tells which library the options name: answers of its engine depend on that.
	UseLibrary(options ...map[string]string)
	// MemTables is how many bytes of a cache they take in a database at rest; 0: none, or not known.
	MemTables(name, profile string, cacheBytes int64, readOnly bool) int64
}

// Wanted is a database to read, and with what.
type Wanted struct {
	Dir, Engine, Profile string
	Options              map[string]string
	Existing             bool // statelab need not have loaded it
	ReadOnly             bool // nothing opens it for writing
	Elsewhere            bool // other machines may have it
}

// WantedBy is the database that e names.
func WantedBy(e *experiment.Experiment) Wanted {
	s := experiment.Of[*experiment.Swept](e)
	return Wanted{Dir: e.DB.V(), Engine: s.Engine.V().String(), Profile: s.Profile.V(), Options: allOptions(e).Fixed(), Existing: s.Existing.V(),
		ReadOnly: s.ReadOnly.V()}
}

// Target is a database that is there, and the engine and profile to read it with.
type Target struct {
	Dir, Profile string
	Engine       engine.Engine      // nil: not found, which was reported
	Manifest     *keyspace.Manifest // nil: statelab did not load it
	Foreign      bool
}

// Find finds out what the directory holds and which engine reads it.
func (w Wanted) Find(engines Engines, m *setting.Mistakes) (t Target) {
	t.Dir, t.Profile = w.Dir, w.Profile
	if t.Dir == "" {
		m.At("db", "", "missing: name a database (statelab load --db DIR makes one)")
		return t
	}
	info, err := os.Stat(t.Dir)
	switch {
	case err == nil && info.Mode().IsRegular():
		m.At("db", "", "%v", cmp.Or(dbformat.File(t.Dir), fmt.Errorf("%s is a file: name the folder of a database", t.Dir)))
		return t
	case err != nil && w.Elsewhere: // the node that has it looks at it
		t.Engine = engines.Find(cmp.Or(w.Engine, subject.DefaultEngine()))
		return t
	case !m.Present("db", t.Dir, engine.CodeNoDatabase):
		return t
	}
	name := w.Engine
	switch t.Manifest, err = keyspace.ReadManifest(t.Dir); {
	case err == nil:
		name = cmp.Or(name, t.Manifest.Engine)
	case !errors.Is(err, keyspace.ErrNoManifest):
		m.Unread("db", "", "%v", err)
		return t
	default:
		t.Manifest, t.Foreign = nil, !subject.KeepsNothing(w.Engine)
	}
	if t.Foreign {
		found, err := dbformat.Recognise(t.Dir)
		if err != nil && (name == "" || subject.IsPebble(name)) {
			unrecognised(err, m)
			return t
		}
		name = cmp.Or(name, found.Engine)
		if !w.Existing {
			m.At("db", t.Dir, "statelab did not load this database. Add %s to read it; it is never written to", m.Name("use-existing", ""))
		}
	}
	if !engines.Known(name) && engines.Find(name) == nil { // it said which there are
		return t
	}
	if err := dbformat.Check(name, engine.Options{Dir: t.Dir, ReadOnly: w.ReadOnly || t.Foreign}); err != nil {
		unrecognised(err, m)
		return t
	}
	engines.UseLibrary(w.Options, t.loadedWith())
	t.Engine = engines.Find(name)
	if t.Foreign && t.Engine != nil && !t.Engine.Info().Has(engine.CanReadForeign) {
		m.At("engine", name, "of %s, only databases that statelab loaded are read. Measure one like it: statelab load --engine %s --db NEW --keys N", name, name)
	}
	switch {
	case t.Profile != "":
	case t.Foreign && t.Engine != nil:
		t.Profile = nodeProfile(t.Engine)
	case t.Manifest != nil && (w.Engine == "" || w.Engine == t.Manifest.Engine):
		t.Profile = t.Manifest.Profile
	}
	for name, value := range w.Options {
		t.stored(m, "", name, value)
	}
	return t
}

// loadedWith are the options that the database was loaded with.
func (t Target) loadedWith() map[string]string {
	if t.Manifest == nil {
		return nil
	}
	return t.Manifest.Overrides
}

// unrecognised says what to do about a directory whose engine is not known, or cannot read it.
func unrecognised(err error, m *setting.Mistakes) {
	not, is := errors.AsType[*engine.NotADatabaseError](err)
	if !is {
		m.Add("%v", err)
		return
	}
	m.Unread("", "", "no database was found in %s: %s. For a geth node, give the path of geth/chaindata; statelab load --db DIR makes a new database",
		not.Dir, not.Why)
}

// nodeProfile is what a node would open the database with: geth's options where
// the engine has them.
func nodeProfile(e engine.Engine) string {
	profiles := e.Info().Profiles
	for _, p := range profiles {
		if strings.HasPrefix(p.Name, "geth-") {
			return p.Name
		}
	}
	return profiles[0].Name
}

// stored refuses an option that applies when data is written, with another value than the
// database was written with; otherwise is a way to measure all the values.
func (t Target) stored(m *setting.Mistakes, otherwise, name string, values ...string) {
	if t.Engine == nil || !t.Engine.Info().Stores(name) {
		return
	}
	wrote, with := "statelab did not write "+t.Dir, "load a database"
	if t.Manifest != nil {
		loaded, given := t.Manifest.Overrides[name]
		if given && !slices.ContainsFunc(values, func(value string) bool { return !sameValue(value, loaded) }) {
			return
		}
		wrote, with = t.Dir+" was loaded with "+name+"="+loaded, "load another database"
		if !given {
			wrote = t.Dir + " was loaded with that of profile " + t.Manifest.Profile
		}
	}
	set := name + "=" + strings.Join(values, ",")
	m.At("set", set, "%s applies when data is written, and %s: remove %s, or %s: statelab load --db NEW --set %s=%s%s", name, wrote, m.Name("set", name), with,
		name, values[len(values)-1], otherwise)
}

// sameValue compares values of options as texts or as sizes, such as 4KiB and 4096.
func sameValue(a, b string) bool {
	x, errX := unit.ParseBytes(unit.WithUnit(a))
	y, errY := unit.ParseBytes(unit.WithUnit(b))
	return a == b || errX == nil && errY == nil && x == y
}

// ceilingPoints are the most numbers in flight of a look at the disk beside a sweep.
const ceilingPoints = 4

// JudgeCeiling marks the disk's limit in the folder of the results if what was measured contradicts it.
func (p Sweep) JudgeCeiling(done *result.Sweep, out string) error {
	d, err := result.ReadDisk(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var measured []result.DiskPoint
	for _, point := range done.Points {
		measured = append(measured, point.DeviceReads(p.Base.Threads))
	}
	if d.Judge(measured...) == "" {
		return nil
	}
	done.Warnings = append(done.Warnings, d.Warning())
	return result.WriteDisk(out, d)
}

// Flights are the thread counts of a plan, thinned out evenly, and one more, so
// that the disk's own curve has a shape.
func (p Sweep) Flights() []int {
	var numbers []int
	for _, point := range p.Settings() {
		numbers = append(numbers, point.Read.Threads)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for len(numbers) > ceilingPoints {
		numbers = slices.Delete(numbers, len(numbers)/2, len(numbers)/2+1)
	}
	if numbers[0] > 1 {
		numbers = slices.Insert(numbers, 0, 1)
	}
	return numbers
}

// ReachesDevice tells whether a plan's reads are to reach the device.
func (p Sweep) ReachesDevice() bool {
	return slices.ContainsFunc(p.Settings(), func(point Setting) bool {
		return point.Read.PageCache == bench.Direct || point.Read.PageCache == bench.Cold
	})
}
