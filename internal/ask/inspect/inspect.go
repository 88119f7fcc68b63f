// Package inspect tells what is in a database: its levels and the caches that they need, whose it is,
// what its keys are, and in what its shape differs from that of a node, or of another database.
// Nothing is written.
//
// Non-goals: opening the database, which its runner does (run/bench), and advice (ask/evidence).
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/evidence"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

const schema = "statelab.inspect/1"

// Inspection is what inspect says of a database or a level table, with --json too.
type Inspection struct {
	Schema     string             `json:"schema"`
	Source     string             `json:"source"` // what was looked at
	Database   result.Database    `json:"database"`
	Levels     []engine.Level     `json:"levels"`
	Inflection *result.Inflection `json:"inflection"`
	// Handles are the open files that spare a node from opening tables again.
	Handles   int            `json:"handles,omitempty"`
	MemTables *MemTableShare `json:"memtables,omitempty"`
	Client    string         `json:"client,omitempty"` // whose database it is, where that is known
	// Others are the further databases of a client that keeps several.
	Others []string `json:"other_databases,omitempty"`
	// Sections are the parts of a client's database, by the keys of a sample.
	Sections []Section        `json:"sections,omitempty"`
	Costs    []curve.Cost     `json:"cost_per_get,omitempty"` // of each table whose Gets are resolved
	Findings []Finding        `json:"findings,omitempty"`     // of its configuration
	Warnings []engine.Warning `json:"warnings,omitempty"`
	// Part is the one that was looked at; absent: all.
	Part engine.Part `json:"part,omitzero"`
	By   string      `json:"-"` // the engine that looked, or what was looked at
	// handlesRule says how Handles comes about.
	handlesRule string
	atRest      int64 // what memtables take of a cache while nothing is written
}

// Section is a part of a client's database.
type Section struct {
	Name string `json:"name"`
	// KeysPercent and BytesPercent are shares of the sampled keys and of their keys and
	// values; ErrorPercent is half the width of the 95 % interval of the first.
	KeysPercent  float64 `json:"keys_percent"`
	BytesPercent float64 `json:"bytes_percent"`
	ErrorPercent float64 `json:"error_percent"`
	ValueBytes   float64 `json:"mean_value_bytes"`
}

// MemTableShare is what memtables take of the cache while a node writes.
type MemTableShare struct {
	CacheBytes    int64  `json:"cache_bytes"`
	ReservedBytes int64  `json:"reserved_bytes"`
	Source        string `json:"source"` // how these settings are known
}

// Table is what a level table tells, charged as by an engine.
func Table(source, engineName string, levels []engine.Level) *Inspection {
	i := &Inspection{Schema: schema, Source: source, Levels: levels, By: "a level table; charged as by " + engineName}
	for _, l := range levels {
		i.Database.Files += l.Files
		i.Database.Bytes += l.Bytes
	}
	i.Database.Levels = levels
	i.Inflection = new(lsm.Inflect(levels, nil, i.Database.Bytes))
	i.handles(engineName)
	return i
}

// Database is what a run of inspect tells, of all table files or of a part of them, and a sample of so
// many keys, which e reads; nil or 0: no sample.
func Database(ctx context.Context, source string, run *result.Run, part engine.Part, e engine.Engine, sampleKeys uint64, ignoreLock bool,
	cacheBytes int64) (*Inspection, error) {
	i := &Inspection{Schema: schema, Source: source, Database: run.Database, Levels: run.Database.Levels, Inflection: run.Inflection, Part: part,
		Warnings: OfAllTables(run.Warnings), By: run.Engine.Name + " " + run.Engine.Version}
	i.handles(run.Engine.Name)
	isPebble := subject.IsPebble(run.Engine.Name)
	if part.Of > 0 && !isPebble {
		return nil, engine.Fail(engine.CodeUsage, "--part: %s has no table files that can be looked at one by one; only %s have", run.Engine.Name,
			strings.Join(subject.Pebbles(), " and "))
	}
	if isPebble {
		settings, err := evidence.SettingsOf(run)
		if err != nil {
			return nil, err
		}
		i.atRest = AtRest(run)
		i.MemTables = &MemTableShare{settings.CacheBytes, settings.MemTables(advise.Writes{}).Reserved(settings.CacheBytes), settings.Source}
	}
	of, _ := subject.EngineOf(run.Engine.Name)
	if of.BlockTables {
		if i.lookInto(ctx, run, int(sampleKeys)); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	ownOptions := isPebble && run.Database.Written == "foreign" // else statelab chose them
	if ownOptions && part.Of > 0 {
		i.Warnings = append(i.Warnings, engine.Warning{Code: "not_linted", Text: "whether its options are in force is not known: it was looked at in parts"})
	}
	if ownOptions && part.Of == 0 || of.BlockTables {
		if err := i.lint(ctx, run, cacheBytes); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			i.Warnings = append(i.Warnings, engine.Warning{Code: "not_linted", Text: fmt.Sprintf("whether its options are in force is not known: %v", err)})
		}
	}
	if run.Database.Written != "foreign" {
		return i, nil
	}
	format, err := dbformat.Recognise(run.Database.Dir)
	if err != nil {
		return i, nil // what only a library recognises is of no client
	}
	i.Client = dbformat.Client(run.Database.Dir, format, run.Database.Tables)
	if i.Client == dbformat.BSC {
		i.Others = dbformat.Siblings(run.Database.Dir)
	}
	if e == nil || sampleKeys == 0 || dbformat.Section(i.Client, []byte{0}) == "" {
		return i, nil
	}
	i.Sections, err = sections(ctx, e, engine.Options{Dir: run.Database.Dir, Foreign: true, IgnoreLock: ignoreLock}, i.Client, int(sampleKeys))
	if err != nil {
		return nil, fmt.Errorf("look what is in %s: %w", source, err)
	}
	return i, nil
}

// lookInto looks into the tables of RocksDB. What cannot be resolved keeps what the engine told, with a warning.
func (i *Inspection) lookInto(ctx context.Context, run *result.Run, keys int) {
	one := func(family string, levels []engine.Level) {
		cost, warnings, err := curve.Inspect(ctx, run.Database.Dir, run.Engine.Name, run.Engine.Version, family, levels, keys)
		if err != nil {
			i.Warnings = append(i.Warnings, engine.Warning{Code: "not_resolved",
				Text: fmt.Sprintf("what filters and indexes take in a cache is not known: %v", err)})
		}
		for _, w := range warnings {
			if !slices.Contains(i.Warnings, w) {
				i.Warnings = append(i.Warnings, w)
			}
		}
		if cost != nil {
			i.Costs = append(i.Costs, *cost)
		}
	}
	if i.Database.Tables == nil {
		one("", i.Levels)
		i.Inflection = new(lsm.Inflect(i.Levels, i.Database.Values, i.Database.Bytes))
		return
	}
	for _, t := range i.Database.Tables {
		one(t.Name, t.Levels)
	}
}

func (i *Inspection) handles(engine string) {
	if files, ofTables := i.files(); len(i.Levels) > 0 || ofTables > 0 {
		i.Handles, i.handlesRule = advise.OpenTables(files)
		if subject.IsPebble(engine) {
			i.Handles, i.handlesRule = advise.Handles(files), advise.HandlesRule(files)
		}
	}
}

// OfAllTables are warnings but those that a run would carry for lack of --table: who looks at all
// tables has none.
func OfAllTables(warnings []engine.Warning) []engine.Warning {
	return slices.DeleteFunc(slices.Clone(warnings), func(w engine.Warning) bool { return w.Code == engine.TableNotChosen || w.Code == "cache_untold" })
}

// Merge is the inspection of which files hold the parts. All parts of one database must be there,
// once each.
func Merge(paths []string) (whole Inspection, err error) {
	parts := map[int]Inspection{}
	for _, path := range paths {
		one, err := readPart(path)
		if err != nil {
			return whole, fmt.Errorf("%s: %w", path, err)
		}
		if len(parts) > 0 && (one.Part.Of != whole.Part.Of || one.Database.Dir != whole.Database.Dir) {
			return whole, fmt.Errorf("part %d/%d of %s and part %d/%d of %s are not of one inspection", one.Part.Number, one.Part.Of, one.Database.Dir,
				whole.Part.Number, whole.Part.Of, whole.Database.Dir)
		}
		if _, twice := parts[one.Part.Number]; twice {
			return whole, fmt.Errorf("part %d/%d is given twice", one.Part.Number, one.Part.Of)
		}
		parts[one.Part.Number] = one
		whole = one
	}
	of := whole.Part.Of
	whole.Part, whole.Warnings, whole.Database.Bytes, whole.Database.Files, whole.Database.Values = engine.Part{}, nil, 0, 0, nil
	levels := map[int]engine.Level{}
	for number := 1; number <= of; number++ {
		one, here := parts[number]
		if !here {
			return whole, fmt.Errorf("part %d/%d is missing", number, of)
		}
		whole.Database.Bytes += one.Database.Bytes
		whole.Database.Files += one.Database.Files
		whole.Database.Values = whole.Database.Values.Plus(one.Database.Values)
		for _, l := range one.Levels {
			if known, is := levels[l.Level]; is {
				l = known.Plus(l)
			}
			levels[l.Level] = l
		}
		for _, w := range one.Warnings {
			if !slices.Contains(whole.Warnings, w) {
				whole.Warnings = append(whole.Warnings, w)
			}
		}
	}
	whole.Levels = nil
	for number := range engine.MaxLevels {
		if l, is := levels[number]; is {
			whole.Levels = append(whole.Levels, l)
		}
	}
	whole.Database.Levels = whole.Levels
	if len(whole.Levels) > 0 {
		inflection := lsm.Inflect(whole.Levels, whole.Database.Values, whole.Database.Bytes)
		whole.Inflection = &inflection
		whole.handles(subject.Pebbles()[0]) // the engines that are looked at in parts
	}
	whole.By = fmt.Sprintf("looked at in %d parts", of)
	return whole, nil
}

// readPart reads one part of an inspection from the file that --part --json wrote.
func readPart(path string) (part Inspection, err error) {
	file, err := os.Open(path)
	if err != nil {
		return part, err
	}
	defer file.Close() // it was only read
	if err := protocol.Decode(file, &part); err != nil {
		return part, err
	}
	if part.Schema != schema || part.Part.Of == 0 {
		return part, errors.New("this is not a part of an inspection: statelab inspect DIR --part K/N --json makes one")
	}
	return part, nil
}

// sections samples n keys and their values.
func sections(ctx context.Context, e engine.Engine, o engine.Options, client string, n int) (found []Section, err error) {
	db, err := dbformat.Open(ctx, e, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	sampler, can := db.(engine.KeySampler)
	if !can {
		return nil, nil
	}
	reader, err := db.Reader()
	if err != nil {
		return nil, err
	}
	type sums struct{ keys, bytes, valueBytes float64 }
	by, all := map[string]sums{}, sums{}
	var value []byte
	err = sampler.SampleKeys(ctx, n, 1, func(key []byte) (err error) {
		if value, _, err = reader.Get(key, value); err != nil {
			return err
		}
		s := by[dbformat.Section(client, key)]
		s.keys, s.bytes, s.valueBytes = s.keys+1, s.bytes+float64(len(key)+len(value)), s.valueBytes+float64(len(value))
		by[dbformat.Section(client, key)] = s
		all.keys, all.bytes = all.keys+1, all.bytes+float64(len(key)+len(value))
		return nil
	})
	if err := errors.Join(err, reader.Close()); err != nil {
		return nil, err
	}
	for name, s := range by {
		share := s.keys / all.keys
		found = append(found, Section{Name: name, KeysPercent: 100 * share, BytesPercent: 100 * s.bytes / all.bytes, ValueBytes: s.valueBytes / s.keys,
			ErrorPercent: 196 * math.Sqrt(share*(1-share)/all.keys)})
	}
	slices.SortFunc(found, func(x, y Section) int {
		return cmp.Or(cmp.Compare(y.KeysPercent, x.KeysPercent), strings.Compare(x.Name, y.Name))
	})
	return found, nil
}

// Text prints it; sampled is how many keys Sections are estimated from, as it was asked for.
func (i *Inspection) Text(w io.Writer, sampled string) error {
	files, ofTables := i.files()
	whose := ""
	if i.Client != "" {
		whose = ", of " + i.Client
	}
	fmt.Fprintf(w, "%s in %s (%s%s)\n\n", unit.Bytes(Bytes(i.Database)), unit.Plural(files, "file"), i.By, whose)
	if ofTables == 0 {
		Levels(w, i.Levels, i.Inflection, i.Database.Bytes, i.atRest)
		i.printCost(w, "")
	}
	printValues(w, i.Database.Values)
	i.printTables(w)
	printSections(w, i.Sections, sampled)
	i.printFindings(w)
	for _, other := range i.Others {
		fmt.Fprintf(w, "also of this node: %s\n", other)
	}
	if i.Handles > 0 {
		fmt.Fprintf(w, "file handles: %s for %s\n", unit.Count(uint64(i.Handles)), i.handlesRule)
	}
	if t := i.MemTables; t != nil {
		fmt.Fprintf(w, "memtables: %s of a %s cache while a node writes (%s)\n", unit.Bytes(t.ReservedBytes), unit.Bytes(t.CacheBytes), t.Source)
	}
	return nil
}

// printValues says what of a database is outside its tables.
func printValues(w io.Writer, v *engine.Values) {
	if v == nil {
		return
	}
	where := "overflow pages"
	if v.Files > 0 {
		where = unit.Plural(v.Files, "file") + " of their own"
	}
	fmt.Fprintf(w, "values outside the tables: %s in %s", unit.Bytes(v.Bytes), where)
	if v.IndexBytes > 0 {
		fmt.Fprintf(w, ", with indexes of %s, which Gets\nconsult as they do top indexes", unit.Bytes(v.IndexBytes))
	}
	fmt.Fprintln(w)
}

// files are those of the whole database, and those that belong to its tables.
func (i *Inspection) files() (all, ofTables int) {
	for _, t := range i.Database.Tables {
		ofTables += t.Files
	}
	return max(ofTables, i.Database.Files), ofTables
}

// printSections prints what a sample of the keys showed.
func printSections(w io.Writer, sections []Section, asked string) {
	if len(sections) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nkeys\t+-\tbytes\tmean value\t  what")
	for _, s := range sections {
		fmt.Fprintf(table, "%s%%\t%s\t%s%%\t%.0f B\t  %s\n", unit.Significant(s.KeysPercent, 3), unit.Significant(s.ErrorPercent, 2),
			unit.Significant(s.BytesPercent, 3), s.ValueBytes, s.Name)
	}
	_ = table.Flush() // where stdout is gone, the exit will tell
	fmt.Fprintf(w, "estimated from %s keys (--sample-keys); measure one kind: statelab sweep --use-existing --table NAME\n\n", asked)
}

// mostEmpty is how many tables without entries are listed: Erigon makes all that it knows, more than
// a hundred.
const mostEmpty = 10

// printCost prints what Gets of a table read while the cache is empty.
func (i *Inspection) printCost(w io.Writer, family string) {
	at := slices.IndexFunc(i.Costs, func(c curve.Cost) bool { return c.Table == family })
	if at < 0 {
		return
	}
	c := i.Costs[at]
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nread by a Get\tpresent\t\tabsent\t\t")
	row := func(kind string) {
		if p, a := c.Present[kind], c.Absent[kind]; p.Reads+a.Reads > 0 {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t\n", kind, unit.Significant(p.Reads, 3), unit.Bytes(int64(p.Bytes)), unit.Significant(a.Reads, 3),
				unit.Bytes(int64(a.Bytes)))
		}
	}
	for _, kind := range engine.BlockTypes() {
		row(kind.String())
	}
	row("all")
	_ = table.Flush() // where stdout is gone, the exit will tell
	fmt.Fprintf(w, "Blocks and bytes with an empty cache, estimated from %s keys of each kind.\n", unit.Count(c.Keys))
	if c.Outside {
		fmt.Fprintln(w, "Filters and indexes are in memory with open tables, beside the cache.")
	}
}

// printTables prints the tables that a database has by name.
func (i *Inspection) printTables(w io.Writer) {
	client, tables := i.Client, i.Database.Tables
	if len(tables) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "entries\tsize\t  table")
	empty := 0
	for _, t := range tables {
		if t.Keys == 0 && t.Bytes == 0 {
			empty++
		}
	}
	several := false
	for _, t := range tables {
		if empty > mostEmpty && t.Keys == 0 && t.Bytes == 0 {
			continue
		}
		mark := ""
		if t.SeveralValues {
			several, mark = true, " *"
		}
		if words := dbformat.TableWords(client, t.Name); words != "" {
			mark += " (" + words + ")"
		}
		fmt.Fprintf(table, "%s\t%s\t  %s%s\n", unit.Count(t.Keys), unit.Bytes(t.Bytes), t.Name, mark)
	}
	_ = table.Flush() // where stdout is gone, the exit will tell
	if empty > mostEmpty {
		fmt.Fprintf(w, "and %s without entries (--json lists them)\n", unit.Plural(empty, "table"))
	}
	if several {
		fmt.Fprintln(w, "* a key may have several values there; a Get returns the first")
	}
	for _, t := range tables {
		if len(t.Levels) > 0 {
			fmt.Fprintf(w, "\n%s, %s:\n", t.Name, unit.Plural(t.Files, "file"))
			inflection := lsm.Inflect(t.Levels, t.Values, t.Bytes)
			Levels(w, t.Levels, &inflection, t.Bytes, 0)
			i.printCost(w, t.Name)
		}
	}
	fmt.Fprintln(w, "\nmeasure one: statelab sweep --use-existing --table NAME")
}

// Levels prints the level table and the inflection points of a database of bytes, with a cache of
// which memtables take reserved.
func Levels(w io.Writer, levels []engine.Level, i *result.Inflection, bytes, reserved int64) {
	if len(levels) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "level\tfiles\tsize\tkeys\tdata blocks\tindex\ttop index\tfilters\t")
	for _, l := range levels {
		filters := unit.Bytes(l.FilterBytes)
		if !l.FilterConsulted && l.FilterBytes > 0 {
			filters += " *"
		}
		fmt.Fprintf(table, "L%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Level, l.Files, unit.Bytes(l.Bytes), unit.Count(l.Keys), unit.Count(l.DataBlocks),
			unit.Bytes(l.IndexBytes), unit.Bytes(l.TopIndexBytes), filters)
	}
	_ = table.Flush() // where stdout is gone, the exit will tell
	if i == nil {
		return
	}
	line := func(name, onDisk, inCache, needed, percent string) {
		if reserved == 0 {
			needed = ""
		} else {
			needed = fmt.Sprintf("  %12s", needed)
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-36s %9s  %9s%s  %7s", name, onDisk, inCache, needed, percent), " "))
	}
	row := func(name string, s result.Size) {
		inCache, cache, percent := "", "", ""
		if s.CacheBytes > 0 || s.DiskBytes == 0 { // the engine tells
			inCache, cache = unit.Bytes(s.CacheBytes), unit.Bytes(s.CacheBytes+reserved)
			percent = unit.Significant(view.PercentOf(s.CacheBytes+reserved, bytes), 3)
		}
		line(name, unit.Bytes(s.DiskBytes), inCache, cache, percent)
	}
	fmt.Fprintln(w)
	line("", "on disk", "in cache", "cache needed", "% of DB")
	row("IP1: filters, top and single indexes", i.IP1)
	row("IP2: IP1 and all other indexes", i.IP2)
	if i.LastLevelFilterBytes > 0 {
		fmt.Fprintln(w, "* filters of the last level are never consulted by a Get")
	}
	single := int64(0)
	for _, l := range levels {
		single += l.SingleIndexBytes
	}
	if single > 0 {
		fmt.Fprintf(w, "Single indexes: %s of the indexes, in tables too small for a top index; Gets\nconsult them as they do top indexes.\n",
			unit.Bytes(single))
	}
	const compressed = 1.05 // more than what a cache adds to a block
	if float64(i.IP2.CacheBytes-i.IP1.CacheBytes) > compressed*float64(i.IP2.DiskBytes-i.IP1.DiskBytes) {
		fmt.Fprintln(w, "Index blocks are compressed on disk, and not in a cache.")
	}
	if reserved > 0 {
		fmt.Fprintf(w, "Cache needed: with the %s that memtables take while nothing is written.\n", unit.Bytes(reserved))
	}
}

// AtRest is what memtables take of the cache of a database that is open for its next run, and not
// written to; 0 of engines whose caches hold no memtables.
func AtRest(run *result.Run) int64 {
	if !subject.IsPebble(run.Engine.Name) {
		return 0
	}
	bytes, err := pebbledb.OpenReserveBytes(run.Engine.Name, run.Engine.Profile, 0, run.Database.Written == "foreign")
	if err != nil {
		return 0 // of no profile here
	}
	return bytes
}

// LevelTable reads the output of pebble db properties.
func LevelTable(path string) ([]engine.Level, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	levels, err := lsm.ParseProperties(file)
	if err != nil {
		return nil, cmp.Or(dbformat.File(path), fmt.Errorf("%s: %w", path, err))
	}
	return levels, nil
}

// RunOfTable is a level table in the form of an inspection's run: of the database of a node whose
// engine has the options of a profile.
func RunOfTable(path, profile string) (*result.Run, error) {
	levels, err := LevelTable(path)
	if err != nil {
		return nil, err
	}
	run := &result.Run{Engine: result.Engine{Name: subject.Pebbles()[0], Profile: profile}, Host: host.Facts(".")}
	if strings.HasSuffix(profile, "-v2") || profile == "columnar" {
		run.Engine.Name = subject.Pebbles()[1]
	}
	run.Database = result.Database{Dir: path, Levels: lsm.WithCharge(levels, subject.PebbleVersion(run.Engine.Name).BlockCharge())}
	for _, l := range levels {
		run.Database.Bytes += l.Bytes
		run.Database.Files += l.Files
	}
	return run, nil
}

// Load prints what a load made.
func Load(w io.Writer, run *result.Run) {
	f := run.Figures
	if f.Puts == 0 {
		fmt.Fprintf(w, "Nothing was missing: the load of %s keys had finished before.", unit.Count(run.Workload.Keys))
	} else {
		fmt.Fprintf(w, "%s keys in %s: %s keys/s", unit.Count(run.Workload.Keys), unit.Seconds(f.Seconds), unit.Count(uint64(f.PutsPerSecond)))
	}
	if f.WriteAmplification != nil {
		fmt.Fprintf(w, ", write amplification %s", unit.Significant(*f.WriteAmplification, 3))
	}
	fmt.Fprintf(w, "\n%s in %s\n\n", unit.Bytes(run.Database.Bytes), unit.Plural(run.Database.Files, "file"))
	Levels(w, run.Database.Levels, run.Inflection, run.Database.Bytes, AtRest(run))
}
