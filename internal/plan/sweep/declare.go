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
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/chain/kvlog"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Axes by name, in the order they nest.
const (
	EngineAxis = "engine"
	CacheAxis  = "cache"
)

// OptionAxis begins the name of an axis of an engine option.
const OptionAxis = "set."

// loadCache gives loads write buffers of a useful size; with many profiles a memtable is a share
// of the cache.
const loadCache = 512 << 20

// allOptions are the engine's, of which the table is one: a name, or a mix of several in
// proportions, which no comma may divide.
func allOptions(e *experiment.Experiment) *setting.Options {
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	options, table := e.Options, s.Table.Value()
	if table == "" {
		return &options
	}

	tables := setting.Split(table)
	if strings.Contains(table, "=") {
		tables = []string{strings.ReplaceAll(table, ",", clients.MixSeparator)}
	}

	options = options.With(setting.Option{Name: "table", Values: tables})
	return &options
}

// Declared is the sweep that e declares; what is wrong with it goes to m.
func Declared(
	e *experiment.Experiment, engines Engines, command []string, m *setting.Mistakes,
) Sweep {
	e = e.Clone()
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	p := Sweep{Command: command, Simulated: s.Simulated.All()}
	options := allOptions(e)
	var t Target
	if !s.Keys.IsSet() && !e.DB.IsSet() && subject.KeepsNothing(s.Engine.Value().Name) {
		e.DB.SetValues(".")
	}

	if e.DB.IsSet() {
		onlyOne(e, m)
		w := WantedBy(e)
		w.Elsewhere = e.Where.Value().Cluster
		t = w.Find(engines, m)
		for _, o := range options.All() {
			if len(o.Values) > 1 {
				t.stored(m, " (sweep with --keys in place of --db makes one for each value)",
					o.Name, o.Values...)
			}
		}
	} else {
		if !s.Engine.IsSet() {
			s.Engine.SetValues(experiment.Named{Name: subject.DefaultEngine()})
		}

		var names []string
		for _, named := range s.Engine.All() {
			names = append(names, named.Name)
		}

		t.Engine = engines.Find(names...)
		if t.Profile = s.Profile.Value(); t.Profile == "" && !s.Engine.Several() &&
			t.Engine != nil {
			t.Profile = cmp.Or(s.Engine.Value().Profile, t.Engine.Info().Profiles[0].Name)
		}

		for i, name := range s.Engine.Texts() {
			if slices.Contains(s.Engine.Texts()[:i], name) { // their points could not be told apart
				m.At("engine", "", "%s is listed twice", name)
			}
		}

		p.Load = loadOf(e, engines, command, m)
	}

	if !s.Profile.IsSet() && t.Profile != "" {
		s.Profile.SetValues(t.Profile)
	}

	p.Axes = axes(e, options)
	p.Base = ReadSpec(e, t, command, m)
	if !e.DB.IsSet() && s.Engine.Several() && !s.Profile.IsSet() {
		p.Base.Profile = "" // every engine's own
	}

	if s.Memory.IsSet() && s.Cache.IsSet() {
		m.Add("%s and %s: a memory budget covers the cache: give one of them",
			m.Name("memory", ""), m.Name("cache", ""))
	}

	p.judge(e, engines, m)
	return p
}

// onlyOne refuses what a sweep of one database cannot vary.
func onlyOne(e *experiment.Experiment, m *setting.Mistakes) {
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	if s.Engine.Several() {
		m.At("engine", s.Engine.String(), "with %s a sweep reads one database with one engine; "+
			"without it, it makes a database for each", m.Name("db", ""))
	}

	if s.Loads.Value() > 1 {
		m.At("loads", s.Loads.String(), "not with %s: a database that is given is one load; to "+
			"have several loaded, replace %[1]s by %s", m.Name("db", ""), m.Name("keys", "N"))
	}

	if s.LoadWorkload.Value() != workload.FillRandom {
		m.At("load-workload", s.LoadWorkload.String(), "not with %s, which is loaded already",
			m.Name("db", ""))
	}

	if s.Age.String() != bench.NoAge {
		m.At("age", s.Age.String(), "not with %s; to age a database, load it with statelab load "+
			"--age", m.Name("db", ""))
	}

	if s.Keys.IsSet() {
		m.At("keys", s.Keys.String(), "not with %s, whose number of keys is fixed",
			m.Name("db", ""))
	}
}

// axes are what varies, and the settings that reports name in any case.
func axes(e *experiment.Experiment, options *setting.Options) (axes []Axis) {
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	add := func(needed bool, axis Axis) {
		if needed && len(axis.Values) > 0 {
			axes = append(axes, axis)
		}
	}

	makes, batches := !e.DB.IsSet(), s.Workload.Value() == workload.MultiReadRandom
	add(true, along("class", &e.Constraint, func(p *Setting, class string) { p.Class = class }))
	add(makes, along(EngineAxis, &s.Engine, func(p *Setting, n experiment.Named) {
		p.Read.Engine, p.Read.Profile = n.Name, cmp.Or(n.Profile, p.Read.Profile)
	}))
	add(makes, along("keys", &s.Keys, func(p *Setting, n uint64) { p.Load.Keys = n }))
	add(makes && s.Age.String() != bench.NoAge,
		along("age", &s.Age, func(p *Setting, age string) { p.Load.Age = age }))
	add(true,
		along("profile", &s.Profile, func(p *Setting, profile string) { p.Read.Profile = profile }))
	add(s.PageCache.Several(),
		along("page-cache", &s.PageCache,
			func(p *Setting, mode string) { p.Read.PageCache = mode }))
	add(true, along("handles", &s.Handles, func(p *Setting, n uint64) { p.Read.Handles = int(n) }))
	add(true, along("threads", &s.Threads, func(p *Setting, n int) { p.Read.Threads = n }))
	add(s.Rate.String() != "0",
		along("rate", &s.Rate, func(p *Setting, rate float64) { p.Read.Rate = rate }))
	absent := s.Missing.Several() && s.Workload.Value() != workload.ReadMissing
	add(absent,
		along("missing", &s.Missing,
			func(p *Setting, share float64) { p.Read.MissingShare = share }))
	add(s.Zipf.Several(),
		along("zipf", &s.Zipf, func(p *Setting, theta float64) { p.Read.ZipfTheta = theta }))
	add(batches,
		along("batch-gets", &s.BatchGets, func(p *Setting, n uint64) { p.Read.BatchGets = int(n) }))
	add(batches,
		along("batch-order", &s.BatchOrder, func(p *Setting, order string) {
			p.Read.BatchSorted = order == experiment.SortedOrder
		}))

	add(batches, along("in-flight", &s.InFlight, func(p *Setting, n int) { p.Read.InFlight = n }))
	add(s.Procs.String() != "0",
		along("procs", &s.Procs, func(p *Setting, n int) { p.Read.Procs = n }))
	add(true,
		along("memory", &s.Memory, func(p *Setting, bytes int64) { p.Read.MemoryBytes = bytes }))
	add(true, Caches(&s.Cache))
	for _, o := range options.All() {
		axis := Axis{Name: OptionAxis + o.Name}
		for _, value := range o.Values {
			axis.Values = append(axis.Values, Step{value, func(p *Setting) {
				p.Read.Overrides, p.Load.Overrides = with(p.Read.Overrides, o.Name, value),
					with(p.Load.Overrides, o.Name, value)
			}})
		}

		add(len(o.Values) > 1, axis)
	}

	return axes
}

// Looking is a sweep of a database that is only looked at: nothing is written.
func Looking(dir string, ignoreLock bool) (*experiment.Experiment, *experiment.SweepConfig) {
	e := experiment.New(experiment.Sweep)
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	e.DB.SetValues(dir)
	s.Existing.SetValues(true)
	s.ReadOnly.SetValues(true)
	s.IgnoreLock.SetValues(ignoreLock)
	return e, s
}

// ReadSpec is what all points of e share that read t: axes have their first value.
func ReadSpec(
	e *experiment.Experiment, t Target, command []string, m *setting.Mistakes,
) bench.Spec {
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	spec := bench.Spec{
		Schema:       schema.EngineSpec,
		Verb:         bench.Read,
		Command:      command,
		Dir:          output.Absolute(t.Dir),
		Profile:      t.Profile,
		Overrides:    allOptions(e).Fixed(),
		ReadOnly:     s.ReadOnly.Value() || t.Foreign,
		Foreign:      t.Foreign,
		IgnoreLock:   s.IgnoreLock.Value(),
		PageCache:    s.PageCache.Value(),
		Workload:     s.Workload.Value(),
		Seed:         e.Seed.Value(),
		Gets:         s.Gets.Value(),
		MissingShare: s.Missing.Value(),
		ZipfTheta:    s.Zipf.Value(),
		SampleKeys:   int(s.SampleKeys.Value()),
		Writers:      int(s.Writers.Value()),
		WriteRate:    s.WriteRate.Value(),
		Puts:         s.Puts.Value(),
		BatchKeys:    int(s.Batch.Value()),
		AccessGets:   s.AccessGets.Value(),
		Threads:      max(1, s.Threads.Value()),
	}

	if list := s.Accesses.Value(); list != "" {
		if !t.Foreign && len(m.Found) == 0 {
			m.At("accesses", list, "an access list needs a client's database: add %s and %s",
				m.Name("db", "DIR"), m.Name("use-existing", ""))
		}

		if spec.Workload != workload.ReadRandom || s.Missing.Several() || s.Zipf.Several() ||
			spec.MissingShare > 0 || spec.ZipfTheta > 0 ||
			s.Table.IsSet() && !kvlog.IsLog(list) {
			m.At("accesses", list, "the list chooses the keys: remove %s, %s, %s and %s",
				m.Name("workload", ""), m.Name("missing", ""), m.Name("zipf", ""),
				m.Name("table", ""))
		}

		spec.AccessList, spec.KeyScheme = output.Absolute(list), s.KeyScheme.Value()
		if kvlog.IsLog(list) {
			spec.KeyScheme = kvlog.Logged
		}
	}

	if t.Engine != nil {
		spec.Engine = t.Engine.Info().Name
		spec.Profile = cmp.Or(spec.Profile, t.Engine.Info().Profiles[0].Name)
	}

	keys := uint64(spec.SampleKeys)
	if t.Manifest != nil {
		keys = t.Manifest.Keys
		for name, value := range t.Manifest.Overrides {
			spec.Overrides[name] = cmp.Or(spec.Overrides[name], value)
		}
	}

	spec.WarmupAuto, spec.WarmupGets, spec.WarmupRule = warmup(&s.Warmup, keys)
	switch spec.Workload {
	case workload.ReadMissing:
		spec.MissingShare = 1
	case workload.MultiReadRandom:
		spec.BatchGets, spec.BatchSorted, spec.InFlight = int(s.BatchGets.Value()),
			s.BatchOrder.Value() == experiment.SortedOrder, s.InFlight.Value()
		if s.Rate.String() != "0" {
			m.At("rate", "", "not with %s, which sends a batch only after the one before it was "+
				"answered", m.Name("workload", workload.MultiReadRandom))
		}
	case workload.Overwrite, workload.ReadWhileWriting:
		if t.Foreign || s.ReadOnly.Value() {
			m.At("workload", spec.Workload, "it writes to the database: remove %s and %s",
				m.Name("use-existing", ""), m.Name("read-only", ""))
		}
	}

	if spec.BatchGets == 0 {
		plain := experiment.SubjectAs[*experiment.SweepConfig](experiment.New(experiment.Sweep))
		for flag, differs := range map[string]bool{
			"batch-gets":  !s.BatchGets.Equal(plain.BatchGets),
			"batch-order": !s.BatchOrder.Equal(plain.BatchOrder),
			"in-flight":   !s.InFlight.Equal(plain.InFlight),
		} {
			if differs {
				m.At(flag, "", "only with %s", m.Name("workload", workload.MultiReadRandom))
			}
		}
	}

	for _, missing := range s.Missing.All() {
		for _, theta := range s.Zipf.All() {
			choice := workload.Choice{Keys: keys, MissingShare: missing, ZipfTheta: theta}
			if errs := choice.Check(); len(errs) > 0 {
				m.All("", errs)
				return spec
			}
		}
	}

	return spec
}

func warmup(w *setting.Value[setting.Warmup], keys uint64) (auto bool, gets uint64, rule string) {
	switch v := w.Value(); {
	case v.Auto:
		return true, 0, "auto"
	case v.Share > 0:
		return false, v.GetsFor(keys), w.String() + " of the keys"
	default:
		return false, v.Gets, "a count"
	}
}

// LoadSpec is how a database of made is written with o.
func LoadSpec(
	e *experiment.Experiment, made *experiment.DatasetOptions, command []string,
) bench.Spec {
	return bench.Spec{
		Schema:     schema.EngineSpec,
		Verb:       bench.Load,
		Command:    command,
		Overrides:  e.Options.Fixed(),
		Workload:   made.Workload.Value(),
		PageCache:  bench.AsIs,
		Seed:       e.Seed.Value(),
		Threads:    4,
		Keys:       made.Keys.Value(),
		KeyBytes:   made.KeyBytes.Value(),
		KeyHash:    made.KeyHash.Value(),
		ValueModel: made.ValueModel.Value(),
		ValueBytes: made.ValueBytes.Value(),
		BatchKeys:  int(made.Batch.Value()),
		Age:        made.Age.Value(),
		CacheBytes: loadCache,
		CacheAsked: "512MiB",
	}
}

// loadOf is how a sweep makes its databases.
func loadOf(
	e *experiment.Experiment, engines Engines, command []string, m *setting.Mistakes,
) *bench.Spec {
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	if !s.Keys.IsSet() {
		m.Add("give %s to measure a database, or %s to make one for the sweep (example: %s)",
			m.Name("db", "DIR"), m.Name("keys", "N"), m.Name("keys", "2M"))
		return nil
	}

	spec := LoadSpec(e, &s.DatasetOptions, command)
	spec.Workload = s.LoadWorkload.Value()
	for _, named := range s.Engine.All() {
		if spec.Workload == workload.FillSorted &&
			subject.Descriptor(named.Name).Cost.Sorted == nil {
			m.At("load-workload", spec.Workload, "%s cannot build a database from sorted keys; "+
				"leave this out", named.Name)
		}
	}

	engines.UseLibrary(spec.Overrides)
	return &spec
}

// judge asks the engines what they think of the options of the points.
func (p Sweep) judge(e *experiment.Experiment, engines Engines, m *setting.Mistakes) {
	checked := map[string]bool{}
	held := int64(0) // at most what a share of the database is a share of
	if e.DB.IsSet() && !e.Where.Value().Cluster {
		held, _ = host.FilesIn(e.DB.Value())
	}

	points := 1
	for _, axis := range p.Axes {
		if points *= len(axis.Values); points > maxPoints {
			m.Add("the lists make more than %d points: shorten %s", maxPoints,
				m.Name(axis.Name, ""))
			return
		}
	}

	for _, s := range p.Settings() {
		if p.Load != nil && s.Load.Age == bench.NoAge {
			held = maxBytes(s.Load)
		}

		roomForBlocks(s, held, engines, m)
		spec := s.Spec(0)
		key := fmt.Sprint(spec.Engine, spec.Profile, spec.CacheBytes, spec.MemoryBytes,
			spec.Handles, spec.Overrides, spec.PageCache)
		if !checked[key] && spec.Engine != "" {
			checked[key] = true
			CheckOptions(engines.Find(spec.Engine), spec, m)
		}
	}
}

// maxBytes is more than a database of Pebble takes once it is loaded: 1.09 times its keys
// and values in measurements of 20k to 5M keys.
func maxBytes(load bench.Spec) int64 {
	values, err := keyspace.NewValues(load.ValueModel, load.ValueBytes, load.Seed)
	if err != nil {
		return 0 // said of the spec
	}
	return int64(1.25 * float64(load.Keys) * (float64(load.KeyBytes) + values.MeanBytes()))
}

// roomForBlocks refuses a cache that memtables would fill.
func roomForBlocks(s Setting, held int64, engines Engines, m *setting.Mistakes) {
	spec := s.Spec(held)
	if spec.CacheBytes == 0 || spec.Overrides["MemTableSize"] != "" {
		return
	}

	takes := engines.MemTables(spec.Engine, spec.Profile, spec.CacheBytes, spec.ReadOnly)
	if takes < spec.CacheBytes {
		return
	}

	remedy := ""
	if minimum := engines.MemTables(spec.Engine, spec.Profile, spec.CacheBytes,
		true); minimum < spec.CacheBytes && !spec.ReadOnly {
		remedy = ", or add " + m.Name("read-only", "") + ", with which they take " +
			map[bool]string{true: "nothing", false: unit.Bytes(minimum)}[minimum == 0]
	}

	asked := spec.CacheAsked
	if s.Cache.Share > 0 {
		asked += " (at most " + unit.Bytes(spec.CacheBytes) + " of this database)"
	}

	m.At("cache", asked, "the memtables of %s take %s of the cache, which leaves nothing for "+
		"blocks: give more, such as %s%s", spec.Engine, unit.Bytes(takes),
		m.Name("cache", fmt.Sprintf("%dKiB", 2*takes>>10)), remedy)
}

// CheckOptions asks the engine what it thinks of the profile and of the options on top of it.
func CheckOptions(e engine.Engine, spec bench.Spec, m *setting.Mistakes) {
	if e == nil {
		return
	}

	if wrong := e.Check(engine.Options{Profile: spec.Profile}); len(wrong) > 0 {
		m.All("profile", wrong)
		spec.Profile = ""
	}

	info := e.Info()
	if spec.MemoryBytes > 0 && !info.Has(engine.CanBudget) {
		m.At("memory", "", "%s does not support a memory budget: use %s", info.Name,
			m.Name("cache", ""))
		spec.MemoryBytes = 0
	}

	if spec.PageCache == bench.Direct && !info.Has(engine.CanDirect) {
		m.At("page-cache", bench.Direct, "%s cannot bypass the page cache: use %s", info.Name,
			m.Name("page-cache", bench.Cold))
		spec.PageCache = bench.Cold
	}

	options := engine.Options{
		Dir:         spec.Dir,
		Profile:     spec.Profile,
		CacheBytes:  spec.CacheBytes,
		MemoryBytes: spec.MemoryBytes,
		Handles:     spec.Handles,
		ReadOnly:    spec.ReadOnly,
		Foreign:     spec.Foreign,
		Direct:      spec.PageCache == bench.Direct,
	}

	wrong := e.Check(options)
	m.All("", wrong)
	if options.Overrides = spec.Overrides; len(wrong) == 0 && len(spec.Overrides) > 0 {
		m.All("set", e.Check(options))
	}
}

// StreamOf gives an experiment the key stream of a run that was measured.
func StreamOf(e *experiment.Experiment, run *result.Run) {
	w, s := run.Workload, experiment.SubjectAs[*experiment.SweepConfig](e)
	e.DB.SetValues(run.Database.Dir)
	s.Existing.SetValues(run.Database.Written == "foreign")
	s.Gets.SetValues(run.Figures.Gets)
	s.Warmup.SetValues(setting.Warmup{Gets: w.WarmupGets})
	s.Threads.SetValues(w.Threads)
	e.Seed.SetValues(w.Seed)
	if s.Existing.Value() && w.Keys > 0 {
		s.SampleKeys.SetValues(w.Keys)
	}

	if table := run.Engine.Options["table"]; table != "" {
		s.Table.SetValues(table)
	}

	if w.BatchGets > 0 {
		s.Workload.SetValues(workload.MultiReadRandom)
		s.BatchGets.SetValues(uint64(w.BatchGets))
		s.BatchOrder.SetValues(experiment.RandomOrder)
		if w.BatchSorted {
			s.BatchOrder.SetValues(experiment.SortedOrder)
		}
	}

	s.Missing.SetValues(w.MissingShare)
	s.Zipf.SetValues(w.ZipfTheta)
}

// Engines are those that can be measured.
type Engines interface {
	// Find finds engines that run here and returns the first; nil where there is none. It reports
	// those that are missing.
	Find(names ...string) engine.Engine
	Known(name string) bool
	// UseLibrary tells which library the options name: answers of its engine depend on that.
	UseLibrary(options ...map[string]string)
	// MemTables is how many bytes of a cache they take in a database at rest; 0: none, or not
	// known.
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
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	return Wanted{
		Dir:      e.DB.Value(),
		Engine:   s.Engine.Value().String(),
		Profile:  s.Profile.Value(),
		Options:  allOptions(e).Fixed(),
		Existing: s.Existing.Value(),
		ReadOnly: s.ReadOnly.Value(),
	}
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
		m.At("db", "", "%v",
			cmp.Or(dbformat.File(t.Dir),
				fmt.Errorf("%s is a file: name the folder of a database", t.Dir)))
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
		if err != nil && (name == "" || subject.Descriptor(name).Recognised) {
			unrecognised(err, m)
			return t
		}

		name = cmp.Or(name, found.Engine)
		if !w.Existing {
			m.At("db", t.Dir, "statelab did not load this database. Add %s to read it; it is "+
				"never written to", m.Name("use-existing", ""))
		}
	}

	if !engines.Known(name) && engines.Find(name) == nil { // it said which there are
		return t
	}

	if err := dbformat.Check(name,
		engine.Options{Dir: t.Dir, ReadOnly: w.ReadOnly || t.Foreign}); err != nil {
		unrecognised(err, m)
		return t
	}

	engines.UseLibrary(w.Options, cmp.Or(t.Manifest, new(keyspace.Manifest)).Overrides)
	t.Engine = engines.Find(name)
	if t.Foreign && t.Engine != nil && !t.Engine.Info().Has(engine.CanReadForeign) {
		m.At("engine", name, "of %s, only databases that statelab loaded are read. Measure one "+
			"like it: statelab load --engine %s --db NEW --keys N", name, name)
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

// unrecognised says what to do about a directory whose engine is not known, or cannot read it.
func unrecognised(err error, m *setting.Mistakes) {
	not, is := errors.AsType[*engine.NotADatabaseError](err)
	if !is {
		m.Add("%v", err)
		return
	}

	if not.Remedy != "" {
		m.Unread("", "", "no database was found in %s: %s; %s", not.Dir, not.Why, not.Remedy)
		return
	}

	m.Unread("", "", "no database was found in %s: %s. For a geth node, give the path of "+
		"geth/chaindata; statelab load --db DIR makes a new database",
		not.Dir, not.Why)
}

// nodeProfile is what a node would open the database with: geth's options where
// the engine has them, the first if there are several.
func nodeProfile(e engine.Engine) string {
	profiles := e.Info().Profiles
	for _, p := range profiles {
		if p.Client == string(clients.Geth) {
			return p.Name
		}
	}
	return profiles[0].Name
}

// stored refuses an option that applies when data is written, with another value than the
// database was written with; otherwise is a way to measure all the values.
func (t Target) stored(m *setting.Mistakes, otherwise, name string, values ...string) {
	if t.Engine == nil || !t.Engine.Info().AppliesAtWrite(name) {
		return
	}

	wrote, with := "statelab did not write "+t.Dir, "load a database"
	if t.Manifest != nil {
		loaded, given := t.Manifest.Overrides[name]
		if given &&
			!slices.ContainsFunc(values, func(value string) bool {
				return !sameValue(value, loaded)
			}) {
			return
		}

		wrote, with = t.Dir+" was loaded with "+name+"="+loaded, "load another database"
		if !given {
			wrote = t.Dir + " was loaded with that of profile " + t.Manifest.Profile
		}
	}

	set := name + "=" + strings.Join(values, ",")
	m.At("set", set, "%s applies when data is written, and %s: remove %s, or %s: statelab load "+
		"--db NEW --set %s=%s%s", name, wrote, m.Name("set", name), with,
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

// JudgeCeiling marks the disk's limit in the folder of the results if what was measured contradicts
// it.
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

	if d.FindContradiction(measured...) == "" {
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
