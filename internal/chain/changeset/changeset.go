// Package changeset reads, writes and makes change sets: what each block of a
// chain wrote, version by version, for replaying into state trees.
//
// Goals: one Source over every form that change sets are kept in; memory bounded
// whatever a block's size; no allocation per change; every foreign length checked
// before it is believed. Purpose of the container of our own (container.go): many
// versions a frame, an index, checksums, expected roots.
// Non-goals: trees and roots themselves (package tree and its adapters), clocks,
// paths: files come in as io and fs values.
package changeset

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// Bounds of one change, in every form: what exceeds them is damage.
const (
	MaxKeyBytes   = 1 << 20
	MaxValueBytes = 64 << 20
	MaxStores     = 1 << 12
	MaxNameBytes  = 1 << 8 // of a store
	MaxRootBytes  = 1 << 8
)

// DefaultBatchBytes bounds a batch whose MaxBytes is 0.
const DefaultBatchBytes = 1 << 20

// Order says how the changes of one version are ordered: trees whose shape depends
// on the order of writes give another root for another order.
type Order uint8

// Orders of changes; files store their names.
const (
	OrderUnknown   Order = iota // nobody has said how changes are ordered
	OrderInsertion              // as the chain's code wrote them; a key may come several times
	OrderSortedNet              // by store, one change a key, keys ascending
)

var orderNames = []string{"unknown", "insertion", "sorted-net"}

// String is the name of the order in files.
func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return fmt.Sprintf("order %d", uint8(o))
}

// Change is one write of a version.
type Change struct {
	Store      int // number in Info.Stores
	Key, Value []byte
	Delete     bool
}

// Batch is a run of one version's changes. It owns the bytes its changes point
// to: they live until the batch is handed to Next again, so batches filled ahead
// of time need no copy. The zero value is ready for use.
type Batch struct {
	// MaxBytes of keys and values are gathered, or one change if that is larger;
	// 0 means DefaultBatchBytes. It is the caller's to set.
	MaxBytes int

	Version int64
	Changes []Change // none for an empty version
	Last    bool     // the version ends with this batch
	// Roots are what a tree must have after the version, if the source knows; set
	// with Last only.
	Roots Roots

	arena []byte
}

// Roots are the expected roots of one version. The zero value means unknown.
type Roots struct {
	Combined []byte   // nil if unknown
	Stores   [][]byte // by store number; nil entries, and a short slice, are unknown
}

// Known reports whether any root is known.
func (r Roots) Known() bool {
	return r.Combined != nil ||
		slices.ContainsFunc(r.Stores, func(root []byte) bool { return root != nil })
}

// Info is what a source knows before it is read. Stores grow while reading where
// Complete is false: such a form names its stores only in its changes.
type Info struct {
	Format     Format
	Order      Order
	Stores     []string // by number
	Complete   bool     // Stores is final
	First      int64    // version; 0 if unknown
	Last       int64    // 0 if unknown
	RootRule   string   // as tree.Info.RootRule; "" if no roots are expected
	Provenance string   // where the set comes from, as text
	// Totals are nil where only reading tells.
	Totals *Totals
	// Unknown are files of the set's directory whose names the format does not know:
	// what is in them is left out.
	Unknown []string
	// NotChecked are sentences on what the format cannot show of the set's completeness.
	NotChecked []string
	// Damage is why a container without a usable footer can be read in part only.
	// Next returns it after the last version that is whole.
	Damage error
}

// Totals are the counts of a whole set.
type Totals struct {
	Versions int64
	Changes  int64
	Roots    int64 // versions with expected roots
	Stores   []StoreTotals
}

// StoreTotals are the counts of one store, by store number.
type StoreTotals struct {
	Sets       int64 `json:"sets"`
	Deletes    int64 `json:"deletes"`
	KeyBytes   int64 `json:"key_bytes"`
	ValueBytes int64 `json:"value_bytes"`
}

// Source yields a set's versions in ascending order. Not safe for concurrent use.
type Source interface {
	Info() Info
	// Next fills batch with the next changes: of one version, no more than
	// batch.MaxBytes of them. An empty version gives one batch without changes and
	// with Last set. A version the source does not hold is not made up: the caller
	// sees the gap. io.EOF ends the set; after any error the source is finished.
	Next(batch *Batch) error
	Close() error
}

// Seeker is a Source that goes to a version without reading those before it.
type Seeker interface {
	Source
	// SeekVersion makes Next go on with the first batch of the first version that is not
	// below version.
	SeekVersion(version int64) error
}

// From is s from version first on: sought where s can, else read past.
func From(s Source, first int64) (Source, error) {
	if seeker, ok := s.(Seeker); ok {
		if err := seeker.SeekVersion(first); err != nil {
			return nil, fmt.Errorf("seek version %d: %w", first, err)
		}
		return s, nil
	}
	return &part{Source: s, first: first, last: math.MaxInt64}, nil
}

// Until is s up to and with version last.
func Until(s Source, last int64) Source { return &part{Source: s, last: last} }

// Part is the part of a set from one version to another, 0 for its own first and last, net of what
// is overwritten within a version if that is asked for.
func Part(s Source, first, last int64, net bool) (Source, error) {
	if first > 0 {
		var err error
		if s, err = From(s, first); err != nil {
			return nil, err
		}
	}

	if last > 0 {
		s = Until(s, last)
	}

	if net {
		s = Net(s)
	}

	return s, nil
}

// part is the versions from first to last of a source.
type part struct {
	Source
	first, last int64
	ended       bool // the last was given: what comes next may be damaged
}

func (s *part) Info() Info {
	info := s.Source.Info()
	if info.First < s.first {
		info.First, info.Totals = 0, nil
	}
	if info.Last > s.last {
		info.Last, info.Totals = 0, nil // what lies between is not known
	}
	return info
}

func (s *part) Next(batch *Batch) error {
	for !s.ended {
		if err := s.Source.Next(batch); err != nil {
			return err
		}

		s.ended = batch.Version > s.last || batch.Version == s.last && batch.Last
		if batch.Version >= s.first && batch.Version <= s.last {
			return nil
		}
	}

	return io.EOF
}

// compareKeys orders changes by store and key.
func compareKeys(a, b Change) int {
	return cmp.Or(a.Store-b.Store, bytes.Compare(a.Key, b.Key))
}

// Each calls fn with every batch of s until its end.
func Each(s Source, batch *Batch, fn func(*Batch) error) error {
	for {
		if err := s.Next(batch); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		if err := fn(batch); err != nil {
			return err
		}
	}
}

// begin empties the batch for version and keeps its memory.
func (b *Batch) begin(version int64) {
	b.Version, b.Last, b.Roots = version, false, Roots{}
	if b.arena == nil {
		b.arena = []byte{} // slices of it are never nil: an empty value is not "no value"
	}
	b.Changes, b.arena = b.Changes[:0], b.arena[:0]
}

// offer adds a change if it may still go in.
func (b *Batch) offer(store int, key, value []byte, remove bool) (fits bool) {
	limit := b.MaxBytes
	if limit <= 0 {
		limit = DefaultBatchBytes
	}
	if fits = len(b.Changes) == 0 || len(b.arena)+len(key)+len(value) <= limit; fits {
		b.add(store, key, value, remove)
	}
	return fits
}

// add copies a change in. An arena that moves while it grows leaves the earlier
// changes pointing into the old one, which their slices keep alive.
func (b *Batch) add(store int, key, value []byte, remove bool) {
	at := len(b.arena)
	b.arena = append(b.arena, key...)
	b.arena = append(b.arena, value...)
	middle, end := at+len(key), len(b.arena)
	c := Change{Store: store, Key: b.arena[at:middle:middle], Delete: remove}
	if !remove {
		c.Value = b.arena[middle:end:end]
	}

	b.Changes = append(b.Changes, c)
}

// keep copies bytes that belong to the batch but to no change.
func (b *Batch) keep(root []byte) []byte {
	at := len(b.arena)
	b.arena = append(b.arena, root...)
	return b.arena[at:len(b.arena):len(b.arena)]
}

// NamedRoots are the roots of one version by the names of stores.
type NamedRoots struct {
	Combined []byte
	Stores   map[string][]byte
}

// WithRoots is s with the roots that trees of a rule must have, by version;
// versions that are not in the map expect none.
func WithRoots(s Source, rule string, roots map[int64]NamedRoots) Source {
	return &rooted{Source: s, rule: rule, roots: roots}
}

type rooted struct {
	Source
	rule  string
	roots map[int64]NamedRoots
}

func (s *rooted) Info() Info {
	info := s.Source.Info()
	info.RootRule, info.Totals = s.rule, nil
	return info
}

func (s *rooted) Next(b *Batch) error {
	if err := s.Source.Next(b); err != nil || !b.Last {
		return err
	}

	b.Roots = Roots{}
	at, known := s.roots[b.Version]
	if !known {
		return nil
	}

	stores := s.Source.Info().Stores
	b.Roots = Roots{Combined: at.Combined, Stores: make([][]byte, len(stores))}
	for name, root := range at.Stores {
		number := slices.Index(stores, name)
		if number < 0 {
			return fmt.Errorf("version %d: a root of store %q, which the set does not have",
				b.Version, name)
		}

		b.Roots.Stores[number] = root
	}

	return nil
}

// Tally counts what batches hold. The zero value is ready for use.
type Tally struct {
	First, Last int64 // versions with an end
	totals      Totals
	pending     Totals // of the version that is open
}

// Add counts a batch; a version counts when its last batch comes.
func (t *Tally) Add(b *Batch) {
	for _, c := range b.Changes {
		t.pending.reach(c.Store + 1)
		t.pending.Stores[c.Store].count(c)
	}

	t.pending.Changes += int64(len(b.Changes))
	if !b.Last {
		return
	}

	if t.First == 0 {
		t.First = b.Version
	}

	t.Last = b.Version
	t.pending.Versions = 1
	if b.Roots.Known() {
		t.pending.Roots = 1
	}

	t.totals.add(t.pending)
	clear(t.pending.Stores)
	t.pending = Totals{Stores: t.pending.Stores}
}

// Totals are the counts so far, of at least so many stores.
func (t *Tally) Totals(stores int) Totals {
	total := t.totals
	total.Stores = slices.Clone(total.Stores)
	total.reach(stores)
	return total
}

// count adds a change.
func (s *StoreTotals) count(c Change) {
	s.KeyBytes += int64(len(c.Key))
	if c.Delete {
		s.Deletes++
	} else {
		s.Sets++
		s.ValueBytes += int64(len(c.Value))
	}
}

// reach makes room for the counts of so many stores.
func (t *Totals) reach(stores int) {
	if missing := stores - len(t.Stores); missing > 0 {
		t.Stores = append(t.Stores, make([]StoreTotals, missing)...)
	}
}

func (t *Totals) add(more Totals) {
	t.Versions += more.Versions
	t.Changes += more.Changes
	t.Roots += more.Roots
	t.reach(len(more.Stores))
	for i, s := range more.Stores {
		t.Stores[i].Sets += s.Sets
		t.Stores[i].Deletes += s.Deletes
		t.Stores[i].KeyBytes += s.KeyBytes
		t.Stores[i].ValueBytes += s.ValueBytes
	}
}
