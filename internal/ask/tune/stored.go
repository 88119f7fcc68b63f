package tune

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
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

// stored is the share of a data block's bytes that it has when it is stored, by blocks of the entries.
func (s *search) stored(blockBytes int64) float64 {
	if known, is := s.ratios[blockBytes]; is {
		return known
	}
	ratio := 1.0
	if compress := compressors()[strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(s.Compression), "k"), "compression")]; compress != nil {
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
	s.ratios[blockBytes] = ratio
	return ratio
}

// sequenceBytes are those behind a key in a table, of which the last level has zeros.
const sequenceBytes = 8

// compressors are the compressions that can be tried, by their names in small letters.
func compressors() map[string]func([]byte) []byte {
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
			w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
			if err != nil {
				return block
			}
			defer w.Close()
			return w.EncodeAll(block, nil)
		},
	}
}
