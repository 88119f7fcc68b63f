package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
)

// target is a database and the engine and profile to read it with.
type target struct {
	engine   engine.Engine
	manifest *keyspace.Manifest
	foreign  bool
}

// target finds out what --db holds and which engine reads it.
func (a *app) target(f *flags, m *mistakes) (t target) {
	if f.DB == "" && subject.KeepsNothing(string(f.Engine)) {
		f.DB = "." // it opens nothing
	}
	if f.DB == "" {
		m.add("--db is missing: name a database (statelab load --db DIR makes one)")
		return t
	}
	if isFile(f.DB) {
		m.add("--db: %v", cmp.Or(dbformat.File(f.DB), fmt.Errorf("%s is a file: name the folder of a database", f.DB)))
		return t
	}
	if _, err := os.Stat(f.DB); err != nil && f.elsewhere() { // the node that has it looks at it
		t.engine = a.engine(cmp.Or(f.Engine.First(), subject.DefaultEngine()), m)
		return t
	}
	if !m.database(f.DB) {
		return t
	}
	manifest, err := keyspace.ReadManifest(f.DB)
	switch {
	case err == nil:
		t.manifest = manifest
	case !errors.Is(err, keyspace.ErrNoManifest):
		m.cannotRead("--db: %v", err)
		return t
	default:
		t.foreign = !subject.KeepsNothing(string(f.Engine))
	}
	name := string(f.Engine)
	if name == "" && t.manifest != nil {
		name = t.manifest.Engine
	}
	if t.foreign {
		found, err := dbformat.Recognise(f.DB)
		if err != nil && (name == "" || subject.IsPebble(name)) {
			m.unrecognised(err)
			return t
		}
		name = cmp.Or(name, found.Engine)
		if !f.Existing {
			m.add("--db %s: statelab did not load this database. Add --use-existing to read it; it is never written to", f.DB)
		}
	}
	if !slices.Contains(a.tables.engines.names(), name) {
		if a.engine(name, m) == nil { // it said which there are
			return t
		}
	}
	if err := dbformat.Check(name, engine.Options{Dir: f.DB, ReadOnly: f.ReadOnly || f.onlyLooks || t.foreign}); err != nil {
		m.add("%v", err)
		return t
	}
	a.tellLibrary(m, m.overrides(f.allOptions()), t.overrides())
	t.engine = a.engine(name, m)
	if t.foreign && t.engine != nil && !t.engine.Info().Has(engine.CanReadForeign) {
		m.add("--engine %s: it cannot read another program's database without changing it", name)
	}
	m.settings(f, t)
	return t
}

// settings chooses the profile that f does not name and checks what f overrides of what t stores.
func (m *mistakes) settings(f *flags, t target) {
	if t.foreign && t.engine != nil && f.Profile == "" {
		f.Profile = experiment.List(nodeProfile(t.engine))
	}
	if f.Profile == "" && t.manifest != nil && (f.Engine == "" || string(f.Engine) == t.manifest.Engine) {
		f.Profile = experiment.List(t.manifest.Profile)
	}
	for name, value := range m.overrides(f.allOptions()) {
		m.stored(f, t, name, value)
	}
}

// stored refuses an option that applies when data is written, with another value than the
// database was written with.
func (m *mistakes) stored(f *flags, t target, name string, values ...string) {
	if t.engine == nil || !t.engine.Info().Stores(name) {
		return
	}
	wrote, with := "statelab did not write "+f.DB, "load a database"
	if t.manifest != nil {
		loaded, given := t.manifest.Overrides[name]
		if given && !slices.ContainsFunc(values, func(value string) bool { return !sameValue(value, loaded) }) {
			return
		}
		wrote, with = f.DB+" was loaded with "+name+"="+loaded, "load another database"
		if !given {
			wrote = f.DB + " was loaded with that of profile " + t.manifest.Profile
		}
	}
	m.add("--set %s=%s: %s applies when data is written, and %s: remove --set %s, or %s: statelab load --db NEW --set %s=%s%s", name,
		strings.Join(values, ","), name, wrote, name, with, name, values[len(values)-1],
		map[bool]string{true: " (sweep with --keys in place of --db makes one for each value)"}[f.Measure == experiment.Sweep])
}

// sameValue compares values of options as texts or as sizes, such as 4KiB and 4096.
func sameValue(a, b string) bool {
	x, errX := unit.ParseBytes(unit.WithUnit(a))
	y, errY := unit.ParseBytes(unit.WithUnit(b))
	return a == b || errX == nil && errY == nil && x == y
}

// unrecognised says what to do about a directory whose engine is not known.
func (m *mistakes) unrecognised(err error) {
	if not, is := errors.AsType[*engine.NotADatabaseError](err); is {
		err = fmt.Errorf("no database was found in %s: %s. For a geth node, give the path of geth/chaindata; statelab load --db DIR makes a new database",
			not.Dir, not.Why)
	}
	m.cannotRead("%v", err)
}

// readable reports a path that is not there, as it was typed.
func (m *mistakes) readable(flag, path string) bool {
	return m.present(flag, path, engine.CodeNotFound)
}

// database is readable for the path of a database.
func (m *mistakes) database(path string) bool {
	return m.present("--db: ", path, engine.CodeNoDatabase)
}

func (m *mistakes) present(flag, path string, missing engine.Code) bool {
	_, err := os.Stat(path)
	if err == nil {
		return true
	}
	if at, is := errors.AsType[*fs.PathError](err); is {
		err = at.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = engine.Fail(missing, "%w", err)
	}
	m.cannotRead("%s%s: %v", flag, path, err)
	return false
}

// outside refuses a folder inside a database.
func (m *mistakes) outside(flag, dir string) {
	if err := output.OutsideDatabases(dir); err != nil {
		m.add("%s: %v", flag, err)
	}
}

// newFile checks the path of a file to make; force, where the verb has that flag,
// lets it replace one.
func (m *mistakes) newFile(flag, path string, force *bool) string {
	err := output.File(path, replaces(force))
	var exists output.ExistsError
	switch {
	case errors.As(err, &exists) && force != nil:
		m.add("%s%v, or add --force to replace it", flag, err)
	case err != nil:
		m.add("%s%v", flag, err)
	}
	return absolute(path)
}

// newFolder checks --out of a verb that makes a whole folder.
func (m *mistakes) newFolder(out, example string) string {
	if out == "" {
		m.add("--out is missing: name a new folder (example: --out %s)", example)
	} else if err := output.NewFolder(out); err != nil {
		m.add("--out: %v", err)
	}
	return absolute(out)
}

func replaces(force *bool) output.Replaces {
	if force != nil && *force {
		return output.Anything
	}
	return nil
}

// overrides are those the database was loaded with.
func (t target) overrides() map[string]string {
	if t.manifest == nil {
		return nil
	}
	return t.manifest.Overrides
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

func (m *mistakes) count(flag, text string) uint64 {
	n, err := unit.ParseCount(text)
	if err != nil {
		m.add("--%s: %v", flag, err)
	}
	return n
}

func (m *mistakes) atLeastOne(flag, text, example string) uint64 {
	n, err := unit.ParseCount(text)
	switch {
	case err != nil:
		m.add("--%s: %v", flag, err)
	case n == 0:
		m.add("--%s %s: must be at least 1 (example: %s)", flag, text, example)
	}
	return n
}

func (m *mistakes) threads(text string) int { return m.upTo("threads", text, 4096, "8") }

// upTo reads a number from 1 to most.
func (m *mistakes) upTo(flag, text string, most int, example string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		m.add("--%s %q: must be from 1 to %d (example: %s)", flag, text, most, example)
		return 1
	}
	return n
}

func (m *mistakes) number(flag, text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= math.MaxFloat64) {
		m.add("--%s %q: must be a number that is not negative (example: 0.5)", flag, text)
	}
	return v
}

func (m *mistakes) share(flag, text string) float64 {
	share, ok, err := unit.ParsePercent(text)
	if err != nil || !ok || share > 1 {
		m.add("--%s %q: must be a share from 0%% to 100%% (example: 20%%)", flag, text)
		return 0
	}
	return share
}

// rate reads 20k or 20k/s.
func (m *mistakes) rate(flag, text string) float64 {
	n, err := unit.ParseCount(strings.TrimSuffix(text, "/s"))
	if err != nil {
		m.add("--%s %q: must be a number of operations per second (example: 20k)", flag, text)
	}
	return float64(n)
}

func (m *mistakes) seed(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		m.add("--seed %q: must be a whole number (example: 1)", text)
	}
	return n
}

func (m *mistakes) overrides(set []string) map[string]string {
	overrides := map[string]string{}
	for _, text := range set {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			m.add("--set %q: must be Name=Value (example: MemTableSize=64MiB)", text)
			continue
		}
		overrides[name] = value
	}
	return overrides
}

// warmup reads auto, a count, or a share of the keys.
func (m *mistakes) warmup(spec *bench.Spec, text string, keys uint64) {
	if text == "auto" {
		spec.WarmupAuto, spec.WarmupRule = true, "auto"
		return
	}
	share, ok, err := unit.ParsePercent(text)
	switch {
	case err != nil:
		m.add("--warmup: %v", err)
	case ok:
		spec.WarmupGets, spec.WarmupRule = uint64(share*float64(keys)), text+" of the keys"
	default:
		n, err := unit.ParseCount(text)
		if err != nil {
			m.add("--warmup %q: must be auto, a number such as 100k, or a share of the keys such as 0.05%%", text)
		}
		spec.WarmupGets, spec.WarmupRule = n, "a count"
	}
}

// allOptions are the engine's, of which the table is one: a name, several as an axis, or a mix
// of several in proportions, which no comma may divide.
func (f *flags) allOptions() []string {
	if f.Table == "" {
		return f.Options
	}
	table := f.Table
	if strings.Contains(table, "=") {
		table = strings.ReplaceAll(table, ",", adapter.MixSeparator)
	}
	return append(slices.Clone(f.Options), "table="+table)
}

// readSpec turns the flags of sweep into the spec that points share.
// Axes (cache, threads, handles, engine, profile) are set by the caller.
func (a *app) readSpec(f *flags, t target, m *mistakes) bench.Spec {
	spec := bench.Spec{
		Schema: bench.SpecSchema, Verb: bench.Read, Command: a.command(), Dir: absolute(f.DB), Profile: string(f.Profile), Overrides: m.overrides(f.allOptions()),
		ReadOnly: f.ReadOnly || t.foreign, Foreign: t.foreign, IgnoreLock: f.IgnoreLock, PageCache: string(f.PageCache),
		Workload: f.Workload, Seed: m.seed(f.Seed), Gets: m.atLeastOne("gets", f.Gets, "500k"), MissingShare: m.share("missing", f.Missing),
		ZipfTheta: m.number("zipf", f.Zipf), SampleKeys: int(m.atLeastOne("sample-keys", f.SampleKeys, "200k")),
		Writers: int(m.atLeastOne("writers", f.Writers, "1")), WriteRate: m.rate("write-rate", f.WriteRate), Puts: m.atLeastOne("puts", f.Puts, "1M"),
		BatchKeys: int(m.atLeastOne("batch", f.Batch, "1000")), AccessGets: m.count("access-gets", f.AccessGets),
	}
	if f.Accesses != "" {
		m.accessList(f.Accesses)
		m.oneOf("scheme", f.KeyScheme, accesses.KeySchemes()...)
		if !t.foreign && m.err() == nil {
			m.add("--accesses %s: an access list needs a client's database: add --db DIR and --use-existing", f.Accesses)
		}
		if f.Workload != workload.ReadRandom || spec.MissingShare > 0 || spec.ZipfTheta > 0 || f.Table != "" {
			m.add("--accesses %s: the list chooses the keys: remove --workload, --missing, --zipf and --table", f.Accesses)
		}
		spec.AccessList, spec.KeyScheme = absolute(f.Accesses), f.KeyScheme
	}
	if t.engine != nil {
		spec.Engine = t.engine.Info().Name
		if spec.Profile == "" {
			spec.Profile = t.engine.Info().Profiles[0].Name
		}
	}
	keys := uint64(spec.SampleKeys)
	if t.manifest != nil {
		keys = t.manifest.Keys
		for name, value := range t.manifest.Overrides {
			spec.Overrides[name] = cmp.Or(spec.Overrides[name], value)
		}
	}
	m.warmup(&spec, f.Warmup, keys)
	m.oneOf("page-cache", string(f.PageCache), bench.PageCacheModes()...)
	m.oneOf("workload", f.Workload, verbWorkloads("sweep")...)
	switch f.Workload {
	case workload.ReadMissing:
		spec.MissingShare = 1
	case workload.MultiReadRandom:
		m.batches(&spec, f)
	case workload.Overwrite, workload.ReadWhileWriting:
		if t.foreign || f.ReadOnly {
			m.add("--workload %s writes to the database: remove --use-existing and --read-only", f.Workload)
		}
	}
	if spec.BatchGets == 0 {
		for _, s := range experiment.New(f.Measure).Batches(&f.Experiment) {
			m.add("--%s: only with --workload %s", s, workload.MultiReadRandom)
		}
	}
	m.addAll("", workload.Choice{Keys: keys, MissingShare: spec.MissingShare, ZipfTheta: spec.ZipfTheta}.Check())
	return spec
}

// batches reads the settings of multireadrandom; where they are axes, the first values.
func (m *mistakes) batches(spec *bench.Spec, f *flags) {
	for _, s := range []struct {
		axis  string
		value experiment.List
	}{{sweep.BatchGetsAxis, f.BatchGets}, {sweep.BatchOrderAxis, f.BatchOrder}, {sweep.InFlightAxis, f.InFlight}} {
		set, err := sweep.SettingOf(s.axis, s.value.First())
		if err != nil && !f.axes { // an axis is checked with the others
			m.add("--%s: %v", s.axis, err)
		}
		spec.BatchGets, spec.BatchSorted, spec.InFlight = max(spec.BatchGets, set.BatchGets), spec.BatchSorted || set.BatchOrder == sweep.SortedOrder,
			max(spec.InFlight, set.InFlight)
	}
	if f.Rate != "0" {
		m.add("--rate: not with --workload %s, which sends a batch only after the one before it was answered", workload.MultiReadRandom)
	}
}

func verbWorkloads(verb string) (names []string) {
	for _, w := range workload.All() {
		if w.Verb == verb {
			names = append(names, w.Name)
		}
	}
	return names
}

// checkOptions asks the engine what it thinks of the profile and of the options
// on top of it.
func (m *mistakes) checkOptions(e engine.Engine, spec bench.Spec) {
	if e == nil {
		return
	}
	if wrong := e.Check(engine.Options{Profile: spec.Profile}); len(wrong) > 0 {
		m.addAll("profile", wrong)
		spec.Profile = ""
	}
	info := e.Info()
	if spec.MemoryBytes > 0 && !info.Has(engine.CanBudget) {
		m.add("--memory: %s does not support a memory budget: use --cache", info.Name)
		spec.MemoryBytes = 0
	}
	if spec.PageCache == bench.Direct && !info.Has(engine.CanDirect) {
		m.add("--page-cache direct: %s cannot bypass the page cache: use --page-cache cold", info.Name)
		spec.PageCache = bench.Cold
	}
	options := engine.Options{Dir: spec.Dir, Profile: spec.Profile, CacheBytes: spec.CacheBytes, MemoryBytes: spec.MemoryBytes, Handles: spec.Handles,
		ReadOnly: spec.ReadOnly, Foreign: spec.Foreign, Direct: spec.PageCache == bench.Direct}
	wrong := e.Check(options)
	m.addAll("", wrong)
	if options.Overrides = spec.Overrides; len(wrong) == 0 && len(spec.Overrides) > 0 {
		m.addAll("set", e.Check(options))
	}
}

// list splits a value that may be an axis.
func list(text string) []string { return experiment.List(text).Values() }

// values splits a list that must not be empty.
func (m *mistakes) values(flag, text, example string) []string {
	values := list(text)
	if len(values) == 0 {
		m.add("--%s is empty (example: %s)", flag, example)
	}
	return values
}

func (m *mistakes) cacheSize(spec *bench.Spec, text string) (share float64) {
	if text == "" {
		return 0
	}
	bytes, share, err := sweep.ParseCache(text)
	if err != nil {
		m.add("--cache: %v", err)
	}
	spec.CacheAsked, spec.CacheBytes = text, bytes
	return share
}

func (m *mistakes) handles(text string) int {
	if text == "" {
		return 0
	}
	return int(m.atLeastOne("handles", text, "1000"))
}

// outFolder is where results go: --out, or a new folder.
func outFolder(out, verb string) string {
	if out != "" {
		return absolute(out)
	}
	return absolute(filepath.Join("statelab-runs", verb+"-"+time.Now().UTC().Format("20060102-150405.000")))
}

// refuseOther keeps results from being mixed with a folder's other contents.
func refuseOther(dir string) error {
	if err := output.Folder(dir); err != nil {
		return usage("--out: %v", err)
	}
	return nil
}

// listenAddress reads where to listen: on this machine only, unless a host is
// given.
func (m *mistakes) listenAddress(flag, text string) string {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		m.add("--%s %q: must be an address (examples: :9464 for this machine only, 0.0.0.0:9464)", flag, text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func absolute(path string) string {
	if path == "" {
		return ""
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path // no working directory: the path as typed is the best there is
	}
	return full
}

// command is what to type to do this again.
func (a *app) command() []string { return append([]string{"statelab"}, a.args...) }

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
