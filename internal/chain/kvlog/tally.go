package kvlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
)

// WarmBlocks is for how many blocks EIP-8289 keeps an account warm.
const WarmBlocks = 256

// Facts are what a log comes to: statelab accesses info prints them.
type Facts struct {
	Schema string `json:"schema"`
	File   string `json:"file"`
	Info
	Blocks     uint64 `json:"blocks"`
	First      uint64 `json:"first_block"`
	Last       uint64 `json:"last_block"`
	Operations uint64 `json:"operations"` // that name a key
	Reads      uint64 `json:"reads"`      // Get and Has
	Steps      uint64 `json:"iterator_steps"`
	// of the writes: key and value together have less than 1 KiB
	SmallShare float64 `json:"small_share"`
	// by their operations, the most first; all is every class together
	Classes []Class `json:"classes"`
	All     Class   `json:"all"`
	// SampledKeys is of how many keys each is followed, to know what is read again; 1: every key
	// is.
	SampledKeys uint64 `json:"sampled_keys"`
}

// Class is a part of the store's keys. Shares are of its operations, unless they say otherwise.
type Class struct {
	Class      string  `json:"class"`
	Operations uint64  `json:"operations"`
	OfAll      float64 `json:"share_of_operations"`
	Writes     float64 `json:"write_share"`
	Reads      float64 `json:"read_share"`
	Scans      float64 `json:"scan_share"`
	Deletes    float64 `json:"delete_share"`
	KeyBytes   float64 `json:"key_bytes"`   // mean of the operations
	ValueBytes float64 `json:"value_bytes"` // mean of the writes
	// different ones; estimated where not every key is followed
	Keys      float64 `json:"keys"`
	Again     float64 `json:"read_again_share"`
	Deleted   float64 `json:"read_deleted_share"`
	Unwritten float64 `json:"read_unwritten_share"`
}

// tally is of one class.
type tally struct {
	reads, writes, scans, deletes, keyBytes, valueBytes uint64
	followed                                            followed
}

// followed are sums over the keys that are followed: of their reads, those whose key was read in
// one of the WarmBlocks blocks before or in the same block; was deleted before and not written
// again; was neither written nor deleted before.
type followed struct{ keys, reads, again, deleted, unwritten uint64 }

// key is one that is followed.
type key struct {
	class *tally
	last  uint64 // block in which it was read
	state byte   // of the newest write or deletion: its kind
	read  bool
	followed
}

// maxFollowed bounds the memory: where more keys come up, every second one is no longer followed.
const maxFollowed = 1 << 20

type counting struct {
	facts    Facts
	classes  map[string]*tally
	keys     map[uint64]*key // by the hash of the key
	shift    uint            // keys are followed of whose hash as many bits are 0
	block    uint64
	small    uint64
	maxKeys  int
	classify func(key []byte) string
}

// Count reads a log to its end. classify names the class of a key.
func Count(
	name string, from Source, classify func(key []byte) string, told func(ops uint64) error,
) (Facts, error) {
	return count(name, from, classify, told, maxFollowed)
}

func count(
	name string, from Source, classify func(key []byte) string, told func(ops uint64) error,
	maxKeys int,
) (Facts, error) {
	c := &counting{facts: Facts{Schema: schema.TrafficFacts, File: name, Info: from.Info()},
		classes: map[string]*tally{}, keys: map[uint64]*key{},
		maxKeys: maxKeys, classify: classify}
	if err := each(from, told, func(op *Op) error { c.count(op); return nil }); err != nil {
		return c.facts, err
	}
	return c.end(), nil
}

func (c *counting) count(op *Op) {
	switch {
	case op.Kind == Block:
		if c.facts.Blocks++; c.facts.Blocks == 1 {
			c.facts.First = op.Number
		}
		c.block, c.facts.Last = op.Number, op.Number
	case op.Kind == Next:
		c.facts.Steps++
	}

	if !op.Kind.keyed() {
		return
	}

	class := c.classify(op.Key)
	t := c.classes[class]
	if t == nil {
		t = new(tally)
		c.classes[class] = t
	}

	t.keyBytes += uint64(len(op.Key))
	switch op.Kind {
	case Scan:
		t.scans++
		return
	case Put, BatchPut:
		t.writes++
		t.valueBytes += op.Number
		if uint64(len(op.Key))+op.Number < 1<<10 {
			c.small++
		}
	case Delete, BatchDelete:
		t.deletes++
	default:
		t.reads++
	}

	c.follow(op, t)
}

func (c *counting) follow(op *Op, t *tally) {
	hash := hashOf(op.Key)
	if hash&(1<<c.shift-1) != 0 {
		return
	}

	k := c.keys[hash]
	if k == nil {
		k = &key{class: t}
		c.keys[hash] = k
		for len(c.keys) > c.maxKeys {
			c.shift++
			maps.DeleteFunc(c.keys, func(hash uint64, _ *key) bool {
				return hash&(1<<c.shift-1) != 0
			})
		}
	}

	switch op.Kind {
	case Put, BatchPut:
		k.state = 'p'
	case Delete, BatchDelete:
		k.state = 'd'
	default:
		k.reads++
		if k.read && c.block-k.last <= WarmBlocks {
			k.again++
		}

		switch k.state {
		case 'd':
			k.deleted++
		case 0:
			k.unwritten++
		}

		k.read, k.last = true, c.block
	}
}

// hashOf is FNV-1a with its bits mixed, so that its lowest ones serve as a sample.
func hashOf(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

func (c *counting) end() Facts {
	f := &c.facts
	f.SampledKeys = 1 << c.shift
	for _, k := range c.keys {
		k.class.followed.add(followed{1, k.reads, k.again, k.deleted, k.unwritten})
	}

	all := new(tally)
	for _, t := range c.classes {
		all.reads, all.writes, all.scans, all.deletes = all.reads+t.reads, all.writes+t.writes,
			all.scans+t.scans, all.deletes+t.deletes
		all.keyBytes, all.valueBytes = all.keyBytes+t.keyBytes, all.valueBytes+t.valueBytes
		all.followed.add(t.followed)
	}

	f.Operations, f.Reads = all.operations(), all.reads
	f.SmallShare = share(c.small, all.writes)
	f.All = c.class("all", all)
	for name, t := range c.classes {
		f.Classes = append(f.Classes, c.class(name, t))
	}

	slices.SortFunc(f.Classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Class, b.Class))
	})
	return *f
}

func (f *followed) add(g followed) {
	*f = followed{f.keys + g.keys, f.reads + g.reads, f.again + g.again, f.deleted + g.deleted,
		f.unwritten + g.unwritten}
}

func (t *tally) operations() uint64 { return t.reads + t.writes + t.scans + t.deletes }

func share(n, of uint64) float64 { return float64(n) / float64(max(1, of)) }

func (c *counting) class(name string, t *tally) Class {
	n, of := t.operations(), &t.followed
	return Class{
		Class:      name,
		Operations: n,
		OfAll:      share(n, c.facts.Operations),
		Writes:     share(t.writes, n),
		Reads:      share(t.reads, n),
		Scans:      share(t.scans, n),
		Deletes:    share(t.deletes, n),
		KeyBytes:   share(t.keyBytes, n),
		ValueBytes: share(t.valueBytes, t.writes),
		Keys:       float64(of.keys << c.shift),
		Again:      share(of.again, of.reads),
		Deleted:    share(of.deleted, of.reads),
		Unwritten:  share(of.unwritten, of.reads),
	}
}

// Document says what the log holds.
func (f Facts) Document() *doc.Document {
	blocks := "no blocks"
	if f.Blocks > 0 {
		blocks = fmt.Sprintf("%s blocks, %d to %d", unit.Count(f.Blocks), f.First, f.Last)
	}

	d := &doc.Document{Title: "A log of the calls of a key-value store"}
	d.Answer("", fmt.Sprintf("%s: %s, %s operations, %s of them Gets.", f.File, blocks,
		unit.Count(f.Operations), unit.Count(f.Reads)))

	rows := f.Classes
	if len(rows) != 1 {
		rows = append(slices.Clone(rows), f.All)
	}

	decimals := func(n int) func(float64) string {
		return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
	}
	percent := func(name string, n int, of func(Class) float64) doc.Column[Class] {
		return doc.Figure(name, "%", decimals(n), func(c Class) float64 { return 100 * of(c) })
	}
	table := doc.TableOf(rows, nil,
		percent("operations", 2, func(c Class) float64 { return c.OfAll }),
		percent("writes", 1, func(c Class) float64 { return c.Writes }),
		percent("Gets", 1, func(c Class) float64 { return c.Reads }),
		percent("scans", 1, func(c Class) float64 { return c.Scans }),
		percent("deletes", 1, func(c Class) float64 { return c.Deletes }),
		doc.Figure("key", "bytes", decimals(1), func(c Class) float64 { return c.KeyBytes }),
		doc.Figure("value", "bytes", decimals(1), func(c Class) float64 { return c.ValueBytes }),
		percent("read again", 1, func(c Class) float64 { return c.Again }),
		doc.Words("keys", func(c Class) string { return cmp.Or(c.Class, f.All.Class) }))

	d.Add("Operations", doc.Block{
		Title: "Operations by class of key",
		Table: table,
		Texts: []string{
			fmt.Sprintf("Read again: the share of Gets whose key was read in the same block or "+
				"one of the %d before it.", WarmBlocks),
			fmt.Sprintf("Of all Gets, %.1f %% are of keys that were deleted before, %.1f %% of "+
				"keys that the log has not written before; the log does not show whether these "+
				"exist.", 100*f.All.Deleted, 100*f.All.Unwritten)},
	})

	return d
}
