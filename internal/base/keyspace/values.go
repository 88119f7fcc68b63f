package keyspace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

// Value models, by the names used in flags and manifests.
const (
	Random   = "random"    // incompressible, different for every key and version
	Table32  = "table32"   // one of 32 values: compresses inside a block, as in bench_kvdb's published logs
	TrieNode = "trie-node" // sizes and bytes like the RLP nodes of a Merkle Patricia trie
)

// Values describes the values of a database. A value carries its version (how
// often its key was written before), so that any value read can be checked.
type Values struct {
	Model string
	Bytes int // of one value; trie-node has sizes of its own and ignores it
	Seed  uint64
	table [][]byte // Table32
}

const (
	versionBytes      = 4
	minVersionedBytes = 8 // shorter values are the same in every version
	tableRows         = 32
	maxValueBytes     = 64 << 20
)

// NewValues checks the description and prepares it.
func NewValues(model string, valueBytes int, seed uint64) (*Values, error) {
	v := &Values{Model: model, Bytes: valueBytes, Seed: seed}
	switch model {
	case Random, TrieNode:
	case Table32:
		v.table = make([][]byte, tableRows)
		for row := range v.table {
			v.table[row] = make([]byte, valueBytes)
			fill(v.table[row], uint64(row), seed^tableSalt)
		}
	default:
		return nil, fmt.Errorf("value model %q: write --value-model random, table32 or trie-node", model)
	}
	if valueBytes < 0 || valueBytes > maxValueBytes {
		return nil, fmt.Errorf("values of %d bytes: from 0 to 64 MiB, such as --value-bytes 110", valueBytes)
	}
	return v, nil
}

// MeanBytes is the expected size of a value.
func (v *Values) MeanBytes() float64 {
	if v.Model != TrieNode {
		return float64(v.Bytes)
	}
	const sampled = 4096
	total := 0
	for i := uint64(0); i < sampled; i++ {
		total += trieNodeBytes(shapeOf(i, v.Seed))
	}
	return float64(total) / sampled
}

// Value writes the value of index in its version behind dst[:0] and returns it.
func (v *Values) Value(dst []byte, index uint64, version uint32) []byte {
	switch v.Model {
	case Table32:
		return append(dst[:0], v.table[v.row(index, version)]...)
	case TrieNode:
		return appendTrieNode(dst[:0], shapeOf(index, v.Seed), index, v.Seed, version)
	}
	dst = slices.Grow(dst[:0], v.Bytes)[:v.Bytes]
	if v.Bytes < minVersionedBytes {
		version = 0
	}
	fill(dst, index, v.Seed^valueSalt^uint64(version)*golden)
	if v.Bytes >= minVersionedBytes {
		putVersion(dst, index, version)
	}
	return dst
}

func (v *Values) row(index uint64, version uint32) uint64 {
	return mix(index+uint64(version)*golden^v.Seed) % tableRows
}

// Acknowledged are the keys of which a commit of the newest version has returned. One
// set is shared by those who write and those who read.
type Acknowledged struct{ words []atomic.Uint64 }

// maxAcknowledged bounds the memory of a set to 8 MiB: of larger databases the first
// keys are followed, which hashing has spread over all.
const maxAcknowledged = 64 << 20

// NewAcknowledged is an empty set of keys below keys.
func NewAcknowledged(keys uint64) *Acknowledged {
	return &Acknowledged{words: make([]atomic.Uint64, (min(keys, maxAcknowledged)+63)/64)}
}

// Add notes that the newest version of a key has been acknowledged.
func (a *Acknowledged) Add(index uint64) {
	if word := index / 64; word < uint64(len(a.words)) {
		a.words[word].Or(1 << (index % 64))
	}
}

// Has reports whether a Get that starts now must find the newest version.
func (a *Acknowledged) Has(index uint64) bool {
	return index/64 < uint64(len(a.words)) && a.words[index/64].Load()&(1<<(index%64)) != 0
}

// Checker checks values for one goroutine without allocating.
type Checker struct {
	values     *Values
	maxVersion uint32
	want       []byte
}

// Checker returns a checker that accepts versions up to maxVersion.
func (v *Values) Checker(maxVersion uint32) *Checker {
	return &Checker{values: v, maxVersion: maxVersion}
}

// Check returns an error unless got is a value that index may have: any version up to
// the newest, or that alone.
func (c *Checker) Check(got []byte, index uint64, newest bool) error {
	version := uint32(0)
	switch c.values.Model {
	case Table32:
		if newest {
			version = c.maxVersion
		}
		if c.maxVersion == 0 || newest {
			break
		}
		for _, row := range c.values.table {
			if bytes.Equal(got, row) {
				return nil
			}
		}
		return engine.Fail(engine.CodeWrong, "value of %d bytes is none of the 32 of its table", len(got))
	case TrieNode:
		version = trieNodeVersion(got, index)
	default:
		if len(got) >= minVersionedBytes {
			version = takeVersion(got, index)
		}
	}
	if version > c.maxVersion {
		return engine.Fail(engine.CodeWrong, "value of %d bytes is damaged: it claims version %d, the database knows %d", len(got), version, c.maxVersion)
	}
	c.want = c.values.Value(c.want, index, version)
	if newest && version < c.maxVersion && len(c.want) >= minVersionedBytes && bytes.Equal(got, c.want) {
		return engine.Fail(engine.CodeWrong, "lost update: version %d of the value, but version %d was acknowledged before the Get", version, c.maxVersion)
	}
	if !bytes.Equal(got, c.want) {
		return engine.Fail(engine.CodeWrong, "value differs from what was written: %d bytes, expected %d", len(got), len(c.want))
	}
	return nil
}

func putVersion(dst []byte, index uint64, version uint32) {
	binary.LittleEndian.PutUint32(dst, version^uint32(mix(index^valueSalt)))
}

func takeVersion(value []byte, index uint64) uint32 {
	return binary.LittleEndian.Uint32(value) ^ uint32(mix(index^valueSalt))
}
