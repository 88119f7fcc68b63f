package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/result"
)

// measureInstead is the remedy where growth is not predicted; %s is the folder of a database.
const measureInstead = "measure caches instead: statelab sweep --use-existing --db %s --cache " +
	"64MiB,256MiB,1GiB"

// growing is a column family whose growth is predicted.
type growing struct {
	table  fidelity.Table
	levels []engine.Level // with what their blocks take in a cache, less what it charges for each
	how    lsm.Leveled
	reads  *predict.BlockTables
}

// GrowRocksDB adds to advice about a database of RocksDB what becomes of it when its state grows.
// Of the tables it needs the properties alone, however large they are.
func GrowRocksDB(
	ctx context.Context, out *advise.RocksAdvice, run *result.Run, to advise.Grown, missing float64,
	seed uint64, tell func(done int),
) error {
	f, err := growingFamily(out, run)
	if err != nil {
		return err
	}

	m := advise.Model{
		Levels: f.levels,
		Input: predict.Input{
			Blocks:      f.reads,
			Cores:       1,
			AbsentShare: missing,
			Seeds:       []uint64{seed},
		},
		RestReserve: func(int64) int64 { return 0 },
	}

	present := advise.Place{
		CacheBytes:       out.NowBytes,
		BlockCacheBytes:  out.NowBytes,
		BlockReadsPerGet: out.Now.BlockReadsPerGet,
	}
	if out.Reads == nil { // another model told them, of data blocks alone
		if present, err = advise.PresentPlace(ctx, m, out.NowBytes); err != nil {
			return fmt.Errorf("--state-growth: %w", err)
		}
	}

	if out.Growth, err = advise.Grow(ctx, m, present, f.how.Grow, to, tell); err != nil {
		return fmt.Errorf("--state-growth: %w", err)
	}

	return addOthers(out.Growth, run, f.table.Name)
}

// growTrace adds to advice for a trace what becomes of its Gets when the state grows: each block
// becomes so many, among which its Gets divide at random, as those of different keys would.
func growTrace(
	ctx context.Context, out *advise.RocksAdvice, run *result.Run, t *cachesim.Trace,
	setup cachesim.Setup, to advise.Grown, seed uint64,
) error {
	if !slices.ContainsFunc(t.Blocks, func(b cachesim.Block) bool { return b.Level > 0 }) {
		return engine.Fail(engine.CodeUnsupported, "--state-growth: Gets of the trace ask for "+
			"blocks in level 0 alone, whose growth is not predicted").
			WithRemedy("let compactions finish, and trace again")
	}

	grown, err := grownTrace(t, to.Factor, seed)
	if err != nil {
		return fmt.Errorf("--state-growth: %w", err)
	}

	whole := int64(0)
	for i := range grown.Blocks {
		if b := &grown.Blocks[i]; b.Marks&cachesim.Uncached == 0 {
			whole += setup.Charge(b)
		}
	}

	g := &advise.Growth{
		Grown:        to,
		Bytes:        int64(math.Round(to.Factor * float64(Bytes(run.Database)))),
		Tables:       int(math.Round(to.Factor * float64(run.Database.Files))),
		OutsideBytes: int64(math.Round(to.Factor * float64(out.OutsideBytes))),
	}
	const unevenShards = 2
	return out.GrowTrace(g, unevenShards*whole, func(cacheBytes int64) (float64, error) {
		return readsOfTrace(ctx, grown, setup, cacheBytes)
	})
}

// grownTrace is a trace in a database of factor times the blocks. What is in level 0 stays.
func grownTrace(t *cachesim.Trace, factor float64, seed uint64) (*cachesim.Trace, error) {
	grown := &cachesim.Trace{
		WarmupGets: t.WarmupGets,
		Events:     t.Events,
		Filled:     t.Filled,
		CacheKeys:  t.CacheKeys,
	}

	const apart = 40 // bits of an offset in a table
	random, get := rand.New(rand.NewPCG(seed, 0)), 0
	at := 0.0
	for i, number := range t.Accesses {
		for ; get < len(t.Gets) && t.Gets[get] == uint32(i); get++ {
			grown.BeginGet()
			at = random.Float64() // the blocks of a Get are of one key
		}

		b := t.Blocks[number]
		if b.Level > 0 {
			b.Offset += uint64(at*factor) << apart
		}

		if err := grown.Touch(b); err != nil {
			return nil, err
		}
	}

	for ; get < len(t.Gets); get++ { // without an access
		grown.BeginGet()
	}

	return grown, nil
}

// addOthers lets the disk of other column families grow in proportion.
func addOthers(g *advise.Growth, run *result.Run, family string) error {
	tables, err := Tables(run)
	for _, t := range tables {
		for _, l := range t.Levels {
			if t.Name != family {
				g.Bytes += int64(math.Round(g.Factor * float64(l.Bytes)))
				g.Tables += int(math.Round(g.Factor * float64(l.Files)))
			}
		}
	}
	return err
}

// growingFamily is the column family that Gets of the advice go to, if its growth can be predicted.
func growingFamily(out *advise.RocksAdvice, run *result.Run) (f growing, err error) {
	dir := run.Database.Dir
	refuse := func(remedy, format string, args ...any) (growing, error) {
		return f, engine.Fail(engine.CodeUnsupported, "--state-growth: "+format, args...).
			WithRemedy("%s", remedy)
	}

	if len(out.Tables) > 1 {
		return refuse("name one with --table", "Gets go to %d column families, and growth is "+
			"predicted of Gets of one", len(out.Tables))
	}

	if f.table, err = Chosen(run, out.Tables[0].Name); err != nil {
		return f, err
	}

	name := cmp.Or(f.table.Name, onlyFamily)
	if v := f.table.Values; v != nil && v.Bytes > 0 {
		return refuse(fmt.Sprintf(measureInstead, dir), "column family %s keeps %s of values in "+
			"blob files, and the sizes of its levels do not tell how these grow", name,
			unit.Bytes(v.Bytes))
	}

	for _, c := range out.Costly {
		if c.Filters == nil {
			return refuse(fmt.Sprintf("set %s to %s, then ask again", c.Option, c.Instead),
				"%s=%s makes Gets read what no cache holds, which does not follow from the sizes "+
					"of levels", c.Option, c.Value)
		}
	}

	if !slices.ContainsFunc(f.table.Levels, func(l engine.Level) bool {
		return l.Level > 0 && l.Keys > 0
	}) {
		return refuse("let compactions finish first", "column family %s of %s has no tables below "+
			"L0, from whose sizes those of a larger state follow", name, dir)
	}

	file, sections, err := optionsfile.Read(dir)
	switch {
	case err != nil:
		return f, err
	case file == "":
		return refuse("open it for writing with its program, which writes the file",
			"%s has no OPTIONS file, so how it is compacted is not known", dir)
	}

	options := map[string]string{}
	for _, s := range sections {
		if s.Kind == "DBOptions" || unit.Printable(s.Name) == name {
			maps.Copy(options, s.Values)
		}
	}

	if f.how, f.reads, err = rocksoptions.GrowthFromOptions(options); err != nil {
		return refuse("load a state of that size with these options and "+
			fmt.Sprintf(measureInstead, "ITS_DIR"), "column family %s: %v", name, err)
	}

	f.levels = ofProperties(f.table.Levels)
	return f, nil
}

// ofProperties are levels of RocksDB with what their blocks take in a cache, less what it charges
// for each: tables' properties tell sizes before compression.
func ofProperties(levels []engine.Level) []engine.Level {
	levels = slices.Clone(levels)
	for i := range levels {
		l := &levels[i]
		l.InCacheKnown = true
		l.IndexCacheBytes, l.SingleIndexCacheBytes = l.IndexBytes, l.SingleIndexBytes
		l.TopIndexCacheBytes = l.TopIndexBytes
		l.DataCacheBytes, l.FilterCacheBytes = rawBytes(l), l.FilterBytes
	}
	return levels
}

// rawBytes are about those of the data blocks of a level, before compression.
func rawBytes(l *engine.Level) int64 {
	const lengthsBytes = 1.4 // of an entry beyond its key and value, less what its key shares
	return l.RawKeyBytes + l.RawValueBytes + int64(lengthsBytes*float64(l.Keys))
}
