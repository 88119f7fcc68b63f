package tune

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/model/reblock"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// sampledEntries are looked at to learn how blocks compress.
const sampledEntries = 8000

// entry is a key with its value.
type entry struct{ key, value []byte }

// readEntries takes some entries: made again where statelab loaded or would load the database, and otherwise read where its engine is
// in this process. Without them, blocks of all sizes are taken to compress as those that are there.
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
	db, err := dbformat.Open(ctx, s.Gets.Engine, engine.Options{Dir: spec.Dir, Profile: spec.Profile, Overrides: spec.Overrides, Foreign: true, ReadOnly: true,
		IgnoreLock: spec.IgnoreLock})
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

// stored is the share of a data block's bytes that it has when it is stored, by blocks of the entries; 1 of a compression that cannot
// be tried.
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
			block = append(append(append(block, e.key...), make([]byte, sequenceBytes)...), e.value...)
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

// compressed is the option of the compressions that the engine takes and that can be predicted: without entries to try others with,
// that is none at all.
func (s *search) compressed() reblock.Option {
	var can []string
	_, tried := compressors()[s.kind.Compression]
	for _, name := range s.kind.Compressions {
		to := s.Present
		to.Compression = name
		spec := &s.Gets.Spec
		switch {
		case name == s.kind.Compression:
			can = append(can, "")
		case name != reblock.NoCompression && (len(s.entries) == 0 || !tried && s.kind.Compression != reblock.NoCompression):
		case s.Gets.Engine != nil && len(s.Gets.Engine.Check(engine.Options{Profile: spec.Profile, Overrides: s.kind.Words(to)})) > 0:
		default:
			can = append(can, name)
		}
	}
	return reblock.Values(func(t *reblock.Tables, v string) { t.Compression = v }, can...)
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
