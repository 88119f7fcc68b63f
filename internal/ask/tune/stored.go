package tune

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/tablemodel"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// sampledEntries are looked at to learn how blocks compress.
const sampledEntries = 8000

// entry is a key with its value.
type entry struct{ key, value []byte }

// readEntries takes some entries: made again where statelab loaded or would load the database, and
// otherwise read where its engine is in this process. Without them, blocks of all sizes are taken
// to compress as those that are there.
func (s *search) readEntries(ctx context.Context) (err error) {
	m, spec := s.Manifest, &s.Gets.Spec
	if m == nil {
		m, err = keyspace.ReadManifest(spec.Dir)
	}

	switch {
	case errors.Is(err, keyspace.ErrNoManifest) && s.Gets.Engine != nil:
		err = s.lookUp(ctx)
	case errors.Is(err, keyspace.ErrNoManifest):
		return nil
	case err == nil:
		s.Manifest = m
		err = s.makeAgain(m)
	}

	slices.SortFunc(s.entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	return err
}

func (s *search) makeAgain(m *keyspace.Manifest) error {
	values, err := m.Values()
	if err != nil {
		return err
	}

	maker := m.KeySpace().Maker()
	for i := range min(m.Keys, sampledEntries) {
		e := entry{make([]byte, m.KeyBytes), values.Value(nil, i, 0)}
		maker.Key(e.key, i)
		s.entries = append(s.entries, e)
	}

	return nil
}

func (s *search) lookUp(ctx context.Context) (err error) {
	spec := &s.Gets.Spec
	db, err := dbformat.Open(ctx, s.Gets.Engine, engine.Options{
		Dir:        spec.Dir,
		Profile:    spec.Profile,
		Overrides:  spec.Overrides,
		Foreign:    true,
		ReadOnly:   true,
		IgnoreLock: spec.IgnoreLock,
	})
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	sampler, is := db.(engine.KeySampler)
	reader, err := db.Reader()
	if err != nil || !is {
		return err
	}

	defer func() { err = errors.Join(err, reader.Close()) }()
	return sampler.SampleKeys(ctx, sampledEntries, s.Seeds[0], func(key []byte) error {
		value, found, err := reader.Get(key, nil)
		if found {
			s.entries = append(s.entries, entry{bytes.Clone(key), value})
		}
		return err
	})
}

// ratioOf are data blocks of a size in a compression.
type ratioOf struct {
	blockBytes  int64
	compression string
}

// stored is the share of a data block's bytes that it has when it is stored, by blocks of the
// entries; 1 of a compression that cannot be tried.
func (s *search) stored(blockBytes int64, compression string) float64 {
	of := ratioOf{blockBytes, cmp.Or(compression, s.kind.Compression)}
	if known, is := s.ratios[of]; is {
		return known
	}

	ratio := 1.0
	if compress := compressors()[of.compression]; compress != nil {
		raw, stored := 0, 0
		var block []byte
		for i, e := range s.entries {
			block = binary.AppendUvarint(append(block, 0, byte(len(e.key))), uint64(len(e.value)))
			block = append(append(append(block, e.key...), make([]byte, sequenceBytes)...),
				e.value...)
			if int64(len(block)) >= blockBytes || i == len(s.entries)-1 && raw == 0 {
				// Engines keep a block that does not become smaller by an eighth as it is.
				n := len(compress(block))
				if n >= len(block)-len(block)/8 {
					n = len(block)
				}

				raw, stored, block = raw+len(block), stored+n, block[:0]
			}
		}

		if raw > 0 {
			ratio = float64(stored) / float64(raw)
		}
	}

	s.ratios[of] = ratio
	return ratio
}

// compressed is the option of the compressions that the engine takes and that can be predicted:
// without entries to try others with, that is none at all.
func (s *search) compressed() tablemodel.Option {
	var can []string
	_, tried := compressors()[s.kind.Compression]
	for _, name := range s.kind.Compressions {
		to := s.Present
		to.Compression = name
		spec := &s.Gets.Spec
		switch {
		case name == s.kind.Compression:
			can = append(can, "")
		case name != tablemodel.NoCompression &&
			(len(s.entries) == 0 || !tried && s.kind.Compression != tablemodel.NoCompression):
		case s.Gets.Engine != nil &&
			len(s.Gets.Engine.Check(engine.Options{
				Profile:   spec.Profile,
				Overrides: s.kind.OptionMap(to),
			})) > 0:
		default:
			can = append(can, name)
		}
	}

	return tablemodel.Values(func(t *tablemodel.TableOptions, v string) { t.Compression = v },
		can...)
}

// sequenceBytes are those behind a key in a table, of which the last level has zeros.
const sequenceBytes = 8

// compressors are the compressions that can be tried, by their names in small letters.
func compressors() map[string]func([]byte) []byte {
	var w *zstd.Encoder // which is large
	return map[string]func([]byte) []byte{
		"snappy": func(block []byte) []byte { return snappy.Encode(nil, block) },
		"lz4": func(block []byte) []byte {
			to := make([]byte, lz4.CompressBlockBound(len(block)))
			n, err := lz4.CompressBlock(block, to, nil)
			if err != nil || n == 0 {
				return block // it does not become smaller
			}

			return to[:n]
		},
		"zstd": func(block []byte) []byte {
			if w == nil {
				var err error
				if w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
					return block
				}
			}

			return w.EncodeAll(block, nil)
		},
	}
}

// Runner measures a point of an engine, in a process of its own.
type Runner func(ctx context.Context, spec *bench.Spec) (*result.Run, error)

// measureCosts measures in small databases what Gets cost a processor: all of one with blocks of
// two sizes, which tells what a block and its bytes cost, and blocks of each other compression. nil
// if the goal is not time.
func (s *search) measureCosts(ctx context.Context) (_ *tuned.Costs, err error) {
	if s.Goal != Time {
		return nil, nil
	}

	if s.costs = s.kept.Costs; s.costs != nil {
		return s.costs, nil
	}

	dir, err := os.MkdirTemp("", "statelab-costs-")
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	const small, large = 4 << 10, 32 << 10
	measure := func(blockBytes int64, compression string, lastFilters bool) (get, read float64) {
		to := s.Present
		if to.BlockBytes, to.Compression = blockBytes, compression; s.kind.NoEarlyExit {
			to.LastFilters = lastFilters
		}

		if err == nil {
			get, read, err = s.costOf(ctx, dir, to)
		}

		return get, read
	}

	smallGet, smallRead := measure(small, tablemodel.NoCompression, false)
	largeGet, largeRead := measure(large, tablemodel.NoCompression, false)
	getEach, getByte := costPerByte(small, smallGet, large, largeGet)
	readEach, readByte := costPerByte(small, smallRead, large, largeRead)
	c := &tuned.Costs{
		GetByte: getByte,
		Get:     getEach,
		Read:    readEach,
		ReadByte: map[string]float64{
			s.kind.Compression:       readByte,
			tablemodel.NoCompression: readByte,
		},
	}

	for _, to := range s.compressed()(s.Present) {
		if name := cmp.Or(to.Compression, s.kind.Compression); name != tablemodel.NoCompression {
			_, read := measure(large, name, false)
			c.ReadByte[name] = max(readByte, (read-c.Read)/large)
		}
	}

	if s.kind.NoEarlyExit {
		looked, _ := measure(small, tablemodel.NoCompression, true)
		c.LastFilters = max(0, looked-smallGet)
	}

	s.costs, s.kept.Costs = c, c
	return c, err
}

// costPerByte are the costs of a block and of each of its bytes, from those of small and of large
// blocks. Neither is negative: two measurements beside other work can differ by more than the bytes
// cost.
func costPerByte(smallBytes, small, largeBytes, large float64) (each, perByte float64) {
	perByte = min(max(0, (large-small)/(largeBytes-smallBytes)), small/smallBytes)
	return small - smallBytes*perByte, perByte
}

// costOf is what a Get costs a processor that finds all blocks in the cache, and a block that it
// reads from the page cache, in nanoseconds, with tables of settings to.
func (s *search) costOf(
	ctx context.Context, dir string, to tablemodel.TableOptions,
) (get, read float64, err error) {
	dir, err = os.MkdirTemp(dir, "")
	if err != nil {
		return 0, 0, err
	}

	const dataBytes, maxKeys, minKeys, all = 4 << 20, 30_000, 2_000, 64 << 20
	spec := bench.Spec{
		Schema:     schema.EngineSpec,
		Engine:     s.Gets.Spec.Engine,
		Dir:        filepath.Join(dir, "D"),
		Profile:    s.Gets.Spec.Profile,
		Overrides:  s.kind.OptionMap(to),
		PageCache:  bench.AsIs,
		KeyHash:    keyspace.Mix,
		BatchKeys:  100,
		Seed:       1,
		Threads:    1,
		Verb:       bench.Load,
		Workload:   workload.FillRandom,
		CacheBytes: all,
		KeyBytes:   32,
		ValueBytes: 110,
		ValueModel: "trie-node",
	}

	if m := s.Manifest; m != nil {
		spec.KeyBytes, spec.ValueBytes, spec.ValueModel = m.KeyBytes, m.ValueBytes, m.ValueModel
	}

	spec.Keys = uint64(min(max(dataBytes/(spec.KeyBytes+spec.ValueBytes), minKeys), maxKeys))
	run := func() (*result.Run, error) {
		spec.Out, err = os.MkdirTemp(dir, "")
		if err != nil {
			return nil, err
		}
		return s.Run(ctx, &spec)
	}

	s.Tell(result.Event{Phase: "measuring what a Get costs"})
	if _, err := run(); err != nil {
		return 0, 0, err
	}

	spec.Verb, spec.Workload, spec.ReadOnly = bench.Read, workload.ReadRandom, true
	spec.MissingShare, spec.Gets, spec.WarmupGets = s.absent, 2*spec.Keys, 2*spec.Keys
	var cpu, reads [2]float64
	for i, cacheBytes := range []int64{all, dataBytes / 4} {
		spec.CacheBytes = cacheBytes
		measured, err := run()
		if err != nil {
			return 0, 0, err
		}

		if !measured.Figures.Has(figure.BlockReadsPerGet) {
			return 0, 0, fmt.Errorf("measure what a Get costs: block reads were not counted")
		}

		cpu[i], reads[i] = measured.Figures.OrZero(figure.CPUTimePerGet),
			measured.Figures.OrZero(figure.BlockReadsPerGet)
	}

	if more := reads[1] - reads[0]; more > 0 {
		read = max(0, (cpu[1]-cpu[0])/more)
	}

	return max(0, cpu[0]-reads[0]*read), read, nil
}

// time fills in what a Get of a configuration costs, unless that is not asked for.
func (s *search) time(c *tuned.Config, to tablemodel.TableOptions) error {
	if s.costs == nil {
		return nil
	}

	_, raw, err := s.means(to)
	if err != nil {
		return err
	}

	k, ns := s.costs, s.costs.Get+s.costs.GetByte*float64(to.BlockBytes)
	if s.kind.NoEarlyExit && to.LastFilters {
		ns += k.LastFilters
	}

	for i, bytes := range raw {
		kind, compression := engine.BlockType(i), cmp.Or(to.Compression, s.kind.Compression)
		if kind == engine.Filter {
			compression = tablemodel.NoCompression
		}
		ns += c.ByType[kind.String()] * (k.Read + k.ReadByte[compression]*bytes)
	}

	const micro = 1e3
	c.CPU = figure.Known(ns / micro)
	c.Time = figure.Known(ns/micro + c.Reads*float64(s.ReadTime.Nanoseconds())/micro)
	return nil
}

// KeptFile is what an unfinished search leaves in the folder of its answer.
const KeptFile = "predicted.json"

// VerifyFolder has the databases and runs of --verify, in the folder of the answer.
const VerifyFolder = "verify"

// Folder takes the folder of the answer: a new one, or that of a search that was interrupted, in
// which nothing is measured yet.
func Folder(out string, goesOn bool) (free func() error, err error) {
	if !goesOn {
		return output.MakeFolder(out)
	}
	held, err := output.LockDir(out)
	if err != nil {
		return nil, err
	}
	return held.Close, os.RemoveAll(filepath.Join(out, VerifyFolder))
}

// kept are the configurations that a search has predicted.
type kept struct {
	Schema    string      `json:"schema"`
	Question  string      `json:"question"` // a hash of all that predictions depend on
	Predicted []predicted `json:"predicted"`
	// Costs are those on which the predictions of time rest.
	Costs *tuned.Costs `json:"costs,omitempty"`
}

type predicted struct {
	Samples int                     `json:"samples"` // from which it was
	Tables  tablemodel.TableOptions `json:"tables"`
	Config  tuned.Config            `json:"config"`
}

// question is a hash of all that the predictions of the search depend on.
func (s *search) question() (string, error) {
	spec := &s.Gets.Spec
	text, err := json.Marshal([]any{s.Source, s.Gets.Version, spec.Engine, spec.Profile,
		spec.Overrides, spec.MissingShare, spec.AccessList,
		spec.KeyScheme, s.gets, s.Trace, s.MemoryBytes, s.Cores, s.Seeds, s.OnlyLevels, s.Present,
		s.Options, s.Levels, s.kind.Compression,
		s.Goal == Time, s.ReadTime, s.limit})
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// resume takes over what an interrupted search of the same question has kept.
func (s *search) resume() error {
	if s.Keep == "" {
		return nil
	}

	question, err := s.question()
	if err != nil {
		return err
	}

	before, err := output.ReadJSON(s.Keep, schema.TunePredictions,
		func(k *kept) string { return k.Schema })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		before = &kept{Schema: schema.TunePredictions, Question: question}
	case err != nil:
		return err
	case before.Question != question:
		return engine.Fail(engine.CodeExists, "%s is of a search with other flags or of another "+
			"database: choose another folder", s.Keep)
	}

	s.kept = *before
	s.recall()
	return nil
}

// recall makes those predictions known that were made from as many samples as there are.
func (s *search) recall() {
	clear(s.known)
	for _, p := range s.kept.Predicted {
		if p.Samples == len(s.samples) {
			s.known[p.Tables] = p.Config
		}
	}
}

// keep remembers predictions.
func (s *search) keep(some []tablemodel.TableOptions, configs []tuned.Config) error {
	for i, to := range some {
		s.known[to] = configs[i]
		s.kept.Predicted = append(s.kept.Predicted, predicted{len(s.samples), to, configs[i]})
	}
	if s.Keep == "" {
		return nil
	}
	return output.WriteJSON(s.Keep, s.kept)
}
