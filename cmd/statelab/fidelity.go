package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// fidelityFlags are the flags of inspect --as.
type fidelityFlags struct {
	*inspectFlags
	cache     setting.Value[setting.CacheSize]
	missing   experiment.Float
	as, table string
	seed      experiment.Count
}

// anyNode is what --as says for the shape that a database has in a node after a long time.
const anyNode = "node"

func (f *fidelityFlags) add(cmd *cobra.Command) {
	flag := cmd.Flags()
	flag.StringVar(&f.as, "as", "", "compare with the shape of a long-running node (node), or of another database (its directory)")
	setting.Var(flag, &f.cache, setting.Cache, "cache", "",
		"with --as: cache for which to count block reads (default: with Pebble, a node's from its OPTIONS file, "+
			"and what filters and indexes need in a database that statelab loaded; none for other engines)")
	setting.Var(flag, &f.missing, setting.Share, "missing", "0%", "with --as: share of Gets that ask for absent keys")
	flag.StringVar(&f.table, "table", "", "with --as: column family of RocksDB to look at (default: all)")
	setting.Var(flag, &f.seed, setting.Seed, "seed", "1", "with --as: seed of all random choices")
}

// comparison is what inspect --as prints with --json.
type comparison struct {
	Schema     string             `json:"schema"`
	Source     string             `json:"source"`
	Beside     string             `json:"beside,omitempty"` // the other database; "": a node's usual shape
	Engine     string             `json:"engine"`
	Client     string             `json:"client,omitempty"`
	CacheBytes int64              `json:"cache_bytes"` // 0: none
	Basis      string             `json:"basis"`       // what block reads are counted
	Tables     []fidelity.Verdict `json:"tables"`
	Warnings   []engine.Warning   `json:"warnings,omitempty"`
}

func (a *app) fidelity(f *fidelityFlags, m *mistakes, args []string) error {
	if f.as != anyNode {
		args = append(args, f.as)
	} // else a second one may follow: of fidelity A B, the name of the release before
	if len(args) != 1 && len(args) != 2 || len(args) == 1 && f.as != anyNode {
		m.add("name one database (example: statelab inspect DIR --as node)")
	}
	missing, seed, cacheBytes, cacheShare := f.missing.V(), f.seed.V(), f.cache.V().Bytes, f.cache.V().Share
	if err := m.err(); err != nil {
		return err
	}
	var sides [][]fidelity.Table
	var first *result.Run
	for i, dir := range args {
		run, err := a.inspectDatabase(dir, "", f.ignoreLock, engine.Part{})
		if err != nil {
			return err
		}
		tables, err := tablesOf(run)
		if err != nil {
			return err
		}
		if i == 0 {
			first = run
		} else if run.Engine.Name != first.Engine.Name && !(isPebble(run) && isPebble(first)) {
			return usage("%s is a database of %s, and %s of %s: their levels cannot be compared", args[0], first.Engine.Name, dir, run.Engine.Name)
		}
		if tables, err = onlyTable(tables, f.table, dir); err != nil {
			return err
		}
		sides = append(sides, tables)
	}
	out := comparison{Schema: "statelab.fidelity/1", Source: args[0], Engine: first.Engine.Name, Warnings: notOfTables(first.Warnings), CacheBytes: cacheBytes}
	if format, err := dbformat.Recognise(first.Database.Dir); err == nil && first.Database.Written == "foreign" {
		out.Client = dbformat.Client(first.Database.Dir, format, first.Database.Tables)
	}
	var beside []fidelity.Table
	if len(args) == 2 {
		out.Beside, beside = args[1], sides[1]
	}
	if cacheShare > 0 {
		out.CacheBytes = max(1, int64(cacheShare*float64(databaseBytes(first.Database))))
	}
	price, err := a.pricing(first, &out, missing, seed)
	if err != nil {
		return err
	}
	if out.Tables, err = fidelity.JudgeAll(sides[0], beside, price); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return a.printComparison(f, out)
}

func isPebble(run *result.Run) bool {
	return subject.IsPebble(run.Engine.Name)
}

// notOfTables are warnings but those that a run would carry for lack of --table: the verbs that
// look at all tables have none.
func notOfTables(warnings []engine.Warning) []engine.Warning {
	return slices.DeleteFunc(slices.Clone(warnings), func(w engine.Warning) bool { return w.Code == engine.TableNotChosen || w.Code == "cache_untold" })
}

// databaseBytes are those of all tables.
func databaseBytes(d result.Database) (bytes int64) {
	for _, t := range d.Tables {
		if len(t.Levels) > 0 {
			bytes += t.Bytes
		}
	}
	return max(bytes, d.Bytes)
}

// tablesOf are the tables of a database that have levels; one without a name where the
// database is not divided.
func tablesOf(run *result.Run) (tables []fidelity.Table, err error) {
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
			tables = append(tables, fidelity.Table{Name: t.Name, Keys: t.Keys, Bytes: t.Bytes, Levels: t.Levels, Options: options[t.Name]})
		}
	}
	if len(tables) > 0 {
		return tables, nil
	}
	if len(d.Levels) == 0 {
		return nil, fmt.Errorf("%s, a database of %s, has no levels: --as compares LSM trees (Pebble, RocksDB, goleveldb)", d.Dir, run.Engine.Name)
	}
	const onlyFamily = "default"
	one := fidelity.Table{Bytes: d.Bytes, Levels: d.Levels, Options: options[onlyFamily]}
	for _, l := range d.Levels {
		one.Keys += l.Keys
	}
	return []fidelity.Table{one}, nil
}

func onlyTable(tables []fidelity.Table, name, dir string) ([]fidelity.Table, error) {
	if name == "" {
		return tables, nil
	}
	var names []string
	for _, t := range tables {
		if t.Name == name {
			return []fidelity.Table{t}, nil
		}
		names = append(names, t.Name)
	}
	return nil, usage("--table %s: %s has no such table (tables: %s)", name, dir, strings.Join(names, ", "))
}

// rocksOptions are those of the newest OPTIONS file by column family; none without a file.
func rocksOptions(dir string) (map[string]fidelity.Options, error) {
	name, err := newestOptions(dir)
	if err != nil || name == "" {
		return nil, err
	}
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	options, err := fidelity.ParseRocksDB(file, name)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return options, nil
}

// newestOptions is the name of the newest OPTIONS file in dir, of Pebble or RocksDB; "" if
// there is none.
func newestOptions(dir string) (name string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	newest := int64(-1)
	for _, entry := range entries {
		number, is := strings.CutPrefix(entry.Name(), "OPTIONS-")
		if n, err := strconv.ParseInt(number, 10, 63); is && err == nil && n > newest {
			newest, name = n, entry.Name()
		}
	}
	return name, nil
}

// pricing says how block reads are counted: for Pebble by a simulation of its cache, for other
// engines by the data blocks alone.
func (a *app) pricing(run *result.Run, out *comparison, missing float64, seed uint64) (func(fidelity.Table) fidelity.Price, error) {
	if !isPebble(run) {
		out.Basis = "data blocks, with filters and indexes in memory and no data block in the cache"
		if out.CacheBytes > 0 {
			out.Basis = fmt.Sprintf("data blocks, with filters and indexes in memory and a cache of %s for data blocks", unit.Bytes(out.CacheBytes))
		}
		return func(fidelity.Table) fidelity.Price {
			return func(levels []engine.Level) (float64, error) { return fidelity.Reads(levels, missing, out.CacheBytes) }
		}, nil
	}
	settings, err := settingsOf(run)
	if err != nil {
		return nil, err
	}
	source := "--cache"
	switch i := lsm.Inflect(run.Database.Levels, 0); {
	case out.CacheBytes > 0:
	case run.Database.Written != "foreign" && i.IP2.CacheBytes > 0: // no client uses the cache of a profile
		out.CacheBytes, source = i.IP2.CacheBytes+atRest(run), "what its filters and indexes need; --cache sets another"
	default:
		out.CacheBytes, source = settings.CacheBytes, settings.Source
	}
	out.Basis = fmt.Sprintf("all blocks, with a cache of %s (%s)", unit.Bytes(out.CacheBytes), source)
	reserve, err := pebbledb.OpenReserveBytes(run.Engine.Name, run.Engine.Profile, out.CacheBytes, run.Database.Written == "foreign") // as read opens it
	if err != nil {
		reserve = predict.OpenReserve
	}
	in := predict.Input{Version: version1or2(run.Engine.Name), Cores: run.Host.Cores, AbsentShare: missing, Seeds: []uint64{seed},
		CacheBytes: []int64{out.CacheBytes}, ReservedBytes: reserve, WarmupGets: pricedGets, Gets: pricedGets}
	price := fidelity.Mixed(func(levels []engine.Level) (float64, error) {
		in := in
		in.Levels = levels
		points, err := predict.Run(a.ctx, in)
		if err != nil {
			return 0, err
		}
		return points[0].SteadyState, nil
	})
	return func(fidelity.Table) fidelity.Price { return price }, nil
}

// pricedGets are simulated before the cache's steady state is looked for.
const pricedGets = 200_000

func (a *app) printComparison(f *fidelityFlags, out comparison) error {
	a.progress().warn(out.Warnings...)
	differences := 0
	for _, t := range out.Tables {
		differences += len(t.Differences)
	}
	var verdict error
	if f.strict && differences+len(out.Warnings) > 0 {
		verdict = madeFatal(differences + len(out.Warnings))
	}
	if f.json {
		return errors.Join(a.printJSON(out), verdict)
	}
	than := "a long-running node's shape"
	if out.Beside != "" {
		than = "the shape of " + out.Beside
	}
	if differences == 0 {
		fmt.Fprintf(a.stdout, "%s has %s: no difference found.\n\n", out.Source, than)
	} else {
		fmt.Fprintf(a.stdout, "%s between %s and %s.\n\n", plural(differences, "difference"), out.Source, than)
	}
	a.printVerdicts(out)
	for _, t := range out.Tables {
		for _, d := range t.Differences {
			name := ""
			if t.Name != "" {
				name = t.Name + ", "
			}
			effect := signed(d.Extra) + " block reads per Get because of this"
			if math.Abs(d.Extra) < 0.0005 {
				effect = "no effect on block reads per Get with this cache"
			}
			fmt.Fprintf(a.stdout, "\n%s%s: %s\n", name, d.Kind, effect)
			fmt.Fprintf(a.stdout, "  here:     %s\n  expected: %s\n", d.Here, d.Expected)
			if d.Remedy != "" {
				fmt.Fprintf(a.stdout, "  remedy:   %s\n", d.Remedy)
			}
		}
	}
	fmt.Fprintf(a.stdout, "\nblock reads: %s\n", out.Basis)
	return verdict
}

func signed(v float64) string {
	if v > 0 {
		return "+" + unit.Significant(v, 3)
	}
	return unit.Significant(v, 3)
}

func (a *app) printVerdicts(out comparison) {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "entries\tsize\tsorted\tfiltered\tbits\tblock\treads/Get\treads/Get\t")
	fmt.Fprintln(table, "\t\truns\tkeys\t/key\t\there\texpected\t  table")
	for _, t := range out.Tables {
		if t.Keys == 0 {
			fmt.Fprintf(table, "0\t%s\t\t\t\t\t\t\t  %s\n", unit.Bytes(t.Bytes), t.Name)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%.0f%%\t%.0f\t%s\t%.3f\t%.3f\t  %s\n", unit.Count(t.Keys), unit.Bytes(t.Bytes), t.SortedRuns, t.FilteredPercent,
			t.FilterBits, unit.Bytes(int64(t.BlockBytes)), t.ReadsPerGet, t.ExpectedReadsPerGet, t.Name)
	}
	_ = table.Flush() // stdout is gone: the exit will tell
}
