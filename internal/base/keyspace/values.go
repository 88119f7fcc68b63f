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
	Random = "random" // incompressible, different for every key and version
	// one of 32 values: compresses inside a block, as in bench_kvdb's published logs
	Table32  = "table32"
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
		return nil, fmt.Errorf("value model %q: write --value-model random, table32 or trie-node",
			model)
	}

	if valueBytes < 0 || valueBytes > maxValueBytes {
		return nil, fmt.Errorf("values of %d bytes: from 0 to 64 MiB, such as --value-bytes 110",
			valueBytes)
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

		return engine.Fail(engine.CodeWrongAnswer,
			"value of %d bytes is none of the 32 of its table", len(got))
	case TrieNode:
		version = trieNodeVersion(got, index)
	default:
		if len(got) >= minVersionedBytes {
			version = takeVersion(got, index)
		}
	}

	if version > c.maxVersion {
		return engine.Fail(engine.CodeWrongAnswer, "value of %d bytes is damaged: it claims "+
			"version %d, the database knows %d", len(got), version, c.maxVersion)
	}

	c.want = c.values.Value(c.want, index, version)
	if newest && version < c.maxVersion && len(c.want) >= minVersionedBytes &&
		bytes.Equal(got, c.want) {
		return engine.Fail(engine.CodeWrongAnswer, "lost update: version %d of the value, but "+
			"version %d was acknowledged before the Get", version, c.maxVersion)
	}

	if !bytes.Equal(got, c.want) {
		return engine.Fail(engine.CodeWrongAnswer,
			"value differs from what was written: %d bytes, expected %d", len(got), len(c.want))
	}

	return nil
}

func putVersion(dst []byte, index uint64, version uint32) {
	binary.LittleEndian.PutUint32(dst, version^uint32(mix(index^valueSalt)))
}

func takeVersion(value []byte, index uint64) uint32 {
	return binary.LittleEndian.Uint32(value) ^ uint32(mix(index^valueSalt))
}

// Trie nodes as a hash-scheme Ethereum client stores them: the RLP of a leaf
// (account) or of a branch. Shares follow a random hexary trie, which has about
// N/ln(16) = 0.36 N branches for N leaves, few of them full; most accounts have
// no code and no storage, so two of their four fields are well-known constants
// that compress.

type nodeShape struct {
	children int // 0: a leaf
	contract bool
}

const (
	keyTailBytes = 30 // of a leaf's compact path
	balanceBytes = 8
)

func shapeOf(index, seed uint64) nodeShape {
	dice := mix(index*golden ^ seed ^ tailSalt)
	switch share := dice % 1000; {
	case share < 735:
		return nodeShape{contract: dice>>32%100 < 15}
	case share < 980:
		return nodeShape{children: 2 + int(dice>>32%7)} // 2..8
	default:
		return nodeShape{children: 16}
	}
}

func trieNodeBytes(s nodeShape) int {
	if s.children == 0 {
		return len(appendTrieNode(nil, s, 0, 0, 0))
	}
	return 3 + s.children*33 + 17 - s.children
}

// versionAt is where the version's four bytes stand: the first that are random
// for every key, in a leaf (path) as in a branch (first hash).
const versionAt = 4

func trieNodeVersion(value []byte, index uint64) uint32 {
	if len(value) < versionAt+versionBytes {
		return 0
	}
	return takeVersion(value[versionAt:], index)
}

func appendTrieNode(dst []byte, s nodeShape, index, seed uint64, version uint32) []byte {
	salt := seed ^ valueSalt ^ uint64(version)*golden
	if s.children > 0 {
		dst = appendBranch(dst, s.children, index, salt)
	} else {
		dst = appendLeaf(dst, s.contract, index, salt)
	}
	putVersion(dst[versionAt:], index, version)
	return dst
}

func appendBranch(dst []byte, children int, index, salt uint64) []byte {
	payload := children*33 + 17 - children
	dst = append(dst, 0xf9, byte(payload>>8), byte(payload))
	for slot := range 17 {
		if slot >= children {
			dst = append(dst, 0x80)
			continue
		}

		dst = append(dst, 0xa0)
		dst = appendRandom(dst, 32, index, salt+uint64(slot))
	}

	return dst
}

func appendLeaf(dst []byte, contract bool, index, salt uint64) []byte {
	const account = 2 + 1 + 1 + balanceBytes + 33 + 33
	dst = append(dst, 0xf8, 1+1+keyTailBytes+2+account, 0x80+keyTailBytes+1, 0x20)
	dst = appendRandom(dst, keyTailBytes, index, salt)
	dst = append(dst, 0xb8, account, 0xf8, account-2, byte(1+mix(index^salt)%0x7f),
		0x80+balanceBytes)
	dst = appendRandom(dst, balanceBytes, index, salt+1)
	for field, constant := range [2][32]byte{emptyRoot, emptyCode} {
		dst = append(dst, 0xa0)
		if contract {
			dst = appendRandom(dst, 32, index, salt+2+uint64(field))
		} else {
			dst = append(dst, constant[:]...)
		}
	}

	return dst
}

func appendRandom(dst []byte, n int, index, salt uint64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	fill(dst[at:], index, salt)
	return dst
}

// keccak256 of the empty trie's RLP and of no code: constants of Ethereum's
// yellow paper.
var (
	emptyRoot = [32]byte{
		0x56, 0xe8, 0x1f, 0x17, 0x1b, 0xcc, 0x55, 0xa6, 0xff, 0x83, 0x45, 0xe6, 0x92, 0xc0, 0xf8,
		0x6e,
		0x5b, 0x48, 0xe0, 0x1b, 0x99, 0x6c, 0xad, 0xc0, 0x01, 0x62, 0x2f, 0xb5, 0xe3, 0x63, 0xb4,
		0x21}
	emptyCode = [32]byte{
		0xc5, 0xd2, 0x46, 0x01, 0x86, 0xf7, 0x23, 0x3c, 0x92, 0x7e, 0x7d, 0xb2, 0xdc, 0xc7, 0x03,
		0xc0,
		0xe5, 0x00, 0xb6, 0x53, 0xca, 0x82, 0x27, 0x3b, 0x7b, 0xfa, 0xd8, 0x04, 0x5d, 0x85, 0xa4,
		0x70}
)
