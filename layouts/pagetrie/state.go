//go:build linux

package pagetrie

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// snapshot is a committed block, as readers see it.
type snapshot struct {
	block    uint64
	root     layout.Hash
	rootPage uint32
	pages    uint32
}

// pageState is an open state.
type pageState struct {
	file     *file
	source   source
	readOnly bool
	reads    string // how

	mu    sync.Mutex
	at    snapshot
	live  map[uint64]int // readers by block
	ended bool

	tx           *tx   // nil when read-only
	failed       error // why nothing more can be committed
	pending      pending
	dirtyPages   atomic.Int64 // most at once
	pendingBytes atomic.Int64 // most at once
	nodesNew     atomic.Int64
}

var errStateClosed = errors.New("the state is closed")

func (s *pageState) acquire() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[s.at.block]++
	return s.at
}

func (s *pageState) release(at snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[at.block]--; s.live[at.block] == 0 {
		delete(s.live, at.block)
	}
}

// oldest is the block of the oldest reader, or the newest block.
func (s *pageState) oldest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.at.block
	for block := range s.live {
		oldest = min(oldest, block)
	}
	return oldest
}

func (s *pageState) newest() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *pageState) Block() uint64     { return s.newest().block }
func (s *pageState) Root() layout.Hash { return s.newest().root }

func (s *pageState) Reader() (layout.Reader, error) {
	if s.ended {
		return nil, errStateClosed
	}
	return &reader{descent: descent{source: s.source, at: s.acquire(), buf: new(page)}, s: s}, nil
}

func (s *pageState) Change(c layout.Change) error {
	if err := s.writable(); err != nil {
		return err
	}

	for _, slot := range c.Slots {
		if len(slot.Value) > valueBytes || len(slot.Value) > 0 && slot.Value[0] == 0 {
			return fmt.Errorf("slot %x of account %x: %x is no value of a slot", slot.Key,
				c.Account, slot.Value)
		}
	}

	s.source.shareWithWriter()
	full := s.pending.add(c)
	s.pendingBytes.Store(max(s.pendingBytes.Load(), int64(s.pending.bytes)))
	if full {
		return s.makePending()
	}

	return nil
}

// makePending makes the changes that wait, in the order of their keys.
func (s *pageState) makePending() error {
	for i := range s.pending.inOrder() {
		e := &s.pending.edits[i]
		if err := s.change(e); err != nil { // half a change may stand in the pages
			s.failed = fmt.Errorf("change account %x: %w", e.account, err)
			return s.failed
		}
	}

	s.pending.clear()
	return nil
}

func (s *pageState) writable() error {
	switch {
	case s.ended:
		return errStateClosed
	case s.readOnly:
		return errors.New("the state is open for reading only")
	case s.failed != nil:
		return fmt.Errorf("the state must be reopened, since an earlier block failed: %w", s.failed)
	}

	return nil
}

func (s *pageState) change(e *edit) error {
	t := s.tx
	if e.deleted {
		there, err := t.has(&e.account, nil)
		if err != nil || !there {
			return err
		}

		if err := retry(func() error { return t.deleteAccount(&e.account) }); err != nil {
			return err
		}

		return s.spillIfFull()
	}

	if err := t.putAccount(&e.account, &e.new); err != nil {
		return err
	}

	for i := range e.slots {
		if err := s.spillIfFull(); err != nil {
			return err
		}

		slot := &e.slots[i]
		if len(slot.Value) > 0 {
			if err := t.putSlot(&e.account, &slot.Key, slot.Value); err != nil {
				return fmt.Errorf("slot %x: %w", slot.Key, err)
			}
			continue
		}

		there, err := t.has(&e.account, &slot.Key)
		if err == nil && there {
			err = t.deleteSlot(&e.account, &slot.Key)
		}

		if err != nil {
			return fmt.Errorf("delete slot %x: %w", slot.Key, err)
		}
	}

	return s.spillIfFull()
}

func (s *pageState) spillIfFull() error {
	s.dirtyPages.Store(max(s.dirtyPages.Load(), int64(len(s.tx.dirty))))
	if len(s.tx.dirty) < s.tx.maxDirty {
		return nil
	}
	if err := s.tx.spill(s.file); err != nil {
		return fmt.Errorf("write pages before the block's end: %w", err)
	}
	return nil
}

func (s *pageState) Commit(context.Context) (layout.Hash, error) {
	if err := s.writable(); err != nil {
		return layout.Hash{}, err
	}

	if err := s.makePending(); err != nil {
		return layout.Hash{}, err
	}

	t := s.tx
	root := t.rehash()
	m, err := t.write(s.file, root)
	if err != nil {
		s.failed = fmt.Errorf("commit block %d: %w", t.block, err)
		return layout.Hash{}, s.failed
	}

	s.mu.Lock()
	s.at = snapshot{m.block, m.root, m.rootPage, m.pages}
	s.mu.Unlock()
	s.nodesNew.Store(t.nodesNew)
	t.next()
	t.space.begin(m.block, s.oldest())
	return root, nil
}

// Settle has nothing to wait for: no work is left behind.
func (s *pageState) Settle(context.Context) error { return nil }

func (s *pageState) Counters() layout.Counters {
	writes, bytes, nodes := s.file.writes.Load(), s.file.writeBytes.Load(), s.nodesNew.Load()
	c := layout.Counters{
		Reads:      s.source.reads(),
		Writes:     &writes,
		WriteBytes: &bytes,
		NodesNew:   &nodes,
	}

	if c.Reads != nil {
		read := *c.Reads * pageBytes
		c.ReadBytes = &read
	}

	return c
}

func (s *pageState) DiskBytes() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (s *pageState) Effective() map[string]string {
	return map[string]string{
		"reads":       s.reads,
		"cache_bytes": strconv.FormatInt(s.source.cacheBytes(), 10),
		"page_bytes":  strconv.Itoa(pageBytes),
		"Sync":        strconv.FormatBool(s.file.durable),
	}
}

func (s *pageState) Memory() []engine.MemoryShare {
	shares := []engine.MemoryShare{
		{
			Use:   "changed pages, most of a block at once",
			Bytes: s.dirtyPages.Load() * pageBytes,
			Basis: "measured",
		},
		{Use: "changes that wait, most at once", Bytes: s.pendingBytes.Load(), Basis: "measured"},
	}

	if bytes := s.source.cacheBytes(); bytes > 0 {
		shares = append([]engine.MemoryShare{{
			Use:   "page cache of the layout",
			Bytes: bytes,
			Basis: "limit",
			Holds: engine.Blocks,
		}}, shares...)
	}

	return shares
}

func (s *pageState) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	return errors.Join(s.source.close(), s.file.Close())
}

func newTx(m meta, source source, maxDirty int) *tx {
	t := &tx{
		source:   source,
		block:    m.block + 1,
		rootPage: m.rootPage,
		rootHash: m.root,
		maxDirty: maxDirty,
		dirty:    map[uint32]*page{},
		spilled:  map[uint32]bool{},
		hasher:   mpt.NewHasher(),
	}

	t.space = space{
		source:   source,
		pages:    m.pages,
		queue:    m.queue,
		orphaned: map[uint32]bool{},
		buf:      new(page),
	}

	t.look = peek{descent: descent{source: source, dirty: t.dirty, buf: new(page)}}
	t.space.begin(m.block, m.block)
	return t
}

// pending are changes that wait to be made in the order of their keys: a page that
// several of them change is then copied, hashed and written once, even where the
// block has more pages than it may hold.
type pending struct {
	edits   []edit
	slots   []layout.Slot // room for the edits' slots,
	values  []byte        // and for their values
	bytes   int
	maximum int // bytes before they are made
}

// edit is a change that owns its bytes.
type edit struct {
	account layout.Hash
	deleted bool
	new     layout.Account
	slots   []layout.Slot
}

const (
	editBytes = 32 + 8 + 72 + 24
	slotRoom  = 32 + 24
	roomSlots = 1024 // taken at once
	roomBytes = roomSlots * valueBytes
)

// add copies a change and tells whether there are as many as may wait.
func (p *pending) add(c layout.Change) (full bool) {
	e := edit{account: c.Account, deleted: c.New == nil}
	p.bytes += editBytes
	if c.New != nil {
		e.new = *c.New
		if cap(p.slots)-len(p.slots) < len(c.Slots) { // earlier edits keep the room they have
			p.slots = make([]layout.Slot, 0, max(roomSlots, len(c.Slots)))
		}

		from := len(p.slots)
		for _, s := range c.Slots {
			p.slots = append(p.slots, layout.Slot{Key: s.Key, Value: p.copy(s.Value)})
			p.bytes += slotRoom + len(s.Value)
		}

		e.slots = p.slots[from:]
		slices.SortStableFunc(e.slots, func(a, b layout.Slot) int {
			return bytes.Compare(a.Key[:], b.Key[:])
		})
	}

	p.edits = append(p.edits, e)
	return p.bytes >= p.maximum
}

func (p *pending) copy(value []byte) []byte {
	if cap(p.values)-len(p.values) < len(value) {
		p.values = make([]byte, 0, roomBytes)
	}
	from := len(p.values)
	p.values = append(p.values, value...)
	return p.values[from:]
}

// inOrder sorts the edits by account.
func (p *pending) inOrder() []edit {
	slices.SortFunc(p.edits, func(a, b edit) int {
		return bytes.Compare(a.account[:], b.account[:])
	})
	return p.edits
}

// clear keeps the room for the next changes.
func (p *pending) clear() {
	p.edits, p.slots, p.values, p.bytes = p.edits[:0], p.slots[:0], p.values[:0], 0
}
