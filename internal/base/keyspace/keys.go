// Package keyspace makes the keys and values of a database from seeds, so that
// any reader can regenerate and check every pair from its index alone.
//
// Index i < Keys is a key that a complete load has written; index i >= Keys is
// a key that no load writes, spread over the key space like the others.
// Non-goals: which index is asked for next (workload) and where pairs go
// (engine adapters).
package keyspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/crypto/sha3"
	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
)

// Orders and hashes, by the names used in flags and manifests.
const (
	Hashed = "hashed" // index order is random in key order: loading by index is fillrandom
	Sorted = "sorted" // index order is key order: databases that version 0.1.0 built by fillsorted

	Mix = "mix" // splitmix64 words: about 5 ns a key
	// keccak256 of the 32-byte big-endian index, as bench_kvdb does: about 500 ns a key
	Keccak256 = "keccak256"
)

// MinKeyBytes keeps keys unique: the first eight bytes tell all keys apart.
const MinKeyBytes = 8

// What a database is loaded with where nobody says otherwise: those of the published study.
const (
	DefaultKeyBytes   = 32
	DefaultValueBytes = 110
)

// Keys describes the keys of a database.
type Keys struct {
	Count uint64 // keys present
	Bytes int    // of one key
	Order string // Hashed or Sorted
	Hash  string // Mix or Keccak256; Sorted uses Mix
	Seed  uint64 // not used by Keccak256, whose keys equal bench_kvdb's
}

// Check names everything wrong with k.
func (k Keys) Check() (errs []error) {
	if k.Count == 0 {
		errs = append(errs, fmt.Errorf("0 keys: write --keys 5M"))
	}

	if k.Count > 1<<62 {
		errs = append(errs, fmt.Errorf("%d keys are more than can be told apart", k.Count))
	}

	if k.Bytes < MinKeyBytes || k.Bytes > 1<<10 {
		errs = append(errs,
			fmt.Errorf("keys of %d bytes: from %d to 1024, such as --key-bytes 32", k.Bytes,
				MinKeyBytes))
	}

	if k.Order != Hashed && k.Order != Sorted {
		errs = append(errs, fmt.Errorf("key order %q: it is neither hashed nor sorted", k.Order))
	}

	switch {
	case k.Hash != Mix && k.Hash != Keccak256:
		errs = append(errs, fmt.Errorf("key hash %q: write --key-hash mix or keccak256", k.Hash))
	case k.Hash == Keccak256 && k.Bytes != 32:
		errs = append(errs,
			fmt.Errorf("keccak256 keys have 32 bytes, not %d: --key-bytes 32", k.Bytes))
	case k.Hash == Keccak256 && k.Order == Sorted:
		errs = append(errs,
			fmt.Errorf("keccak256 keys cannot be made in sorted order: --key-hash mix"))
	}

	return errs
}

// Maker makes keys for one goroutine without allocating.
type Maker struct {
	keys   Keys
	keccak hash.Hash
	block  [32]byte
}

// Maker returns a maker of k's keys.
func (k Keys) Maker() *Maker {
	m := &Maker{keys: k}
	if k.Hash == Keccak256 {
		m.keccak = sha3.NewLegacyKeccak256()
	}
	return m
}

// Key writes the key of index into dst, which has Keys.Bytes bytes.
func (m *Maker) Key(dst []byte, index uint64) {
	switch {
	case m.keccak != nil:
		m.keccakKey(dst, index)
	case m.keys.Order == Sorted:
		m.sortedKey(dst, index)
	default:
		// splitmix64 is a bijection: different indexes differ in the first word.
		binary.BigEndian.PutUint64(dst, mix(index+m.keys.Seed*golden))
		fill(dst[8:], index, m.keys.Seed^tailSalt)
	}
}

func (m *Maker) keccakKey(dst []byte, index uint64) {
	binary.BigEndian.PutUint64(m.block[24:], index)
	m.keccak.Reset()
	m.keccak.Write(m.block[:]) // a hash never fails
	m.keccak.Sum(dst[:0])
}

// sortedKey cuts the key space into Count equal slots and puts key i somewhere
// in slot i; an absent key shares a slot with a present one.
func (m *Maker) sortedKey(dst []byte, index uint64) {
	slot := index % m.keys.Count
	from, _ := bits.Div64(slot, 0, m.keys.Count)
	to := ^uint64(0)
	if slot+1 < m.keys.Count {
		to, _ = bits.Div64(slot+1, 0, m.keys.Count)
	}

	jitter, _ := bits.Mul64(mix(index+m.keys.Seed*golden), to-from)
	binary.BigEndian.PutUint64(dst, from+jitter)
	fill(dst[8:], index, m.keys.Seed^tailSalt)
}

const (
	golden    = 0x9e3779b97f4a7c15
	tailSalt  = 0x6a09e667f3bcc909
	valueSalt = 0xbb67ae8584caa73b
	tableSalt = 0x3c6ef372fe94f82b
)

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes the splitmix64 stream that starts at (index, salt).
func fill(dst []byte, index, salt uint64) {
	state := mix(index*golden ^ salt)
	for len(dst) >= 8 {
		state += golden
		binary.LittleEndian.PutUint64(dst, mix(state))
		dst = dst[8:]
	}

	if len(dst) > 0 {
		state += golden
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], mix(state))
		copy(dst, last[:])
	}
}

// IndexBytes is what an index takes in the file of WriteOrder, little endian.
const IndexBytes = 8

const (
	bucketPairs   = 1 << 18 // sorted in memory at once, by each worker
	maxBuckets    = 1 << 13 // bounds the buffers; beyond it buckets grow
	bufferedPairs = 256     // of each bucket and worker, between two writes
	pairBytes     = 16
)

// sorter sorts the indexes of hashed keys by their keys on disk. The first word of
// a key is uniform: it tells the bucket, all of about the same size, which then is
// sorted in memory.
type sorter struct {
	keys     Keys
	buckets  uint64
	capacity uint64          // of a bucket, pairs
	filled   []atomic.Uint64 // pairs of each bucket
	pairs    *os.File
	workers  int
	done     func(keys uint64)
}

// WriteOrder writes to the file path the indexes of all keys present in ascending
// order of the keys. A file at path is whole. It takes 16 bytes per key on disk
// besides, and some 30 MiB of memory per worker for up to 2 billion keys. done is
// told how many keys more are finished.
func (k Keys) WriteOrder(
	ctx context.Context, path string, workers int, done func(keys uint64),
) (err error) {
	s := sorter{
		keys:    k,
		buckets: min(k.Count/bucketPairs+1, maxBuckets),
		workers: workers,
		done:    done,
	}

	mean := float64(k.Count) / float64(s.buckets)
	s.capacity = uint64(mean+10*math.Sqrt(mean)) + 1 // ten standard deviations
	s.filled = make([]atomic.Uint64, s.buckets)
	pairsPath, partial := path+".pairs", path+".partial"
	if s.pairs, err = os.Create(pairsPath); err != nil {
		return err
	}

	out, err := os.Create(partial)
	if err != nil {
		return errors.Join(err, s.pairs.Close(), os.Remove(pairsPath))
	}

	if err = s.scatter(ctx); err == nil {
		err = s.sort(ctx, out)
	}

	if err == nil {
		err = out.Sync()
	}

	if err = errors.Join(err, out.Close(), s.pairs.Close(), os.Remove(pairsPath)); err != nil {
		return fmt.Errorf("write %s: %w", partial, err)
	}

	return os.Rename(partial, path)
}

// scatter writes every pair of a key's first word and its index to its bucket.
func (s *sorter) scatter(ctx context.Context) error {
	const chunk = 1 << 14
	var next atomic.Uint64
	group, ctx := errgroup.WithContext(ctx)
	for range s.workers {
		group.Go(func() error {
			buffers := make([][]byte, s.buckets)
			flush := func(bucket uint64) error {
				n := uint64(len(buffers[bucket]) / pairBytes)
				at := s.filled[bucket].Add(n) - n
				if at+n > s.capacity {
					return fmt.Errorf("the keys are not evenly spread: more than %d begin alike",
						s.capacity)
				}

				_, err := s.pairs.WriteAt(buffers[bucket], int64((bucket*s.capacity+at)*pairBytes))
				buffers[bucket] = buffers[bucket][:0]
				return err
			}

			maker, key := s.keys.Maker(), make([]byte, s.keys.Bytes)
			for ctx.Err() == nil {
				from := next.Add(chunk) - chunk
				if from >= s.keys.Count {
					break
				}

				to := min(from+chunk, s.keys.Count)
				for index := from; index < to; index++ {
					maker.Key(key, index)
					bucket, _ := bits.Mul64(binary.BigEndian.Uint64(key), s.buckets)
					buffers[bucket] = binary.LittleEndian.AppendUint64(append(buffers[bucket],
						key[:8]...), index)
					if len(buffers[bucket]) == bufferedPairs*pairBytes {
						if err := flush(bucket); err != nil {
							return err
						}
					}
				}

				s.done((to - from) / 2)
			}

			for bucket := range buffers {
				if err := flush(uint64(bucket)); err != nil {
					return err
				}
			}

			return context.Cause(ctx)
		})
	}

	return group.Wait()
}

// sort writes the indexes of each bucket to out in the order of their keys.
func (s *sorter) sort(ctx context.Context, out *os.File) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.workers)
	before := uint64(0)
	for bucket := range s.buckets {
		n, at := s.filled[bucket].Load(), before
		before += n
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}

			text := make([]byte, n*pairBytes)
			if _, err := s.pairs.ReadAt(text, int64(bucket*s.capacity*pairBytes)); err != nil {
				return err
			}

			pairs := s.spread(text)
			maker, keyA, keyB := s.keys.Maker(), make([]byte, s.keys.Bytes),
				make([]byte, s.keys.Bytes)
			before := func(a, b pair) bool {
				if a.word != b.word {
					return a.word < b.word
				}

				maker.Key(keyA, a.index)
				maker.Key(keyB, b.index)
				return bytes.Compare(keyA, keyB) < 0
			}

			for i := range pairs { // every pair is at its place but for a few
				for j := i; j > 0 && before(pairs[j], pairs[j-1]); j-- {
					pairs[j], pairs[j-1] = pairs[j-1], pairs[j]
				}
			}

			text = text[:0]
			for _, p := range pairs {
				text = binary.LittleEndian.AppendUint64(text, p.index)
			}

			_, err := out.WriteAt(text, int64(at*IndexBytes))
			s.done((n + 1) / 2)
			return err
		})
	}

	return group.Wait()
}

type pair struct{ word, index uint64 }

// spread returns the pairs of a bucket in as many slots as there are pairs, one
// on average.
func (s *sorter) spread(text []byte) []pair {
	n := uint64(len(text) / pairBytes)
	starts, pairs := make([]uint32, n+1), make([]pair, n)
	each := func(yield func(slot uint64, p pair)) {
		for at := 0; at < len(text); at += pairBytes {
			word := binary.BigEndian.Uint64(text[at:])
			_, inBucket := bits.Mul64(word, s.buckets)
			slot, _ := bits.Mul64(inBucket, n)
			yield(slot, pair{word, binary.LittleEndian.Uint64(text[at+8:])})
		}
	}

	each(func(slot uint64, _ pair) { starts[slot+1]++ })
	for slot := range n {
		starts[slot+1] += starts[slot]
	}

	each(func(slot uint64, p pair) {
		pairs[starts[slot]] = p
		starts[slot]++
	})

	return pairs
}

// ManifestPath is where a database's manifest stands. Engines ignore the folder.
func ManifestPath(dir string) string {
	return filepath.Join(dir, engine.OwnFolder, "manifest.json")
}

// Manifest says what a database holds, so that any reader can regenerate and
// check every key and value.
type Manifest struct {
	Schema     string            `json:"schema"`
	Engine     string            `json:"engine"`
	Version    string            `json:"engine_version"`
	Profile    string            `json:"profile"`
	Overrides  map[string]string `json:"overrides,omitempty"`
	Workload   string            `json:"workload"` // fillrandom or fillsorted
	Keys       uint64            `json:"keys"`
	KeyBytes   int               `json:"key_bytes"`
	KeyOrder   string            `json:"key_order"`
	KeyHash    string            `json:"key_hash"`
	ValueModel string            `json:"value_model"`
	ValueBytes int               `json:"value_bytes"`
	Seed       uint64            `json:"seed"`
	BatchKeys  int               `json:"batch_keys"`

	// Loaded keys: indexes below it are durably in the database. Equal to Keys
	// once the load is complete.
	Loaded  uint64 `json:"loaded"`
	Settled bool   `json:"settled"` // background work had ended when the load did
	// MaxVersion is how many times any key may have been overwritten.
	MaxVersion uint32 `json:"max_version"`
	// Age is how long the load was to overwrite keys, Aged how many rounds it has.
	Age  string `json:"age,omitempty"`
	Aged uint32 `json:"aged,omitempty"`
}

// KeySpace returns the manifest's keys.
func (m *Manifest) KeySpace() Keys {
	return Keys{Count: m.Keys, Bytes: m.KeyBytes, Order: m.KeyOrder, Hash: m.KeyHash, Seed: m.Seed}
}

// Values returns the manifest's values.
func (m *Manifest) Values() (*Values, error) {
	return NewValues(m.ValueModel, m.ValueBytes, m.Seed)
}

// WriteManifest writes the manifest of the database in dir, whole or not at all.
func WriteManifest(dir string, m *Manifest) error {
	m.Schema = schema.Manifest
	path := ManifestPath(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return output.WriteJSON(path, m)
}

// ErrNoManifest says that the database was not loaded by statelab.
var ErrNoManifest = errors.New("no statelab manifest")

// ReadManifest reads and checks the manifest of the database in dir.
func ReadManifest(dir string) (*Manifest, error) {
	path := ManifestPath(dir)
	m, err := output.ReadJSON(path, schema.Manifest, func(m *Manifest) string { return m.Schema })
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrNoManifest
	case err != nil:
		return nil, err
	}

	if err := m.check(); err != nil {
		return nil, engine.Fail(engine.CodeDamaged, "%s is damaged: %w", path, err)
	}

	return m, nil
}

func (m *Manifest) check() error {
	if m.Loaded > m.Keys {
		return fmt.Errorf("it claims %d loaded of %d keys", m.Loaded, m.Keys)
	}
	_, err := m.Values()
	return errors.Join(append(m.KeySpace().Check(), err)...)
}
