// Package inspect tells what is in a database: its levels and the caches that they need, whose it
// is, what its keys are, and in what its shape differs from that of a node, or of another database.
// Nothing is written.
//
// Non-goals: opening the database, which its runner does (run/bench), and advice (ask/evidence).
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/evidence"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

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
	Sections []Section `json:"sections,omitempty"`
	// of each table whose Gets are resolved
	Costs    []curve.Cost     `json:"cost_per_get,omitempty"`
	Findings []Finding        `json:"findings,omitempty"` // of its configuration
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
	i := &Inspection{Schema: schema.Inspection, Source: source, Levels: levels,
		By: "a level table; charged as by " + engineName}
	for _, l := range levels {
		i.Database.Files += l.Files
		i.Database.Bytes += l.Bytes
	}

	i.Database.Levels = levels
	i.Inflection = new(lsm.Inflect(levels, nil, i.Database.Bytes))
	i.handles(engineName)
	return i
}

// Database is what a run of inspect tells, of all table files or of a part of them, and a sample of
// so many keys, which e reads; nil or 0: no sample.
func Database(ctx context.Context, source string, run *result.Run, part engine.Part,
	e engine.Engine, sampleKeys uint64, ignoreLock bool,
	cacheBytes int64) (*Inspection, error) {
	i := &Inspection{Schema: schema.Inspection, Source: source, Database: run.Database,
		Levels: run.Database.Levels, Inflection: run.Inflection, Part: part,
		Warnings: OfAllTables(run.Warnings), By: run.Engine.Name + " " + run.Engine.Version}
	i.handles(run.Engine.Name)
	of := subject.Descriptor(run.Engine.Name)
	if part.Of > 0 && !of.TablesOneByOne {
		return nil, engine.Fail(engine.CodeUsage, "--part: %s has no table files that can be "+
			"looked at one by one; only %s have", run.Engine.Name, strings.Join(subject.Pebbles(),
			" and "))
	}

	if of.MemTablesInCache {
		settings, err := evidence.SettingsOf(run)
		if err != nil {
			return nil, err
		}

		i.atRest = AtRest(run)
		i.MemTables = &MemTableShare{settings.CacheBytes,
			settings.MemTables(advice.Writes{}).Reserved(settings.CacheBytes), settings.Source}
	}

	if of.BlockTables {
		if i.lookInto(ctx, run, int(sampleKeys)); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}

	// else statelab chose them
	ownOptions := of.SimulatesLevels() && run.Database.Written == "foreign"
	if ownOptions && part.Of > 0 {
		i.Warnings = append(i.Warnings, engine.Warning{
			Code: "not_linted",
			Text: "whether its options are in force is not known: it was looked at in parts",
		})
	}

	if ownOptions && part.Of == 0 || of.BlockTables {
		if err := i.lint(ctx, run, cacheBytes); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}

			i.Warnings = append(i.Warnings, engine.Warning{
				Code: "not_linted",
				Text: fmt.Sprintf("whether its options are in force is not known: %v", err),
			})
		}
	}

	if run.Database.Written != "foreign" {
		return i, nil
	}

	format, err := dbformat.Recognise(run.Database.Dir)
	if err != nil {
		return i, nil // what only a library recognises is of no client
	}

	client := dbformat.Client(run.Database.Dir, format, run.Database.Tables)
	i.Client = client.Name()
	if client == clients.BSC {
		i.Others = dbformat.Siblings(run.Database.Dir)
	}

	if e == nil || sampleKeys == 0 || dbformat.Section(client, []byte{0}) == "" {
		return i, nil
	}

	i.Sections, err = sections(ctx, e,
		engine.Options{Dir: run.Database.Dir, Foreign: true, IgnoreLock: ignoreLock}, client,
		int(sampleKeys))
	if err != nil {
		return nil, fmt.Errorf("look what is in %s: %w", source, err)
	}

	return i, nil
}

// lookInto looks into the tables of RocksDB. What cannot be resolved keeps what the engine told,
// with a warning.
func (i *Inspection) lookInto(ctx context.Context, run *result.Run, keys int) {
	one := func(family string, levels []engine.Level) {
		cost, warnings, err := curve.Inspect(ctx, run.Database.Dir, run.Engine.Name,
			run.Engine.Version, family, levels, keys)
		if err != nil {
			i.Warnings = append(i.Warnings, engine.Warning{Code: "not_resolved",
				Text: fmt.Sprintf("what filters and indexes take in a cache is not known: %v",
					err)})
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
		i.Handles, i.handlesRule = advice.OpenTables(files)
		if subject.Descriptor(engine).LeastOpenTables {
			i.Handles, i.handlesRule = advice.Handles(files), advice.HandlesRule(files)
		}
	}
}

// OfAllTables are warnings but those that a run would carry for lack of --table: who looks at all
// tables has none.
func OfAllTables(warnings []engine.Warning) []engine.Warning {
	return slices.DeleteFunc(slices.Clone(warnings), func(w engine.Warning) bool {
		return w.Code == engine.TableNotChosen || w.Code == "cache_untold"
	})
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

		if len(parts) > 0 &&
			(one.Part.Of != whole.Part.Of || one.Database.Dir != whole.Database.Dir) {
			return whole, fmt.Errorf("part %d/%d of %s and part %d/%d of %s are not of one "+
				"inspection", one.Part.Number, one.Part.Of, one.Database.Dir, whole.Part.Number,
				whole.Part.Of, whole.Database.Dir)
		}

		if _, twice := parts[one.Part.Number]; twice {
			return whole, fmt.Errorf("part %d/%d is given twice", one.Part.Number, one.Part.Of)
		}

		parts[one.Part.Number] = one
		whole = one
	}

	of := whole.Part.Of
	whole.Part, whole.Warnings = engine.Part{}, nil
	whole.Database.Bytes, whole.Database.Files, whole.Database.Values = 0, 0, nil
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

	if part.Schema != schema.Inspection || part.Part.Of == 0 {
		return part, errors.New("this is not a part of an inspection: statelab inspect DIR " +
			"--part K/N --json makes one")
	}

	return part, nil
}

// sections samples n keys and their values.
func sections(
	ctx context.Context, e engine.Engine, o engine.Options, client clients.Client, n int,
) (found []Section, err error) {
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
		s.keys, s.bytes, s.valueBytes = s.keys+1, s.bytes+float64(len(key)+len(value)),
			s.valueBytes+float64(len(value))
		by[dbformat.Section(client, key)] = s
		all.keys, all.bytes = all.keys+1, all.bytes+float64(len(key)+len(value))
		return nil
	})

	if err := errors.Join(err, reader.Close()); err != nil {
		return nil, err
	}

	for name, s := range by {
		share := s.keys / all.keys
		found = append(found, Section{
			Name:         name,
			KeysPercent:  100 * share,
			BytesPercent: 100 * s.bytes / all.bytes,
			ValueBytes:   s.valueBytes / s.keys,
			ErrorPercent: 196 * math.Sqrt(share*(1-share)/all.keys),
		})
	}

	slices.SortFunc(found, func(x, y Section) int {
		return cmp.Or(cmp.Compare(y.KeysPercent, x.KeysPercent), strings.Compare(x.Name, y.Name))
	})
	return found, nil
}

// Document says what was found; sampled is how many keys Sections are estimated from, as it was
// asked for.
func (i *Inspection) Document(sampled string) *doc.Document {
	files, ofTables := i.files()
	whose := ""
	if i.Client != "" {
		whose = ", of " + i.Client
	}

	d := &doc.Document{
		Title:    "What is in " + i.Source,
		Warnings: doc.Detailed(doc.WarningsOf(i.Warnings)),
	}

	d.Answer("",
		fmt.Sprintf("%s in %s (%s%s)", unit.Bytes(Bytes(i.Database)), unit.Plural(files, "file"),
			i.By, whose))

	if ofTables == 0 {
		d.Add("Levels",
			append(levelBlocks(i.Levels, i.Inflection, i.Database.Bytes, i.atRest),
				i.costBlock(""))...)
	}

	d.Add("Values outside the tables", valuesBlock(i.Database.Values))
	i.addTables(d)
	d.Add("What the keys are", sectionsBlock(i.Sections, sampled))
	d.Add("Configuration", doc.Each(i.Findings, i.findingBlock)...)
	d.Add("Of the node", i.nodeBlock())
	return d
}

// nodeBlock says what a node with the database needs beside the cache.
func (i *Inspection) nodeBlock() doc.Block {
	var facts [][2]string
	for _, other := range i.Others {
		facts = append(facts, [2]string{"also of this node", other})
	}

	if i.Handles > 0 {
		facts = append(facts, [2]string{"file handles", unit.Count(uint64(i.Handles)) + " for " +
			i.handlesRule})
	}

	if t := i.MemTables; t != nil {
		facts = append(facts, [2]string{"memtables",
			fmt.Sprintf("%s of a %s cache while a node writes (%s)",
				unit.Bytes(t.ReservedBytes), unit.Bytes(t.CacheBytes), t.Source)})
	}

	return doc.Block{Facts: facts}
}

// valuesBlock says what of a database is outside its tables; nothing of nil.
func valuesBlock(v *engine.Values) (b doc.Block) {
	if v == nil {
		return b
	}

	where := "overflow pages"
	if v.Files > 0 {
		where = unit.Plural(v.Files, "file") + " of their own"
	}

	text := fmt.Sprintf("Values outside the tables: %s in %s", unit.Bytes(v.Bytes), where)
	if v.IndexBytes > 0 {
		text += fmt.Sprintf(", with indexes of %s, which Gets consult as they do top indexes",
			unit.Bytes(v.IndexBytes))
	}

	b.Texts = []string{text + "."}
	return b
}

// files are those of the whole database, and those that belong to its tables.
func (i *Inspection) files() (all, ofTables int) {
	for _, t := range i.Database.Tables {
		ofTables += t.Files
	}
	return max(ofTables, i.Database.Files), ofTables
}

// sectionsBlock is what a sample of the keys showed.
func sectionsBlock(sections []Section, asked string) (b doc.Block) {
	if len(sections) == 0 {
		return b
	}

	digits := func(n int) func(float64) string {
		return func(v float64) string { return unit.Significant(v, n) }
	}
	b.Title = "Parts by the keys"
	b.Table = doc.TableOf(sections, nil,
		doc.Figure("keys", "%", digits(3), func(s Section) float64 { return s.KeysPercent }),
		doc.Figure("+-", "%", digits(2), func(s Section) float64 { return s.ErrorPercent }),
		doc.Figure("bytes", "%", digits(3), func(s Section) float64 { return s.BytesPercent }),
		doc.Figure("mean value", "B", wholeNumber, func(s Section) float64 { return s.ValueBytes }),
		doc.Words("what", func(s Section) string { return s.Name }))

	b.Texts = []string{"Estimated from " + asked + " keys (--sample-keys). " +
		"Measure one kind: statelab sweep --use-existing --table NAME"}
	return b
}

func wholeNumber(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// costBlock is what Gets of a table read while the cache is empty.
func (i *Inspection) costBlock(family string) (b doc.Block) {
	at := slices.IndexFunc(i.Costs, func(c curve.Cost) bool { return c.Table == family })
	if at < 0 {
		return b
	}

	c := i.Costs[at]

	type cost struct {
		kind            string
		present, absent curve.PerGet
	}

	var costs []cost
	for _, kind := range append(doc.Each(engine.BlockTypes(), engine.BlockType.String), "all") {
		if p, a := c.Present[kind], c.Absent[kind]; p.Reads+a.Reads > 0 {
			costs = append(costs, cost{kind, p, a})
		}
	}

	reads := func(name string, of func(cost) curve.PerGet) doc.Column[cost] {
		return doc.Figure(name, "blocks", threeDigits, func(c cost) float64 { return of(c).Reads })
	}
	bytes := func(name string, of func(cost) curve.PerGet) doc.Column[cost] {
		return doc.Column[cost]{
			Name:  name,
			Words: func(c cost) string { return unit.Bytes(int64(of(c).Bytes)) },
		}
	}

	present, absent := func(c cost) curve.PerGet { return c.present },
		func(c cost) curve.PerGet { return c.absent }

	b.Title = "Read by a Get of a present and of an absent key"
	b.Table = doc.TableOf(costs, nil, doc.Words("block", func(c cost) string { return c.kind }),
		reads("present", present), bytes("", present), reads("absent", absent), bytes("", absent))
	b.Texts = []string{fmt.Sprintf("Blocks and bytes with an empty cache, estimated from %s keys "+
		"of each kind.", unit.Count(c.Keys))}
	if c.Outside {
		b.Texts = append(b.Texts, "Filters and indexes are kept with open tables (table-reader "+
			"memory), outside the block cache.")
	}

	return b
}

func threeDigits(v float64) string { return unit.Significant(v, 3) }

// maxEmpty is how many tables without entries are listed: Erigon makes all that it knows, more than
// a hundred.
const maxEmpty = 10

// addTables adds the tables that a database has by name.
func (i *Inspection) addTables(d *doc.Document) {
	tables := i.Database.Tables
	if len(tables) == 0 {
		return
	}

	isEmpty := func(t engine.Table) bool { return t.Keys == 0 && t.Bytes == 0 }
	shown, empty := tables, doc.Where(tables, isEmpty)
	if len(empty) > maxEmpty {
		shown = doc.Where(tables, func(t engine.Table) bool { return !isEmpty(t) })
	}

	list := doc.Block{Title: "Tables", Table: doc.TableOf(shown, nil,
		doc.Figure("entries", "", doc.Digits, func(t engine.Table) float64 {
			return float64(t.Keys)
		}),
		doc.Column[engine.Table]{
			Name:  "size",
			Words: func(t engine.Table) string { return unit.Bytes(t.Bytes) },
		},
		doc.Words("table", i.tableName))}

	if len(empty) > maxEmpty {
		list.Texts = append(list.Texts, "and "+unit.Plural(len(empty), "table")+
			" without entries (--json lists them)")
	}

	if slices.ContainsFunc(shown, func(t engine.Table) bool { return t.SeveralValues }) {
		list.Texts = append(list.Texts, "* a key may have several values there; a Get returns "+
			"the first")
	}

	list.Texts = append(list.Texts, "Measure one: statelab sweep --use-existing --table NAME")
	d.Add("Tables", list)

	for _, t := range tables {
		if len(t.Levels) == 0 {
			continue
		}

		inflection := lsm.Inflect(t.Levels, t.Values, t.Bytes)
		blocks := levelBlocks(t.Levels, &inflection, t.Bytes, 0)
		blocks[0].Title = t.Name + ", " + unit.Plural(t.Files, "file")
		d.Add(t.Name, append(blocks, i.costBlock(t.Name))...)
	}
}

// tableName is a table with what its client keeps in it.
func (i *Inspection) tableName(t engine.Table) string {
	name := t.Name
	if t.SeveralValues {
		name += " *"
	}
	if words := dbformat.TableWords(clients.Named(i.Client), t.Name); words != "" {
		name += " (" + words + ")"
	}
	return name
}

// levelBlocks are the level table and the inflection points of a database of bytes, with a cache of
// which memtables take reserved.
func levelBlocks(levels []engine.Level, i *result.Inflection, bytes, reserved int64) []doc.Block {
	type column = doc.Column[engine.Level]
	words := func(name string, of func(engine.Level) string) column {
		return column{Name: name, Words: of}
	}
	size := func(name string, of func(engine.Level) int64) column {
		return words(name, func(l engine.Level) string { return unit.Bytes(of(l)) })
	}
	number := words("level", func(l engine.Level) string { return fmt.Sprintf("L%d", l.Level) })
	number.Key = true
	table := doc.Block{Title: "Levels", Table: doc.TableOf(levels, nil, number,
		doc.Figure("files", "", doc.Digits,
			func(l engine.Level) float64 { return float64(l.Files) }),
		size("size", func(l engine.Level) int64 { return l.Bytes }),
		words("keys", func(l engine.Level) string { return unit.Count(l.Keys) }),
		words("data blocks", func(l engine.Level) string { return unit.Count(l.DataBlocks) }),
		size("index", func(l engine.Level) int64 { return l.IndexBytes }),
		size("top index", func(l engine.Level) int64 { return l.TopIndexBytes }),
		words("filters", func(l engine.Level) string {
			if !l.FilterConsulted && l.FilterBytes > 0 {
				return unit.Bytes(l.FilterBytes) + " *"
			}
			return unit.Bytes(l.FilterBytes)
		}))}

	if i == nil || len(levels) == 0 {
		return []doc.Block{table}
	}

	return []doc.Block{table, inflectionBlock(levels, i, bytes, reserved)}
}

// inflectionBlock is how large caches must be for the metadata of levels.
func inflectionBlock(levels []engine.Level, i *result.Inflection, bytes, reserved int64) doc.Block {
	type point struct {
		name string
		result.Size
	}

	told := func(p point) bool { return p.CacheBytes > 0 || p.DiskBytes == 0 } // by the engine
	words := func(name, unitName string, of func(point) string) doc.Column[point] {
		return doc.Column[point]{Name: name, Unit: unitName, Words: of}
	}
	inCache := func(name string, reserved int64) doc.Column[point] {
		return words(name, "", func(p point) string {
			if !told(p) {
				return ""
			}
			return unit.Bytes(p.CacheBytes + reserved)
		})
	}

	columns := []doc.Column[point]{
		doc.Words("", func(p point) string { return p.name }),
		words("on disk", "", func(p point) string { return unit.Bytes(p.DiskBytes) }),
		inCache("in cache", 0),
	}

	if reserved > 0 {
		columns = append(columns, inCache("cache needed", reserved))
	}

	columns = append(columns, words("% of DB", "", func(p point) string {
		if !told(p) {
			return ""
		}
		return unit.Significant(doc.PercentOf(p.CacheBytes+reserved, bytes), 3)
	}))

	b := doc.Block{
		Title: "Inflection points",
		Table: doc.TableOf([]point{{"IP1: filters, top and single indexes", i.IP1},
			{"IP2: IP1 and all other indexes", i.IP2}}, nil, columns...),
	}

	if i.LastLevelFilterBytes > 0 {
		b.Texts = append(b.Texts, "* filters of the last level are never consulted by a Get")
	}

	single := int64(0)
	for _, l := range levels {
		single += l.SingleIndexBytes
	}

	if single > 0 {
		b.Texts = append(b.Texts,
			fmt.Sprintf("Single indexes: %s of the indexes, in tables too small for a top index; "+
				"Gets consult them as they do top indexes.", unit.Bytes(single)))
	}

	const compressed = 1.05 // more than what a cache adds to a block
	if float64(i.IP2.CacheBytes-i.IP1.CacheBytes) > compressed*float64(i.IP2.DiskBytes-
		i.IP1.DiskBytes) {
		b.Texts = append(b.Texts, "Index blocks are compressed on disk, and not in a cache.")
	}

	if reserved > 0 {
		b.Texts = append(b.Texts,
			fmt.Sprintf("Cache needed: with the %s that memtables take while nothing is written.",
				unit.Bytes(reserved)))
	}

	return b
}

// AtRest is what memtables take of the cache of a database that is open for its next run, and not
// written to; 0 of engines whose caches hold no memtables.
func AtRest(run *result.Run) int64 {
	if !subject.Descriptor(run.Engine.Name).MemTablesInCache {
		return 0
	}

	bytes, err := pebbledb.OpenReserveBytes(run.Engine.Name, run.Engine.Profile, 0,
		run.Database.Written == "foreign")
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

	versions := subject.Pebbles()
	run := &result.Run{
		Engine: result.Engine{Name: versions[0], Profile: profile},
		Host:   host.Describe("."),
	}

	if pebbledb.OnlyV2(profile) {
		run.Engine.Name = versions[1]
	}

	run.Database = result.Database{
		Dir:    path,
		Levels: lsm.WithCharge(levels, subject.PebbleVersion(run.Engine.Name).BlockCharge()),
	}

	for _, l := range levels {
		run.Database.Bytes += l.Bytes
		run.Database.Files += l.Files
	}

	return run, nil
}

// Load says what a load made.
func Load(run *result.Run) *doc.Document {
	f := run.Figures
	text := fmt.Sprintf("Nothing was missing: the load of %s keys had finished before.",
		unit.Count(run.Workload.Keys))
	if f.Puts > 0 {
		text = fmt.Sprintf("%s keys in %s: %s keys/s", unit.Count(run.Workload.Keys),
			unit.Seconds(f.Seconds),
			unit.Count(uint64(f.OrZero(figure.PutsPerSecond))))
	}

	if f.Has(figure.WriteAmplification) {
		text += ", write amplification " + unit.Significant(f.OrZero(figure.WriteAmplification), 3)
	}

	d := &doc.Document{
		Title:    "What a load made",
		Warnings: doc.Detailed(doc.WarningsOf(run.Warnings)),
	}

	d.Answer("", text,
		fmt.Sprintf("%s in %s", unit.Bytes(run.Database.Bytes),
			unit.Plural(run.Database.Files, "file")))
	d.Add("Levels",
		levelBlocks(run.Database.Levels, run.Inflection, run.Database.Bytes, AtRest(run))...)
	return d
}
