package keyspace

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
	dst = append(dst, 0xb8, account, 0xf8, account-2, byte(1+mix(index^salt)%0x7f), 0x80+balanceBytes)
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
		0x56, 0xe8, 0x1f, 0x17, 0x1b, 0xcc, 0x55, 0xa6, 0xff, 0x83, 0x45, 0xe6, 0x92, 0xc0, 0xf8, 0x6e,
		0x5b, 0x48, 0xe0, 0x1b, 0x99, 0x6c, 0xad, 0xc0, 0x01, 0x62, 0x2f, 0xb5, 0xe3, 0x63, 0xb4, 0x21}
	emptyCode = [32]byte{
		0xc5, 0xd2, 0x46, 0x01, 0x86, 0xf7, 0x23, 0x3c, 0x92, 0x7e, 0x7d, 0xb2, 0xdc, 0xc7, 0x03, 0xc0,
		0xe5, 0x00, 0xb6, 0x53, 0xca, 0x82, 0x27, 0x3b, 0x7b, 0xfa, 0xd8, 0x04, 0x5d, 0x85, 0xa4, 0x70}
)
