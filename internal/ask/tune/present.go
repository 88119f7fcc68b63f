package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// libraryBlockBytes is what Pebble takes for blocks that are given no size.
const libraryBlockBytes = 4096

// tabled is implemented by engines of this process that know what their tables are like.
type tabled interface {
	// Tables are those written with o, whose Handles are the tables that there are.
	Tables(o engine.Options) (tablemodel.TableModel, tablemodel.TableOptions, []error)
}

// Profiled fills in what tables are like with a profile and overrides.
func (a *Request) Profiled(profile string, overrides map[string]string) (errs []error) {
	name := a.Gets.Spec.Engine
	if of, _ := subject.EngineOf(name); of.BlockTables {
		layout, err := rocksoptions.Find(profile)
		if err == nil {
			err = a.optioned(layout.All(overrides), "default")
		}

		if err != nil {
			errs = append(errs, err)
		}

		return errs
	}

	spec := &a.Gets.Spec
	o := engine.Options{
		Dir:       spec.Dir,
		Foreign:   spec.Foreign,
		Profile:   profile,
		Overrides: overrides,
	}
	if e, is := a.Gets.Engine.(tabled); is {
		o.Handles = a.Tables
		a.Kind, a.Present, errs = e.Tables(o)
		return errs
	}

	s, errs := pebbledb.Resolve(pebbledb.Profiles(), o)
	if len(errs) > 0 {
		return errs
	}

	l := s.Levels[0]
	a.Present = tablemodel.TableOptions{
		BlockBytes: int64(cmp.Or(l.BlockSize, libraryBlockBytes)),
		FilterBits: float64(l.FilterBitsPerKey),
	}

	a.Present.IndexBytes = cmp.Or(int64(l.IndexBlockSize), a.Present.BlockBytes)
	const above = pebbledb.Levels - 2 // the last level, whose filters Gets do not ask
	bits := float64(s.Levels[above].FilterBitsPerKey)
	if more := float64(s.Levels[above-1].FilterBitsPerKey) - bits; more > 0 && bits > more {
		a.Present.FilterBits, a.Present.ExtraBitsPerLevel = bits-more, more
	}

	a.Kind = pebble(name, l.Compression)
	a.Loading = lsm.Loading{
		BaseBytes:   cmp.Or(s.LBaseMaxBytes, 64<<20),
		BufferBytes: cmp.Or(int64(s.MemTableSize), 4<<20),
		Flushes:     cmp.Or(s.L0CompactionThreshold, 4),
	}

	return nil
}

// optioned fills in what tables of a family with options by name are like.
func (a *Request) optioned(options map[string]string, family string) (err error) {
	a.Options = options
	// else its compactions are of another style
	if load, _, err := rocksoptions.ModelFromOptions(options); err == nil {
		a.Loading = lsm.Loading{
			BaseBytes:   load.BaseBytes,
			BufferBytes: load.MemTableBytes,
			Flushes:     load.L0Tables,
		}
	}

	a.Kind, a.Present, err = rocksoptions.Tables(options, family, func(cacheBytes int64) string {
		_, flag := advice.RocksDBCache(a.Client, cacheBytes)
		return flag
	})

	return err
}

// Choose fills in the levels of a database, or of the column family of it that is asked for, by a
// run of inspect; "" is the largest one.
func (a *Request) Choose(ctx context.Context, run *result.Run, family string) error {
	d := run.Database
	a.Levels, a.Tables = slices.Clone(d.Levels), d.Files
	of, _ := subject.EngineOf(run.Engine.Name)
	values := d.Values
	if of.BlockTables {
		a.Client = inspect.RocksClient(run)
		if family != "" || len(d.Tables) > 0 {
			chosen, err := inspect.Chosen(run, family)
			if err != nil {
				return err
			}

			a.Levels, values = slices.Clone(chosen.Levels), chosen.Values
			a.Source += ", " + chosen.Name
			overrides := maps.Clone(a.Gets.Spec.Overrides)
			if overrides == nil {
				overrides = map[string]string{}
			}

			overrides[TableOption] = chosen.Name
			a.Gets.Spec.Overrides = overrides
		}
	}

	if values != nil {
		return engine.Fail(engine.CodeUsage, "--db: it has values outside of its tables, which "+
			"tune does not rewrite")
	}

	if of.LevelTables {
		if !curve.Traceable(a.Levels) {
			return engine.Fail(engine.CodeUsage, "--db: filters and indexes of %s are too large "+
				"to be traced (at most %s)", of.Name, unit.Bytes(curve.MaxMetadata))
		}

		for i := range a.Levels {
			a.Levels[i].DataCacheBytes = 0 // those of buffers, not of what blocks hold
		}
	}

	if curve.Traceable(a.Levels) {
		all := a.Gets
		all.All = true
		return curve.Describe(ctx, all, a.Levels)
	}

	for i := range a.Levels {
		// of properties, which tell sizes before compression
		if l := &a.Levels[i]; !l.InCacheKnown {
			// of an entry beyond its key and value, and less the prefix that it shares
			const lengthsBytes = 1.4
			l.InCacheKnown, l.DataCacheBytes = true,
				l.RawKeyBytes+l.RawValueBytes+int64(lengthsBytes*float64(l.Keys))
			l.IndexCacheBytes, l.SingleIndexCacheBytes = l.IndexBytes, l.SingleIndexBytes
			l.TopIndexCacheBytes, l.FilterCacheBytes = l.TopIndexBytes, l.FilterBytes
		}
	}

	return nil
}

// TableOption names the column family that Gets go to.
const TableOption = "table"

// ReadStoredOptions fills in what tables of another program's database are like: by its OPTIONS
// file, and by the filters that they have.
func (a *Request) ReadStoredOptions(dir string) error {
	family := a.Gets.Spec.Overrides[TableOption]
	name, sections, err := optionsfile.Read(dir)
	if err != nil {
		return err
	}

	of, _ := subject.EngineOf(a.Gets.Spec.Engine)
	a.Warnings = dbformat.OptionWarnings(filepath.Join(dir, name), sections, func(is string) bool {
		asked := cmp.Or(family, "default")
		return unit.Is(is, asked)
	})
	for _, s := range sections {
		if limit, err := strconv.Atoi(s.Values["max_open_files"]); err == nil {
			a.MaxOpenFiles = limit
		}
	}

	switch {
	case of.BlockTables:
		family = cmp.Or(family, "default")
		options := map[string]string{}
		for _, s := range sections {
			if s.Kind == "DBOptions" || unit.Is(s.Name, family) {
				maps.Copy(options, s.Values)
			}
		}

		if err := a.optioned(options, family); err != nil {
			return err
		}
	case of.LevelTables:
		if errs := a.Profiled(a.Gets.Spec.Profile, nil); len(errs) > 0 {
			return errors.Join(errs...)
		}
	default:
		if client := dbformat.Client(dir, dbformat.Found{Engine: of.Name},
			nil).WithFlags(); client == clients.Geth {
			a.Client = client
		}

		a.Present = tablemodel.TableOptions{
			BlockBytes: libraryBlockBytes,
			IndexBytes: libraryBlockBytes,
		}

		a.Kind = pebble(of.Name, "")
		for _, s := range sections {
			// else not known
			if number := func(name string) (n int64) {
				n, _ = strconv.ParseInt(s.Values[name], 10, 32)
				return n
			}; s.Kind == "Options" {
				a.Loading = lsm.Loading{
					BaseBytes:   number("lbase_max_bytes"),
					BufferBytes: number("mem_table_size"),
					Flushes:     int(number("l0_compaction_threshold")),
				}
			}

			if s.Kind != "Level" || s.Name != "0" {
				continue
			}

			a.Kind = pebble(of.Name, s.Values["compression"])
			for key, to := range map[string]*int64{
				"block_size":       &a.Present.BlockBytes,
				"index_block_size": &a.Present.IndexBytes,
			} {
				if *to, err = strconv.ParseInt(s.Values[key], 10, 32); err != nil || *to < 1 {
					return engine.Fail(engine.CodeDamaged, "%s: %s=%.40q is not a size", name, key,
						s.Values[key])
				}
			}
		}
	}

	a.measured()
	return nil
}

// measured corrects what options say by what the tables have.
func (a *Request) measured() {
	var bytes, keys int64
	parted := false
	for _, l := range a.Levels {
		parted = parted || l.IndexBlocks > 0
		if l.FilterBytes > 0 {
			bytes, keys = bytes+l.FilterBytes, keys+cmp.Or(l.FilterKeys, l.Keys)
		}
	}

	if a.Kind.AlwaysTop && !parted {
		a.Present.IndexBytes, a.Present.PartitionFilters = 0, false
	}

	switch said := a.Present.FilterBits; {
	case keys == 0:
		a.Present.FilterBits = 0
	case said == 0 || !a.Kind.AlwaysTop && a.Kind.FilterBytes == nil:
		// each table's filter is rounded up
		a.Present.FilterBits = math.Floor(8*float64(bytes)/float64(keys) + 0.1)
	}
}

// beyond is that of separators between hashed keys, measured (docs/tuning.md).
const beyond = 0.26

// pebble is what the tables of a version of Pebble with a compression in its own words are like.
func pebble(name, compressed string) tablemodel.TableModel {
	version, present, can := subject.PebbleVersion(name), tablemodel.Compression(compressed),
		[]string{tablemodel.NoCompression, "snappy", "zstd"}
	said := func(t tablemodel.TableOptions) tablemodel.TableOptions {
		if t.Compression == "" && slices.Contains(can, present) {
			t.Compression = present
		}
		return t
	}

	return tablemodel.TableModel{Charge: version.BlockCharge(), NoEarlyExit: true,
		SeparatorGap: beyond, Error: tracedError, Rewrite: "DB.Compact of all keys", Lookup: lookup,
		BufferOption: "MemTableSize", Compression: present, Compressions: can,
		Options: []tablemodel.Option{
			tablemodel.Values(func(t *tablemodel.TableOptions, v int64) { t.BlockBytes = v },
				1<<10, 2<<10, 4<<10, 8<<10, 16<<10, 32<<10, 64<<10),
			tablemodel.Values(func(t *tablemodel.TableOptions, v int64) { t.IndexBytes = v },
				4<<10, 16<<10, 64<<10, 256<<10),
			tablemodel.Values(func(t *tablemodel.TableOptions, v float64) {
				t.FilterBits, t.ExtraBitsPerLevel = v, min(t.ExtraBitsPerLevel, v)
			}, 0, 5, 8, 10, 12, 14, 16, 20),
			// Monkey's optimum is 4.8
			tablemodel.Values(func(t *tablemodel.TableOptions, v float64) {
				t.ExtraBitsPerLevel = min(v, t.FilterBits)
			}, 0, 2, 5),
			tablemodel.Values(func(t *tablemodel.TableOptions, v bool) { t.LastFilters = v },
				false, true),
		},
		OptionMap: func(t tablemodel.TableOptions) map[string]string { return optionsOf(said(t)) },
		Snippet: func(t tablemodel.TableOptions, cacheBytes int64) string {
			return snippet(version, cacheBytes, said(t))
		},
	}
}

// LastFiltersOption is one of reading with which the last level's filters are asked.
const LastFiltersOption = "UseL6Filters"

// optionsOf are the options of statelab's adapters of Pebble, which are named as the library's are.
func optionsOf(t tablemodel.TableOptions) map[string]string {
	var bits []string
	for level := range pebbledb.Levels {
		bits = append(bits, strconv.FormatFloat(t.ForLevel(level).FilterBits, 'f', -1, 64))
	}

	if t.ExtraBitsPerLevel == 0 {
		bits = bits[:1]
	}

	o := map[string]string{
		"BlockSize":        unit.ExactBytes(t.BlockBytes),
		"IndexBlockSize":   unit.ExactBytes(t.IndexBytes),
		"FilterBitsPerKey": strings.Join(bits, ":"),
	}

	if t.LastFilters {
		o[LastFiltersOption] = "true"
	}

	if t.Compression != "" {
		o["Compression"] = t.Compression
	}

	return o
}

// snippet sets the options in a program.
func snippet(version cachesim.PebbleVersion, cacheBytes int64, t tablemodel.TableOptions) string {
	path, filters := "github.com/cockroachdb/pebble", ""
	if version == cachesim.PebbleV2 {
		path += "/v2"
	}

	if t.FilterBits > 0 {
		bits := strconv.Itoa(int(t.FilterBits))
		if t.ExtraBitsPerLevel > 0 {
			bits += fmt.Sprintf(" + %d*(len(options.Levels)-1-i)", int(t.ExtraBitsPerLevel))
		}

		filters = "    options.Levels[i].FilterPolicy = bloom.FilterPolicy(" + bits +
			")\n    options.Levels[i].FilterType = pebble.TableFilter\n"
	}

	name := map[string]string{
		tablemodel.NoCompression: "No",
		"snappy":                 "Snappy",
		"zstd":                   "Zstd",
	}[t.Compression]
	if name != "" {
		value := "pebble." + name + "Compression"
		if version == cachesim.PebbleV2 {
			value = "func() *sstable.CompressionProfile { return sstable." + name + "Compression }"
		}
		filters += "    options.Levels[i].Compression = " + value + "\n"
	}

	if t.LastFilters && version == cachesim.PebbleV1 {
		filters += "}\ncomparer := *pebble.DefaultComparer\ncomparer.Split = func(key []byte) " +
			"int { return len(key) }\noptions.Comparer = &comparer\n"
	} else {
		filters += "}\n"
	}

	levels, packages := "", path+", "+path+"/bloom"
	if version == cachesim.PebbleV2 {
		packages += ", " + path + "/sstable"
	} else {
		levels = "options.Levels = make([]pebble.LevelOptions, 7)\n"
	}

	return fmt.Sprintf("// %s\noptions.Cache = pebble.NewCache(%d)\n%sfor i := range "+
		"options.Levels {\n    options.Levels[i].BlockSize = %d\n"+
		"    options.Levels[i].IndexBlockSize = %d\n%s", packages, cacheBytes, levels,
		t.BlockBytes, t.IndexBytes, filters)
}

// lookup takes the place of DB.Get in a program whose best configuration asks the filters of the
// last level. An absent key's error is pebble.ErrNotFound itself, as DB.Get's is.
const lookup = `// instead of db.Get(key); found: err is nil
get := func(db *pebble.DB, key []byte) (value []byte, err error) {
    i, err := db.NewIter(&pebble.IterOptions{UseL6Filters: true})
    if err != nil {
        return nil, err
    }
    found := i.SeekPrefixGE(key)
    if found {
        value = append(value, i.Value()...)
    }
    if err := i.Close(); err != nil { // also what went wrong before
        return nil, err
    }
    if !found {
        return nil, pebble.ErrNotFound
    }
    return value, nil
}
`

// Rewriting says how a database comes to its options.
func (a *Request) Rewriting() string {
	return fmt.Sprintf("Tables that are there keep their options until a compaction rewrites "+
		"them. To rewrite all of them: %s.", a.Kind.Rewrite)
}
