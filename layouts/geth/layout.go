// Package geth holds go-ethereum's state layouts: its trie in the hash scheme and
// in the path scheme, the flat state that the path scheme keeps beside it, and its
// binary trie.
//
// It is the client's own code (triedb, trie, ethdb/pebble) from the lookup down to
// Pebble; what this package adds is the contract. It is a module of its own because
// go-ethereum is under the LGPL-3.
//
// Goals: every lookup opens a new trie, so that it resolves what a first lookup in a
// block resolves; a commit that returned is on the disk.
// Non-goals: history and reorganisations: a node keeps 128 blocks in memory before it
// writes, here every block is written when it is committed.
//
// Read in this order: layout.go, block.go, binary.go, store.go.
package geth

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/ethereum/go-ethereum/triedb/database"
	"github.com/ethereum/go-ethereum/triedb/hashdb"
	"github.com/ethereum/go-ethereum/triedb/pathdb"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/layout"
)

const version = "v1.17.10"

// scheme is one of the ways to keep and read the state.
type scheme struct {
	name, about string
	byPath      bool // the path scheme, else the hash scheme
	flat        bool // lookups read the flat state instead of the trie
	binary      bool // EIP-7864's binary trie instead of the Merkle-Patricia trie
}

// Layouts are geth-hash, geth-path, geth-flat and geth-bintrie. The second and the third
// make the same database: they differ in what a lookup reads.
func Layouts() []layout.Layout {
	return []layout.Layout{
		scheme{name: "geth-hash", about: "trie nodes under their hashes; nothing is ever deleted"},
		scheme{
			name:   "geth-path",
			about:  "trie nodes under their paths; lookups walk the trie",
			byPath: true,
		},
		scheme{
			name:   "geth-flat",
			about:  "trie nodes under their paths; lookups read the flat state beside them",
			byPath: true,
			flat:   true,
		},
		scheme{
			name:   "geth-bintrie",
			about:  "groups of levels of a binary trie (EIP-7864) under their paths",
			byPath: true,
			binary: true,
		},
	}
}

// Info describes the layout.
func (l scheme) Info() layout.Info {
	history := "the newest block"
	if !l.byPath {
		history = "every block"
	}

	rule := layout.EthereumRoot
	if l.binary {
		rule = layout.BinaryRoot
	}

	return layout.Info{
		Name: l.name, Version: version, Licence: "LGPL-3.0", Root: rule,
		Durability: "a commit is synced to Pebble's log: a power cut keeps it",
		History:    history,
		Profiles:   []engine.Profile{{Name: profile, About: l.about}},
	}
}

// KeepsCode: the binary trie has code in its leaves.
func (l scheme) KeepsCode() bool { return l.binary }

// Check names what is wrong with o.
func (l scheme) Check(o layout.Options) (errs []error) {
	if o.Profile != "" && o.Profile != profile {
		errs = append(errs, fmt.Errorf("unknown profile %q: use %s", o.Profile, profile))
	}

	if o.MemoryBytes != 0 && o.MemoryBytes < minMemoryBytes {
		errs = append(errs,
			fmt.Errorf("%d bytes of memory: go-ethereum gives Pebble at least 16 MiB: write "+
				"--memory 16MiB for %s", o.MemoryBytes, l.name))
	}

	if o.Direct {
		errs = append(errs, errors.New("go-ethereum's Pebble reads through the page cache: "+
			"O_DIRECT is not offered"))
	}

	if l.binary {
		_, _, _, more := binaryStore(o)
		return append(errs, more...)
	}

	for name := range o.Overrides {
		errs = append(errs,
			engine.Fail(engine.CodeOption, "unknown option %q: %s has none", name, l.name))
	}

	return errs
}

// Open opens or creates the state in o.Dir.
func (l scheme) Open(ctx context.Context, o layout.Options) (layout.State, error) {
	if err := errors.Join(l.Check(o)...); err != nil {
		return nil, err
	}
	c, err := open(ctx, l, o)
	if err != nil {
		return nil, fmt.Errorf("%s: open %s: %w", l.name, o.Dir, err)
	}
	return c, nil
}

const (
	profile = "geth"

	// minMemoryBytes is the least that ethdb/pebble gives its block cache.
	minMemoryBytes = 16 << 20
	// minCleanBytes is what fastcache takes at least: 512 buckets of 64 KiB.
	minCleanBytes = 32 << 20
	// defaultMemoryBytes is --cache of a node that is not on the main network.
	defaultMemoryBytes = 1 << 30
	// handles are the open files of Pebble.
	handles = 512
)

// split is how a budget is spent. Pebble takes its write buffers from its block
// cache. The clean cache holds whole nodes, or flat states where lookups read
// those.
type split struct {
	pebbleBytes int64
	cleanBytes  int64
}

// splitMemory gives half to Pebble and half to the one clean cache that lookups use,
// all to Pebble where half is less than that cache would take. A node started with
// --cache gives 50 % to Pebble, 15 % to the clean nodes, 10 % to the flat state and
// 25 % to nodes that wait to be written, which are none here.
func splitMemory(budgetBytes int64) split {
	if budgetBytes == 0 {
		budgetBytes = defaultMemoryBytes
	}
	if budgetBytes/2 < minCleanBytes {
		return split{pebbleBytes: budgetBytes}
	}
	return split{pebbleBytes: budgetBytes / 2, cleanBytes: budgetBytes / 2}
}

func (s split) pebbleMiB() int { return int(s.pebbleBytes >> 20) }

func (s split) shares(l scheme) []engine.MemoryShare {
	shares := []engine.MemoryShare{{
		Use:   "block cache and write buffers",
		Bytes: s.pebbleBytes,
		Basis: "limit",
		Holds: engine.Blocks,
	}}

	if s.cleanBytes > 0 {
		use := "clean trie nodes"
		if l.flat {
			use = "clean flat states"
		}

		shares = append(shares, engine.MemoryShare{
			Use:   use,
			Bytes: s.cleanBytes,
			Basis: "limit",
			Holds: engine.CleanState,
		})
	}

	return shares
}

// trieConfig are the settings of the trie database: nothing may go on in the
// background that a lookup or a commit would then be charged for.
func (l scheme) trieConfig(s split, readOnly bool) *triedb.Config {
	if !l.byPath {
		return &triedb.Config{HashDB: &hashdb.Config{CleanCacheSize: int(s.cleanBytes)}}
	}

	path := *pathdb.Defaults
	path.ReadOnly = readOnly
	path.TrieCleanSize, path.StateCleanSize = int(s.cleanBytes), 0
	if l.flat {
		path.TrieCleanSize, path.StateCleanSize = 0, int(s.cleanBytes)
	}

	path.NoAsyncFlush, path.NoAsyncGeneration, path.SnapshotNoBuild = true, true, false
	return &triedb.Config{PathDB: &path, IsUBT: l.binary}
}

func (l scheme) effective(s split) map[string]string {
	scheme := "hash"
	if l.byPath {
		scheme = "path"
	}

	return map[string]string{
		"state.scheme":      scheme,
		"pebble_bytes":      strconv.FormatInt(s.pebbleBytes, 10),
		"clean_cache_bytes": strconv.FormatInt(s.cleanBytes, 10),
		"handles":           strconv.Itoa(handles),
	}
}

// compactions is the line of Pebble's statistics that tells of background work.
var compactions = regexp.MustCompile(`Compactions: (\d+)  estimated debt: \S+  in progress: (\d+)`)

const (
	quietPoll = 20 * time.Millisecond
	quietTime = 200 * time.Millisecond
)

// awaitQuiet returns when Pebble has run no compaction for a while, and the process has read
// nothing: an opened database reads the properties of all its tables in the background, which takes
// longer than the wait if they are many and the disk is slow, and may then begin to compact.
// Lookups would be charged for both.
func awaitQuiet(ctx context.Context, db *pebble.Database) error {
	poll := time.NewTicker(quietPoll)
	defer poll.Stop()
	q := quiet{since: time.Now()}
	for {
		text, err := db.Stat()
		if err != nil {
			return err
		}

		found := compactions.FindStringSubmatch(text)
		if found == nil {
			return errors.New("the statistics of Pebble do not tell of compactions")
		}

		chars := int64(0)
		if host.Counts {
			now, err := host.ProcessNow()
			if err != nil {
				return err
			}
			chars = now.ReadChars
		}

		if q.see(found[1], found[2] != "0", chars, time.Now()) >= quietTime {
			return nil
		}

		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// quiet is for how long a database has done nothing by itself.
type quiet struct {
	compactions string
	chars       int64
	since       time.Time
}

// pollChars are more characters than one poll reads of the process's own counters, with what
// threads of Go's runtime read to wake each other; a block of properties has more.
const pollChars = 512

// see takes what a poll has seen: the compactions so far, whether one is running, and the
// characters that the process has read. It returns for how long the database has been quiet.
func (q *quiet) see(
	compactions string, running bool, chars int64, now time.Time,
) time.Duration {
	if running || compactions != q.compactions || chars > q.chars+pollChars {
		q.since = now
	}
	q.compactions, q.chars = compactions, chars
	return now.Sub(q.since)
}

var errReaderClosed = errors.New("the reader is closed")

func (c *chain) Reader() (layout.Reader, error) {
	if c.closed.Load() {
		return nil, errStateClosed
	}

	switch {
	case c.layout.flat:
		r := &flatReader{chain: c}
		return r, r.Refresh()
	case c.layout.binary:
		r := &binaryReader{chain: c}
		return r, r.Refresh()
	}

	r := &trieReader{chain: c}
	return r, r.Refresh()
}

// trieReader opens a trie for every lookup: one that is kept would keep the nodes of
// earlier lookups.
type trieReader struct {
	chain *chain // nil once it is closed
	root  common.Hash
	at    pinned
	nodes int64
}

// pinned hands out one reader of nodes: asking the hash scheme for a reader costs a
// read of the root, which would be charged to every lookup.
type pinned struct{ reader database.NodeReader }

func (p pinned) NodeReader(common.Hash) (database.NodeReader, error) { return p.reader, nil }

func (r *trieReader) Refresh() error {
	if r.chain == nil {
		return errReaderClosed
	}

	root := r.chain.head.Load().root
	nodes, err := r.chain.tries.NodeReader(root)
	if err != nil {
		return fmt.Errorf("%s: read at root %x: %w", r.chain.layout.name, root, err)
	}

	r.root, r.at = root, pinned{nodes}
	return nil
}

func (r *trieReader) Account(account layout.Hash) (layout.Account, bool, error) {
	found, err := r.account(account)
	if err != nil || found == nil {
		return layout.Account{}, false, err
	}
	return stateAccount(found.Nonce, found.Balance, found.CodeHash), true, nil
}

func (r *trieReader) account(account layout.Hash) (*types.StateAccount, error) {
	if r.chain == nil {
		return nil, errReaderClosed
	}

	encoded, err := r.get(trie.StateTrieID(r.root), account)
	if err != nil || len(encoded) == 0 {
		return nil, err
	}

	found := new(types.StateAccount)
	return found, rlp.DecodeBytes(encoded, found)
}

func (r *trieReader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	owner, err := r.account(account)
	if err != nil || owner == nil || owner.Root == emptyRoot {
		return dst[:0], false, err
	}
	encoded, err := r.get(trie.StorageTrieID(r.root, common.Hash(account), owner.Root), key)
	return slotValue(encoded, dst, err)
}

// get looks a key up in a new trie and counts the nodes that it resolved.
func (r *trieReader) get(id *trie.ID, key layout.Hash) ([]byte, error) {
	t, err := trie.New(id, r.at)
	if err != nil {
		return nil, err
	}
	encoded, err := t.Get(key[:])
	r.nodes += int64(len(t.Witness()))
	return encoded, err
}

func (r *trieReader) Touched() layout.Touched {
	nodes := r.nodes
	return layout.Touched{Nodes: &nodes}
}

func (r *trieReader) Close() error {
	r.chain = nil
	return nil
}

// flatReader reads the path scheme's flat state: one key a lookup, no node.
type flatReader struct {
	chain *chain // nil once it is closed
	at    database.StateReader
}

func (r *flatReader) Refresh() (err error) {
	if r.chain == nil {
		return errReaderClosed
	}
	root := r.chain.head.Load().root
	if r.at, err = r.chain.tries.StateReader(root); err != nil {
		return fmt.Errorf("%s: read at root %x: %w", r.chain.layout.name, root, err)
	}
	return nil
}

func (r *flatReader) Account(account layout.Hash) (layout.Account, bool, error) {
	if r.chain == nil {
		return layout.Account{}, false, errReaderClosed
	}
	found, err := r.at.Account(common.Hash(account))
	if err != nil || found == nil {
		return layout.Account{}, false, err
	}
	return stateAccount(found.Nonce, found.Balance, found.CodeHash), true, nil
}

func (r *flatReader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	if r.chain == nil {
		return dst[:0], false, errReaderClosed
	}
	encoded, err := r.at.Storage(common.Hash(account), common.Hash(key))
	return slotValue(encoded, dst, err)
}

func (r *flatReader) Touched() layout.Touched { return layout.Touched{} }

func (r *flatReader) Close() error {
	r.chain = nil
	return nil
}

// stateAccount is an account without storage root; no code hash means no code.
func stateAccount(nonce uint64, balance *uint256.Int, codeHash []byte) layout.Account {
	a := layout.Account{Nonce: nonce, Balance: balance.Bytes32(), CodeHash: layout.EmptyCode}
	if len(codeHash) > 0 {
		a.CodeHash = layout.Hash(codeHash)
	}
	return a
}

func slotValue(encoded, dst []byte, err error) ([]byte, bool, error) {
	if err != nil || len(encoded) == 0 {
		return dst[:0], false, err
	}
	_, value, _, err := rlp.Split(encoded)
	return append(dst[:0], value...), err == nil, err
}
