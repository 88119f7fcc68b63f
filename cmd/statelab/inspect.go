package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	flags
	engine     string
	ignoreLock bool
	sampleKeys experiment.Count
	part       engine.Part
}

func (a *app) inspectVerb() *cobra.Command {
	f := new(inspectFlags)
	cmd := &cobra.Command{
		Use:   "inspect DIR|LOG",
		Short: "Show a database's levels and contents; --as: is it like a node's?",
		Long: `Inspect opens a database read-only, or reads the level table that pebble db
properties prints. It shows the levels and the two cache sizes that matter: IP1
(filters, top-level indexes and the single indexes of small tables) and IP2 (IP1
and all other indexes), on disk and in the cache, and the cache that is needed to
hold them beside memtables. It tells which client the database belongs to and what is inside:
tables by name, or for geth and the Cosmos SDK parts by their keys, estimated from
a sample. It also shows which filters no Get consults, how many file
handles the tables need, and how much of the cache memtables take.

  statelab inspect CHAINDATA
  statelab inspect CHAINDATA --ignore-lock         (while the node runs)
  statelab inspect properties.txt --engine pebble2
  statelab inspect BENCHMARK-DB --as node
  statelab inspect BENCHMARK-DB --as CHAINDATA

With --as it compares filters on every level, SSTables waiting in L0, the sizes of
the levels and blocks (of RocksDB for each column family), and with a database also
the sizes of keys and values. For each difference it says how many block reads per
Get it costs, and --strict exits with 3 if there is one.`,
	}
	like := &fidelityFlags{inspectFlags: f}
	like.add(cmd)
	f.displayFlags(cmd)
	setting.Var(cmd.Flags(), &f.sampleKeys, setting.Count(0, ""), "sample-keys", "5k",
		"number of keys to sample to find out what a client's database holds; 0: none")
	cmd.Flags().StringVar(&f.engine, "engine", "", "engine (default: the database's own; for a LOG pebble1, for the cache's overhead per block)")
	cmd.Flags().BoolVar(&f.ignoreLock, "ignore-lock", false, "read even if another process has the database open")
	var part string
	var merge bool
	cmd.Flags().StringVar(&part, "part", "", "look at part K/N of the table files only (example: 2/4); --merge puts the parts together")
	cmd.Flags().BoolVar(&merge, "merge", false, "print the whole from the JSON files of all parts, which are the arguments")
	on := fanFlags(cmd)
	return a.checked(cmd, func(m *mistakes, args []string) error {
		switch {
		case like.as != "":
			return a.fidelity(like, m, args)
		case merge:
			return a.mergeParts(f, m, args)
		case on.where != "":
			return a.inspectParts(f, on, m, args)
		}
		on.check(m)
		f.part = m.part(part)
		return a.inspect(f, m, args)
	})
}

// inspection is what inspect --json prints.
type inspection struct {
	Schema     string             `json:"schema"`
	Source     string             `json:"source"` // what was looked at
	Database   result.Database    `json:"database"`
	Levels     []engine.Level     `json:"levels"`
	Inflection *result.Inflection `json:"inflection"`
	// Handles are the open files that spare a node from opening tables again.
	Handles   int            `json:"handles,omitempty"`
	MemTables *memTableShare `json:"memtables,omitempty"`
	Client    string         `json:"client,omitempty"` // whose database it is, where that is known
	// Others are the further databases of a client that keeps several.
	Others []string `json:"other_databases,omitempty"`
	// Sections are the parts of a client's database, by the keys of a sample.
	Sections []section        `json:"sections,omitempty"`
	Warnings []engine.Warning `json:"warnings,omitempty"`
	// Part is the one that was looked at; absent: all.
	Part   engine.Part `json:"part,omitzero"`
	atRest int64       // what memtables take of a cache while nothing is written
}

// section is a part of a client's database.
type section struct {
	Name string `json:"name"`
	// KeysPercent and BytesPercent are shares of the sampled keys and of their keys and
	// values; ErrorPercent is half the width of the 95 % interval of the first.
	KeysPercent  float64 `json:"keys_percent"`
	BytesPercent float64 `json:"bytes_percent"`
	ErrorPercent float64 `json:"error_percent"`
	ValueBytes   float64 `json:"mean_value_bytes"`
}

// memTableShare is what memtables take of the cache while a node writes.
type memTableShare struct {
	CacheBytes    int64  `json:"cache_bytes"`
	ReservedBytes int64  `json:"reserved_bytes"`
	Source        string `json:"source"` // how these settings are known
}

func (a *app) inspect(f *inspectFlags, m *mistakes, args []string) (err error) {
	if len(args) != 1 {
		m.add("name one database or one level table (example: statelab inspect DIR)")
	}
	if len(args) == 1 && f.engine != "" && isFile(args[0]) {
		parse(m, "engine", f.engine, setting.Choice(subject.Pebbles()...))
	}
	if err := m.err(); err != nil {
		return err
	}
	found, engineText, err := a.inspected(args[0], f)
	if err != nil {
		return err
	}
	if f.part.Of > 0 {
		if found.Part = f.part; !f.json {
			return usage("--part: prints JSON only: add --json")
		}
	}
	return a.printInspection(f, found, engineText)
}

// printInspection prints what was found.
func (a *app) printInspection(f *inspectFlags, found inspection, engineText string) (err error) {
	ofTables := 0
	for _, t := range found.Database.Tables {
		ofTables += t.Files
	}
	files := max(ofTables, found.Database.Files)
	if len(found.Levels) > 0 || ofTables > 0 {
		found.Handles = advise.Handles(files)
	}
	if a.progress().warn(found.Warnings...); f.strict && len(found.Warnings) > 0 {
		defer func() { err = cmp.Or(err, madeFatal(len(found.Warnings))) }()
	}
	if f.json {
		return a.printJSON(found)
	}
	whose := ""
	if found.Client != "" {
		whose = ", of " + found.Client
	}
	fmt.Fprintf(a.stdout, "%s in %s (%s%s)\n\n", unit.Bytes(databaseBytes(found.Database)), plural(files, "file"), engineText, whose)
	if ofTables == 0 {
		a.printLevels(found.Levels, found.Inflection, found.Database.Bytes, found.atRest)
	}
	a.printTables(found.Client, found.Database.Tables)
	a.printSections(found.Sections, f.sampleKeys.String())
	for _, other := range found.Others {
		fmt.Fprintf(a.stdout, "also of this node: %s\n", other)
	}
	if found.Handles > 0 {
		fmt.Fprintf(a.stdout, "file handles: %s for %s\n", unit.Count(uint64(found.Handles)), advise.HandlesRule(files))
	}
	if t := found.MemTables; t != nil {
		fmt.Fprintf(a.stdout, "memtables: %s of a %s cache while a node writes (%s)\n", unit.Bytes(t.ReservedBytes), unit.Bytes(t.CacheBytes), t.Source)
	}
	return nil
}

// inspected looks at a level table in a file, or at a database.
func (a *app) inspected(path string, f *inspectFlags) (inspection, string, error) {
	found := inspection{Schema: "statelab.inspect/1", Source: path}
	if isFile(path) {
		name := cmp.Or(f.engine, subject.DefaultEngine())
		levels, err := levelTable(path)
		if err != nil {
			return found, "", err
		}
		found.Levels = lsm.WithCharge(levels, version1or2(name).BlockCharge())
		for _, l := range found.Levels {
			found.Database.Files += l.Files
			found.Database.Bytes += l.Bytes
		}
		found.Database.Levels = found.Levels
		found.Inflection = new(lsm.Inflect(found.Levels, found.Database.Bytes))
		return found, "a level table; charged as by " + name, nil
	}
	run, err := a.inspectDatabase(path, f.engine, f.ignoreLock, f.part)
	if err != nil {
		return found, "", err
	}
	found.Warnings = notOfTables(run.Warnings)
	found.Database, found.Levels, found.Inflection = run.Database, run.Database.Levels, run.Inflection
	if f.part.Of > 0 && !isPebble(run) {
		return found, "", usage("--part: %s has no table files that can be looked at one by one; only %s have", run.Engine.Name,
			strings.Join(subject.Pebbles(), " and "))
	}
	if isPebble(run) {
		settings, err := settingsOf(run)
		if err != nil {
			return found, "", err
		}
		tables := settings.MemTables(advise.Writes{})
		found.atRest = atRest(run)
		found.MemTables = &memTableShare{settings.CacheBytes, tables.Reserved(settings.CacheBytes), settings.Source}
	}
	if run.Database.Written == "foreign" {
		if err := a.contents(&found, run, f); err != nil {
			return found, "", fmt.Errorf("look what is in %s: %w", path, err)
		}
	}
	return found, run.Engine.Name + " " + run.Engine.Version, nil
}

// contents tells whose database it is, and by a sample of its keys what is inside.
func (a *app) contents(found *inspection, run *result.Run, f *inspectFlags) error {
	format, err := dbformat.Recognise(run.Database.Dir)
	if err != nil {
		return nil // what only a library recognises is of no client
	}
	found.Client = dbformat.Client(run.Database.Dir, format, run.Database.Tables)
	if found.Client == dbformat.BSC {
		found.Others = dbformat.Siblings(run.Database.Dir)
	}
	n := f.sampleKeys.V()
	if n == 0 || dbformat.Section(found.Client, []byte{0}) == "" {
		return err
	}
	e := linked(run.Engine.Name)
	if e == nil {
		return nil
	}
	found.Sections, err = sections(a.ctx, e, engine.Options{Dir: run.Database.Dir, Foreign: true, IgnoreLock: f.ignoreLock}, found.Client, int(n))
	return err
}

// sections samples n keys and their values.
func sections(ctx context.Context, e engine.Engine, o engine.Options, client string, n int) (found []section, err error) {
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
		found = append(found, section{Name: name, KeysPercent: 100 * share, BytesPercent: 100 * s.bytes / all.bytes, ValueBytes: s.valueBytes / s.keys,
			ErrorPercent: 196 * math.Sqrt(share*(1-share)/all.keys)})
	}
	slices.SortFunc(found, func(x, y section) int {
		return cmp.Or(cmp.Compare(y.KeysPercent, x.KeysPercent), strings.Compare(x.Name, y.Name))
	})
	return found, nil
}

// printSections prints what a sample of the keys showed.
func (a *app) printSections(sections []section, asked string) {
	if len(sections) == 0 {
		return
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nkeys\t+-\tbytes\tmean value\t  what")
	for _, s := range sections {
		fmt.Fprintf(table, "%s%%\t%s\t%s%%\t%.0f B\t  %s\n", unit.Significant(s.KeysPercent, 3), unit.Significant(s.ErrorPercent, 2),
			unit.Significant(s.BytesPercent, 3), s.ValueBytes, s.Name)
	}
	if err := table.Flush(); err != nil {
		return // stdout is gone: the exit will tell
	}
	fmt.Fprintf(a.stdout, "estimated from %s keys (--sample-keys); measure one kind: statelab sweep --use-existing --table NAME\n\n", asked)
}

// mostEmpty is how many tables without entries are listed: Erigon makes all that it knows, more than
// a hundred.
const mostEmpty = 10

// printTables prints the tables that a database has by name.
func (a *app) printTables(client string, tables []engine.Table) {
	if len(tables) == 0 {
		return
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
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
	if err := table.Flush(); err != nil {
		return // stdout is gone: the exit will tell
	}
	if empty > mostEmpty {
		fmt.Fprintf(a.stdout, "and %s without entries (--json lists them)\n", plural(empty, "table"))
	}
	if several {
		fmt.Fprintln(a.stdout, "* a key may have several values there; a Get returns the first")
	}
	for _, t := range tables {
		if len(t.Levels) > 0 {
			fmt.Fprintf(a.stdout, "\n%s, %s:\n", t.Name, plural(t.Files, "file"))
			inflection := lsm.Inflect(t.Levels, t.Bytes)
			a.printLevels(t.Levels, &inflection, t.Bytes, 0)
		}
	}
	fmt.Fprintln(a.stdout, "\nmeasure one: statelab sweep --use-existing --table NAME")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// printLevels prints the level table and the inflection points of a database of bytes, with a cache of
// which memtables take reserved.
func (a *app) printLevels(levels []engine.Level, i *result.Inflection, bytes, reserved int64) {
	if len(levels) == 0 {
		return
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "level\tfiles\tsize\tkeys\tdata blocks\tindex\ttop index\tfilters\t")
	for _, l := range levels {
		filters := unit.Bytes(l.FilterBytes)
		if !l.FilterConsulted && l.FilterBytes > 0 {
			filters += " *"
		}
		fmt.Fprintf(table, "L%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Level, l.Files, unit.Bytes(l.Bytes), unit.Count(l.Keys), unit.Count(l.DataBlocks),
			unit.Bytes(l.IndexBytes), unit.Bytes(l.TopIndexBytes), filters)
	}
	if err := table.Flush(); err != nil {
		return // stdout is gone: the exit will tell
	}
	if i == nil {
		return
	}
	line := func(name, onDisk, inCache, needed, percent string) {
		if reserved == 0 {
			needed = ""
		} else {
			needed = fmt.Sprintf("  %12s", needed)
		}
		fmt.Fprintln(a.stdout, strings.TrimRight(fmt.Sprintf("%-36s %9s  %9s%s  %7s", name, onDisk, inCache, needed, percent), " "))
	}
	row := func(name string, s result.Size) {
		inCache, cache, percent := "", "", ""
		if s.CacheBytes > 0 || s.DiskBytes == 0 { // the engine tells
			inCache, cache = unit.Bytes(s.CacheBytes), unit.Bytes(s.CacheBytes+reserved)
			percent = unit.Significant(view.PercentOf(s.CacheBytes+reserved, bytes), 3)
		}
		line(name, unit.Bytes(s.DiskBytes), inCache, cache, percent)
	}
	fmt.Fprintln(a.stdout)
	line("", "on disk", "in cache", "cache needed", "% of DB")
	row("IP1: filters, top and single indexes", i.IP1)
	row("IP2: IP1 and all other indexes", i.IP2)
	if i.LastLevelFilterBytes > 0 {
		fmt.Fprintf(a.stdout, "* %s of filters on the last level are never consulted by a Get\n", unit.Bytes(i.LastLevelFilterBytes))
	}
	single := int64(0)
	for _, l := range levels {
		single += l.SingleIndexBytes
	}
	if single > 0 {
		fmt.Fprintf(a.stdout, "Single indexes: %s of the indexes, in tables too small for a top index; Gets\nconsult them as they do top indexes.\n",
			unit.Bytes(single))
	}
	const compressed = 1.05 // more than what a cache adds to a block
	if float64(i.IP2.CacheBytes-i.IP1.CacheBytes) > compressed*float64(i.IP2.DiskBytes-i.IP1.DiskBytes) {
		fmt.Fprintln(a.stdout, "Index blocks are compressed on disk, and not in a cache.")
	}
	if reserved > 0 {
		fmt.Fprintf(a.stdout, "Cache needed: with the %s that memtables take while nothing is written.\n", unit.Bytes(reserved))
	}
}

// atRest is what memtables take of the cache of a database that is open for its next run, and not
// written to; 0 of engines whose caches hold no memtables.
func atRest(run *result.Run) int64 {
	if !isPebble(run) {
		return 0
	}
	bytes, err := pebbledb.OpenReserveBytes(run.Engine.Name, run.Engine.Profile, 0, run.Database.Written == "foreign")
	if err != nil {
		return 0 // of no profile here
	}
	return bytes
}
