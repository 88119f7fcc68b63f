package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/evidence"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Comparison is what inspect --as says of a database, with --json too.
type Comparison struct {
	Schema string `json:"schema"`
	Source string `json:"source"`
	// the other database; "": a node's usual shape
	Beside     string             `json:"beside,omitempty"`
	Engine     string             `json:"engine"`
	Client     string             `json:"client,omitempty"`
	CacheBytes int64              `json:"cache_bytes"` // 0: none
	Basis      string             `json:"basis"`       // what block reads are counted
	Tables     []fidelity.Verdict `json:"tables"`
	// Filters are those that Gets do not consult; nil: they consult all that they pass.
	Filters  *advice.FilterUse `json:"filters,omitempty"`
	Warnings []engine.Warning  `json:"warnings,omitempty"`
	// Verdict says what of the node that has one of the databases open is not known; "": none has.
	Verdict string `json:"verdict,omitempty"`

	filters string // what Filters says
}

// Wish is how the reads of a comparison are counted.
type Wish struct {
	CacheBytes int64 // or, if CacheShare is not 0, a share of the database; neither: the node's own
	CacheShare float64
	Missing    float64
	Seed       uint64
}

// side is a database that was looked at, and its tables.
type side struct {
	run    *result.Run
	tables []fidelity.Table
}

// sideOf is the side of a database; table names its only table that counts, "" all.
func sideOf(dir string, run *result.Run, table string) (side, error) {
	tables, err := Tables(run)
	if err == nil {
		tables, err = OnlyTable(tables, table, dir)
	}

	of, _ := subject.EngineOf(run.Engine.Name)
	for _, t := range tables {
		if err == nil && !of.BlockTables { // whose comparison is of data blocks alone
			err = advise.OnlyLevels(dir, t.Values)
		}
	}

	return side{run, tables}, err
}

// Compare tells in what the database in the first folder differs from a node's usual shape or, if
// there is one, from that in the second, and what each difference costs. table names the only one
// of their tables that counts, "" all.
func Compare(
	ctx context.Context, dirs []string, table string,
	inspect func(dir string) (*result.Run, error), wish Wish,
) (*Comparison, error) {
	var sides []side
	for _, dir := range dirs {
		run, err := inspect(dir)
		if err != nil {
			return nil, err
		}

		s, err := sideOf(dir, run, table)
		if err != nil {
			return nil, err
		}

		sides = append(sides, s)
	}

	a := sides[0]
	out := &Comparison{Schema: schema.Fidelity, Source: dirs[0], Engine: a.run.Engine.Name,
		Warnings:   OfAllTables(a.run.Warnings),
		CacheBytes: wish.CacheBytes}
	if format, err := dbformat.Recognise(a.run.Database.Dir); err == nil &&
		a.run.Database.Written == "foreign" {
		out.Client = dbformat.Client(a.run.Database.Dir, format, a.run.Database.Tables).Name()
	}

	var beside []fidelity.Table
	if len(sides) > 1 {
		b := sides[1]
		own, other := a.run.Engine.Name, b.run.Engine.Name
		if subject.Family(own) != subject.Family(other) {
			return nil, engine.Fail(engine.CodeUsage, "%s is a database of %s, and %s of %s: "+
				"their levels cannot be compared", dirs[0], own, dirs[1], other)
		}

		out.Beside, beside = dirs[1], b.tables
	}

	if wish.CacheShare > 0 {
		out.CacheBytes = max(1, int64(wish.CacheShare*float64(Bytes(a.run.Database))))
	}

	price, err := out.pricing(ctx, a.run, wish.Missing, wish.Seed)
	if err != nil {
		return nil, err
	}

	if out.Tables, err = fidelity.JudgeAll(a.tables, beside, price); err != nil {
		return nil, fmt.Errorf("%s: %w", dirs[0], err)
	}

	out.Filters, out.filters, err = filterUse(ctx, a.run, table, &wish, out.CacheBytes)
	return out, err
}

// Differences are those of all tables.
func (out *Comparison) Differences() (n int) {
	for _, t := range out.Tables {
		n += len(t.Differences)
	}
	return n
}

// Bytes are those of all tables.
func Bytes(d result.Database) (bytes int64) {
	for _, t := range d.Tables {
		if len(t.Levels) > 0 {
			bytes += t.Bytes
		}
	}
	return max(bytes, d.Bytes)
}

// onlyFamily is the column family of a database of RocksDB whose owner made none.
const onlyFamily = "default"

// Tables are the tables of a database that have levels; one without a name where the
// database is not divided.
func Tables(run *result.Run) (tables []fidelity.Table, err error) {
	d := run.Database
	var options map[string]fidelity.Options
	e, _ := subject.EngineOf(run.Engine.Name)
	if e.ReadsOptions {
		if options, err = rocksOptions(d.Dir); err != nil {
			return nil, err
		}
	}

	for _, t := range d.Tables {
		if t.Files > 0 || e.ReadsOptions {
			tables = append(tables, fidelity.Table{
				Name:    t.Name,
				Keys:    t.Keys,
				Bytes:   t.Bytes,
				Levels:  t.Levels,
				Options: options[t.Name],
				Values:  t.Values,
			})
		}
	}

	if len(tables) > 0 {
		return tables, nil
	}

	if len(d.Levels) == 0 {
		return nil, fmt.Errorf("%s, a database of %s, has no levels: --as compares LSM trees "+
			"(Pebble, RocksDB, LevelDB)", d.Dir, run.Engine.Name)
	}

	one := fidelity.Table{
		Bytes:   d.Bytes,
		Levels:  d.Levels,
		Options: options[onlyFamily],
		Values:  d.Values,
	}

	for _, l := range d.Levels {
		one.Keys += l.Keys
	}

	return []fidelity.Table{one}, nil
}

// OnlyTable is the table of a name; no name: all.
func OnlyTable(tables []fidelity.Table, name, dir string) ([]fidelity.Table, error) {
	if name == "" {
		return tables, nil
	}

	var names []string
	for _, t := range tables {
		if unit.Is(t.Name, name) {
			return []fidelity.Table{t}, nil
		}
		names = append(names, t.Name)
	}

	if slices.Equal(names, []string{""}) {
		return nil, engine.Fail(engine.CodeUsage, "--table %s: %s is a single table: leave "+
			"--table out", name, dir)
	}

	return nil, engine.Fail(engine.CodeUsage, "--table %s: %s has no such table (tables: %s)", name,
		dir, strings.Join(names, ", "))
}

// Chosen is the table of a name, or the largest of all.
func Chosen(run *result.Run, name string) (chosen fidelity.Table, err error) {
	tables, err := Tables(run)
	if err == nil {
		tables, err = OnlyTable(tables, name, run.Database.Dir)
	}
	if err != nil {
		return chosen, err
	}
	return largestOf(tables), nil
}

func largestOf(tables []fidelity.Table) fidelity.Table {
	return slices.MaxFunc(tables, func(a, b fidelity.Table) int {
		return cmp.Compare(a.Bytes, b.Bytes)
	})
}

// rocksOptions are those of the newest OPTIONS file by column family; none without a file.
func rocksOptions(dir string) (map[string]fidelity.Options, error) {
	name, sections, err := optionsfile.Read(dir)
	if err != nil || name == "" {
		return nil, err
	}

	options, err := fidelity.ParseRocksDB(sections, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}

	return options, nil
}

// pricing says how block reads are counted: for Pebble by a simulation of its cache, for other
// engines by the data blocks alone.
func (out *Comparison) pricing(
	ctx context.Context, run *result.Run, missing float64, seed uint64,
) (func(fidelity.Table) fidelity.Price, error) {
	if !subject.Descriptor(run.Engine.Name).SimulatesLevels() {
		out.Basis = "data blocks, with filters and indexes in memory and no data block in the cache"
		if out.CacheBytes > 0 {
			out.Basis = fmt.Sprintf("data blocks, with filters and indexes in memory and a cache "+
				"of %s for data blocks", unit.Bytes(out.CacheBytes))
		}

		if run.Database.Values != nil ||
			slices.ContainsFunc(run.Database.Tables, func(t engine.Table) bool {
				return t.Values != nil
			}) {
			out.Basis += "; reads of values in blob files come on top"
		}

		return func(fidelity.Table) fidelity.Price {
			return func(levels []engine.Level) (float64, error) {
				return fidelity.Reads(levels, missing, out.CacheBytes)
			}
		}, nil
	}

	cacheBytes, source, err := pebbleCache(run, out.CacheBytes)
	if err != nil {
		return nil, err
	}

	out.CacheBytes = cacheBytes
	out.Basis = fmt.Sprintf("all blocks, with a cache of %s (%s)", unit.Bytes(out.CacheBytes),
		source)
	in := pebbleReads(run, out.CacheBytes)
	in.AbsentShare, in.Seeds = missing, []uint64{seed}
	price := fidelity.Mixed(func(levels []engine.Level) (float64, error) {
		return steadyReads(ctx, in, levels)
	})
	return func(fidelity.Table) fidelity.Price { return price }, nil
}

// pebbleCache is the cache for which reads are counted, the one that is asked for if there is any,
// and why.
func pebbleCache(run *result.Run, asked int64) (bytes int64, source string, err error) {
	settings, err := evidence.SettingsOf(run)
	switch i := lsm.Inflect(run.Database.Levels, nil, 0); {
	case err != nil:
		return 0, "", err
	case asked > 0:
		return asked, "--cache", nil
	case run.Database.Written != "foreign" && i.IP2.CacheBytes > 0:
		// no client uses the cache of a profile
		return i.IP2.CacheBytes + AtRest(run), "what its filters and indexes need; --cache sets " +
			"another", nil
	}

	return settings.CacheBytes, settings.Source, nil
}

// pebbleReads predict what Gets read of a database of Pebble with a cache; the levels are still to
// be set.
func pebbleReads(run *result.Run, cacheBytes int64) predict.Input {
	// as read opens it
	reserve, err := pebbledb.OpenReserveBytes(run.Engine.Name, run.Engine.Profile, cacheBytes,
		run.Database.Written == "foreign")
	if err != nil {
		reserve = predict.OpenReserve
	}

	return predict.Input{
		Version:       subject.PebbleVersion(run.Engine.Name),
		Cores:         run.Host.Cores,
		Seeds:         []uint64{1},
		CacheBytes:    []int64{cacheBytes},
		ReservedBytes: reserve,
		WarmupGets:    pricedGets,
		Gets:          pricedGets,
	}
}

// steadyReads are block reads per Get of a cache that has been in use for long.
func steadyReads(ctx context.Context, in predict.Input, levels []engine.Level) (float64, error) {
	in.Levels = levels
	points, err := predict.Run(ctx, in)
	if err != nil {
		return 0, err
	}
	return points[0].SteadyState, nil
}

// pricedGets are simulated before the cache's steady state is looked for.
const pricedGets = 200_000

// Document says what differs, and what each difference costs.
func (out *Comparison) Document() *doc.Document {
	d := &doc.Document{
		Title:    "The shape of " + out.Source,
		Warnings: doc.Detailed(doc.WarningsOf(out.Warnings)),
	}

	d.Answer("", doc.Without([]string{out.sentence(), out.filters})...)
	for _, warning := range out.Warnings {
		if InAnswer(warning) {
			d.Answer("",
				fmt.Sprintf("All of this is about tables, and a Get reads less than they tell: "+
					"%s. To compare the whole, %s.",
					warning.Text, warning.Remedy))
		}
	}

	d.Add("Tables", doc.Block{
		Title: "Tables",
		Table: out.table(),
		Texts: doc.Without([]string{"Block reads: " + out.Basis + ".", out.Verdict}),
	})

	for _, t := range out.Tables {
		d.Add(cmp.Or(t.Name, "Differences"),
			doc.Each(t.Differences, func(one fidelity.Difference) doc.Block {
				return differenceBlock(t.Name, one)
			})...)
	}

	return d
}

// sentence says in how many things the database differs.
func (out *Comparison) sentence() string {
	than := "a long-running node's shape"
	if out.Beside != "" {
		than = "the shape of " + out.Beside
	}

	var small []fidelity.Verdict
	told := 0 // tables whose shape can be told
	for _, t := range out.Tables {
		switch {
		case t.TooSmall > 0:
			small = append(small, t)
		case t.Keys > 0:
			told++
		}
	}

	differences := out.Differences()
	if len(small) > 0 && told == 0 && differences == 0 {
		return fmt.Sprintf("%s is too small to tell whether it has %s: with less than about %s "+
			"all of its keys lie in one level, "+
			"and those of a node lie in several. Load more keys.", out.Source, than,
			unit.Bytes(small[0].TooSmall))
	}

	text := fmt.Sprintf("%s has %s: no difference found", out.Source, than)
	if differences > 0 {
		text = fmt.Sprintf("%s between %s and %s", unit.Plural(differences, "difference"),
			out.Source, than)
	}

	if len(small) > 0 {
		text += fmt.Sprintf("; too small for the sizes of levels to tell, below about %s: %s",
			unit.Bytes(small[0].TooSmall),
			doc.List(small, func(t fidelity.Verdict) string { return cmp.Or(t.Name, "the table") }))
	}

	return text + "."
}

// differenceBlock is one difference of a table.
func differenceBlock(table string, d fidelity.Difference) doc.Block {
	title := d.Kind
	if table != "" {
		title = table + ", " + title
	}

	effect := signed(d.Extra) + " block reads per Get because of this"
	if math.Abs(d.Extra) < 0.0005 {
		effect = "no effect on block reads per Get with this cache"
	}

	return doc.Block{Facts: doc.Known([][2]string{{"difference", title + ": " + effect},
		{"here", d.Here}, {"expected", d.Expected}, {"remedy", d.Remedy}})}
}

// InAnswer reports whether a warning is a part of the answer, since it changes what that means.
func InAnswer(w engine.Warning) bool { return w.Code == engine.UnflushedLog }

func signed(v float64) string {
	if v > 0 {
		return "+" + unit.Significant(v, 3)
	}
	return unit.Significant(v, 3)
}

// table is every table with what its Gets read.
func (out *Comparison) table() doc.Table {
	type column = doc.Column[fidelity.Verdict]
	words := func(name, unitName string, of func(fidelity.Verdict) string) column {
		return column{Name: name, Unit: unitName, Words: func(t fidelity.Verdict) string {
			if t.Keys == 0 {
				return ""
			}
			return of(t)
		}}
	}

	filtered := func(name, unitName, format string, of func(fidelity.Verdict) float64) column {
		return words(name, unitName, func(t fidelity.Verdict) string {
			if t.FilterBits == 0 && t.SortedRuns < 2 { // there is no level that needs filters
				return ""
			}
			return fmt.Sprintf(format, of(t))
		})
	}

	return doc.TableOf(out.Tables, nil,
		column{
			Name:  "entries",
			Words: func(t fidelity.Verdict) string { return unit.Count(t.Keys) },
		},
		column{Name: "size", Words: func(t fidelity.Verdict) string { return unit.Bytes(t.Bytes) }},
		words("sorted", "runs",
			func(t fidelity.Verdict) string { return fmt.Sprint(t.SortedRuns) }),
		filtered("filtered", "keys", "%.0f%%", func(t fidelity.Verdict) float64 {
			return t.FilteredPercent
		}),
		filtered("bits", "/key", "%.0f", func(t fidelity.Verdict) float64 { return t.FilterBits }),
		words("block", "", func(t fidelity.Verdict) string {
			return unit.Bytes(int64(t.BlockBytes))
		}),
		words("reads here", "/Get", func(t fidelity.Verdict) string {
			return fmt.Sprintf("%.3f", t.ReadsPerGet)
		}),
		words("expected", "/Get", func(t fidelity.Verdict) string {
			if t.TooSmall > 0 && len(t.Differences) == 0 {
				return ""
			}
			return fmt.Sprintf("%.3f", t.ExpectedReadsPerGet)
		}),
		doc.Words("table", func(t fidelity.Verdict) string { return t.Name }))
}

// Conformity is what inspect --as PROFILE says of a database, with --json too: its options beside
// those of a profile, such as a client's.
type Conformity struct {
	Schema  string       `json:"schema"`
	Source  string       `json:"source"`
	Engine  string       `json:"engine"`
	Profile string       `json:"profile"`
	File    string       `json:"file"` // where the options stand
	Options []OptionPair `json:"options"`
	// Filters are those that Gets do not consult; nil: they consult all that they pass.
	Filters *advice.FilterUse `json:"filters,omitempty"`

	filters string // what Filters says
}

// OptionPair is an option that matters for reads.
type OptionPair struct {
	Part    string `json:"part"` // column family, or level
	Name    string `json:"name"`
	Here    string `json:"here"`
	Profile string `json:"profile"`
	Differs bool   `json:"differs"`
}

// IsProfile reports whether a name is that of a profile of an engine whose databases name their
// options.
func IsProfile(name string) bool {
	if name == "" {
		return false
	}
	_, err := rocksoptions.Find(name)
	return err == nil ||
		slices.ContainsFunc(pebbledb.Profiles(), func(p pebbledb.Profile) bool {
			return p.Name == name
		})
}

// AsProfile compares the OPTIONS file of a database with a profile; table names the only column
// family that counts, "" those that the profile is about.
func AsProfile(
	ctx context.Context, dir string, run *result.Run, profile, table string,
) (*Conformity, error) {
	file, sections, err := optionsfile.Read(dir)
	if err != nil {
		return nil, err
	}

	if file == "" {
		return nil, engine.Fail(engine.CodeUnsupported, "%s has no OPTIONS file, so its options "+
			"are not known", dir)
	}

	out := &Conformity{Schema: schema.Conformity, Source: dir, Engine: run.Engine.Name,
		Profile: profile, File: file, Options: []OptionPair{}}
	if e, _ := subject.EngineOf(run.Engine.Name); e.BlockTables {
		err = out.families(sections, table)
	} else {
		err = out.levels(sections)
	}

	if err == nil && len(out.Options) == 0 {
		err = engine.Fail(engine.CodeUsage, "%s: no column family is one of those of the profile "+
			"%s: name one with --table", dir, profile)
	}

	if err != nil {
		return nil, err
	}

	out.Filters, out.filters, err = filterUse(ctx, run, table, nil, 0)
	return out, err
}

func (out *Conformity) families(sections []optionsfile.Section, table string) error {
	layout, err := rocksoptions.Find(out.Profile)
	if err != nil {
		return engine.Fail(engine.CodeUsage, "--as: %v", err)
	}

	here := map[string]map[string]string{}
	for _, s := range sections {
		if name := unit.Printable(s.Name); s.Kind == "CFOptions" ||
			s.Kind == "TableOptions/BlockBasedTable" {
			if here[name] == nil {
				here[name] = map[string]string{}
			}
			maps.Copy(here[name], s.Values)
		}
	}

	names := slices.Sorted(maps.Keys(here))
	if table != "" && here[table] == nil {
		return engine.Fail(engine.CodeUsage,
			"--table %s: %s has no such column family (families: %s)", table, out.Source,
			strings.Join(names, ", "))
	}

	for _, name := range names {
		if table != "" && name != table || table == "" && !layout.Has(name) {
			continue
		}

		for _, option := range rocksoptions.Compare(rocksoptions.Sanitize(here[name]),
			rocksoptions.Sanitize(layout.All(nil))) {
			out.Options = append(out.Options, OptionPair{name, option.Name, option.Here,
				option.There, option.Differs})
		}
	}

	return nil
}

func (out *Conformity) levels(sections []optionsfile.Section) error {
	s, errs := pebbledb.Resolve(pebbledb.Profiles(), engine.Options{Profile: out.Profile})
	if len(errs) > 0 {
		return engine.Fail(engine.CodeUsage, "--as: %v", errs[0])
	}

	want := s.Written(out.Engine)
	for _, section := range sections {
		part := strings.TrimSpace(section.Kind + " " + section.Name)
		for _, name := range slices.Sorted(maps.Keys(want[part])) {
			here := strings.ToLower(section.Values[name])
			out.Options = append(out.Options, OptionPair{part, name, here, want[part][name],
				here != want[part][name]})
		}
	}

	return nil
}

// Differences are the options that differ.
func (out *Conformity) Differences() (n int) {
	for _, o := range out.Options {
		if o.Differs {
			n++
		}
	}
	return n
}

// Document says which options differ.
func (out *Conformity) Document() *doc.Document {
	d := &doc.Document{Title: "The options of " + out.Source}
	n := out.Differences()
	if n == 0 {
		d.Answer("",
			fmt.Sprintf("%s has the options of %s: %s that matter for reads are the same (%s).",
				out.Source,
				out.Profile, unit.Plural(len(out.Options), "option"), out.File))
		d.Answer("", doc.Without([]string{out.filters})...)
		return d
	}

	d.Answer("",
		fmt.Sprintf("%s of %d that matter for reads between %s (%s) and the profile %s.",
			unit.Plural(n, "difference"),
			len(out.Options), out.Source, out.File, out.Profile))
	d.Answer("", doc.Without([]string{out.filters})...)

	differ := doc.Where(out.Options, func(o OptionPair) bool { return o.Differs })
	d.Add("Options that differ", doc.Block{Table: doc.ListOf(
		[]string{"of", "option", "here", "profile"},
		differ,
		func(o OptionPair) []string {
			return []string{o.Part, o.Name, cmp.Or(o.Here, "(not said)"),
				cmp.Or(o.Profile, "(not said)")}
		},
	)})

	return d
}

// AdviseRocksDB recommends a block cache for Gets of one column family, or of a mix of several:
// asked is what --table says, "" the largest. Sizes are 0 where they are not known; the present
// cache is found as that for a trace is, of a database of another program. The reads are those of a
// trace where the database can be traced, else of its levels; say tells why.
func AdviseRocksDB(
	ctx context.Context, dir string, run *result.Run, asked string,
	memoryBytes, configuredBytes int64, wish Wish, say func(format string, args ...any),
) (*advise.RocksAdvice, error) {
	tables, err := Tables(run)
	if err != nil {
		return nil, err
	}

	out := &advise.RocksAdvice{
		Source:      dir,
		Client:      RocksClient(run),
		MemoryBytes: memoryBytes,
		NowBytes:    wish.CacheBytes,
	}

	log := optionsfile.Log{}
	if run.Database.Written == "foreign" {
		log, _ = optionsfile.ReadLog(dir) // without a LOG, nothing is known of the caches
	}

	if wish.CacheShare > 0 {
		out.NowBytes = max(1, int64(wish.CacheShare*float64(Bytes(run.Database))))
	}
	out.NowBytes, out.NowSource = presentCache(log, out.NowBytes, configuredBytes)

	mix, values, err := choose(out, tables, asked, dir)
	if err != nil {
		return nil, err
	}

	var families []string
	for _, t := range out.Tables {
		families = append(families, cmp.Or(t.Name, onlyFamily))
	}

	if out.Filters, err = curve.FilterUse(dir, run.Engine.Name, families); err != nil {
		return nil, err
	}

	if err := traceRandomGets(ctx, out, dir, run, wish.Missing, wish.Seed); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		if err := advise.OnlyLevels(dir, values); err != nil {
			return nil, err
		}
		say("the database cannot be traced (%v): the prediction uses the sizes of its levels", err)
	}

	return out, out.Judge(tables, mix, wish.Missing)
}

// traceRandomGets lets the reads of out be those of a trace of random Gets.
func traceRandomGets(
	ctx context.Context, out *advise.RocksAdvice, dir string, run *result.Run, missing float64,
	seed uint64,
) error {
	var all []adapter.Portion
	for _, t := range out.Tables {
		all = append(all, adapter.Portion{Name: t.Name, Share: t.Share})
	}

	caches := map[int][]adapter.Portion{advise.Together: all}
	if out.Client == clients.Besu { // which has one for each family
		delete(caches, advise.Together)
		for i, f := range all {
			caches[i] = []adapter.Portion{{Name: f.Name, Share: 1}}
		}
	}

	owner := blockbased.Options{}
	if run.Database.Written != "foreign" { // its file tells what the last run of it was
		owner["max_open_files"], owner["use_direct_reads"] = "-1", "false"
	}

	draw := func(replaced blockbased.Options) (map[int]*curve.Steady, error) {
		traced := map[int]*curve.Steady{}
		for portion, families := range caches {
			s, err := curve.NewSteady(ctx, dir, run.Engine.Name, run.Engine.Version, families,
				missing, seed, replaced)
			if err != nil {
				return nil, err
			}
			traced[portion] = s
		}
		return traced, nil
	}

	reads := func(traced map[int]*curve.Steady) func(int, int64) (float64, error) {
		return func(portion int, cacheBytes int64) (float64, error) {
			return traced[portion].Reads(ctx, cacheBytes)
		}
	}

	traced, err := draw(owner)
	if err != nil {
		return err
	}

	for portion, s := range traced {
		share := 1.0
		if portion != advise.Together {
			share = all[portion].Share
		}

		out.Metadata = out.Metadata || s.Metadata
		out.ValueReadsPerGet += share * s.ValueReads
		out.UncachedReadsPerGet += share * s.Uncached
	}

	out.Reads = reads(traced)
	costly, err := costlyOptions(dir, all, traced)
	if err != nil {
		return err
	}

	if use := out.Filters; use != nil && use.Ignored() {
		out.Filters = nil
		costly = append(costly, withFilters(use))
	}

	for _, c := range costly {
		without := maps.Clone(owner)
		without[c.Option] = c.replacement
		traced, err := draw(without)
		if err != nil {
			return err
		}

		c.Reads = reads(traced)
		out.Costly = append(out.Costly, c.CostlyOption)
	}

	return nil
}

// costly is an option whose other value makes Gets read less.
type costly struct {
	advise.CostlyOption
	replacement string
}

// costlyOptions are the options of a database's owner that make Gets read what a block cache cannot
// spare.
func costlyOptions(
	dir string, families []adapter.Portion, traced map[int]*curve.Steady,
) (all []costly, err error) {
	for _, s := range traced {
		if o := s.OpenFiles; o.Enough > 0 {
			all = append(all, costly{advise.CostlyOption{
				Option:  "max_open_files",
				Value:   strconv.Itoa(o.Limit),
				Instead: fmt.Sprintf("-1, or at least %d", o.Enough),
				Why:     fmt.Sprintf("not all of %s stay open", unit.Plural(o.Tables, "table")),
			}, "-1"})
			break
		}
	}

	_, sections, err := optionsfile.Read(dir)
	if err != nil {
		return nil, err
	}

	for _, s := range sections {
		switch {
		case s.Kind == "DBOptions" && s.Values["allow_mmap_reads"] == "true":
			all = append(all, costly{advise.CostlyOption{
				Option:  "allow_mmap_reads",
				Value:   "true",
				Instead: "false",
				Why:     "the block cache holds no blocks that are not compressed",
			}, "false"})
		case s.Kind == "TableOptions/BlockBasedTable" && s.Values["no_block_cache"] == "true" &&
			slices.ContainsFunc(families, func(f adapter.Portion) bool {
				return cmp.Or(f.Name, "default") == unit.Printable(s.Name)
			}):
			all = append(all, costly{advise.CostlyOption{
				Option:  "no_block_cache",
				Value:   "true",
				Instead: "false",
				Why:     "there is no block cache, whatever size is set",
			}, "false"})
		}
	}

	return all, nil
}

// RocksClient is the client whose database was inspected.
func RocksClient(run *result.Run) clients.Client {
	if run.Database.Written != "foreign" {
		return clients.Statelab
	}
	client := dbformat.Client(run.Database.Dir, dbformat.Found{Engine: run.Engine.Name},
		run.Database.Tables)
	return cmp.Or(client, clients.AnyRocksDB)
}

// choose finds the tables that are asked for, or the largest, and what they keep outside.
func choose(
	out *advise.RocksAdvice, tables []fidelity.Table, asked, dir string,
) (mix []fidelity.Portion, values *engine.Values, err error) {
	if asked == "" {
		largest := largestOf(tables)
		out.Tables = []advise.TableShare{{Name: largest.Name, Share: 1, Bytes: largest.Bytes}}
		out.Assumed = len(tables) > 1
		return []fidelity.Portion{{Levels: largest.Levels, Share: 1}}, largest.Values, nil
	}

	if strings.Contains(asked, "=") {
		asked = strings.ReplaceAll(asked, ",", clients.MixSeparator)
	}

	portions, err := adapter.ParseMix(asked)
	if err != nil {
		return nil, nil, engine.Fail(engine.CodeUsage, "--table: %v", err)
	}

	for _, p := range portions {
		found, err := OnlyTable(tables, p.Name, dir)
		if err != nil {
			return nil, nil, err
		}

		values = values.Plus(found[0].Values)
		out.Tables = append(out.Tables, advise.TableShare{
			Name:  p.Name,
			Share: p.Share,
			Bytes: found[0].Bytes,
		})

		mix = append(mix, fidelity.Portion{Levels: found[0].Levels, Share: p.Share})
	}

	return mix, values, nil
}
