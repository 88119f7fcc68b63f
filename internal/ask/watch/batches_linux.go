package watch

import (
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// together is the place of a Get among those of a batch that one call made; the zero value: it was
// made alone. The first one has the reads of all.
type together struct {
	call     uint32 // its number, from 1 on
	first    bool
	oneByOne bool
}

// alone reports whether a Get looks for its blocks by itself.
func (t together) alone() bool { return t.call == 0 || t.oneByOne }

// timed reports whether the time of a Get is its own, or that of all with it.
func (t together) timed() bool { return t.call == 0 || t.first }

// batch are keys of a call, until it is known whether they are to be believed.
type batch struct {
	gets []probe.Get
	keys []byte
}

// Together implements probe.Events. The keys of a call are believed if their families are the
// database's, and kept if all of them could be read.
func (c *collector) Together(t *probe.Together) {
	b := c.batches[t.ID]
	delete(c.batches, t.ID)
	reads := c.pending[t.ID]
	delete(c.pending, t.ID)
	c.calls++
	if b == nil || len(b.gets) < t.Keys || slices.ContainsFunc(b.gets, func(g probe.Get) bool {
		return c.familyOf(g.Family) < 0 || g.KeyBytes > len(g.Key)
	}) {
		for _, r := range reads {
			c.other(subject.ForBatches, int64(r.bytes))
		}
		return
	}

	if len(reads) > 0 {
		c.ours[b.gets[0].Database] = true
	}

	for i := range b.gets {
		of := together{call: c.calls, first: i == 0, oneByOne: t.OneByOne}
		c.keep(&b.gets[i], reads, of)
		reads = nil
	}

	c.keysTogether += uint64(len(b.gets))
	b.gets, b.keys = b.gets[:0], b.keys[:0]
	c.spare = append(c.spare, b)
}

func (c *collector) batchOf(id probe.GetID) *batch {
	if b := c.batches[id]; b != nil {
		return b
	}

	if last := len(c.spare) - 1; last >= 0 {
		b := c.spare[last]
		c.spare = c.spare[:last]
		return b
	}

	return new(batch)
}

func (b *batch) add(g *probe.Get) *batch {
	b.keys = append(b.keys, g.Key...)
	b.gets = append(b.gets, *g)
	b.gets[len(b.gets)-1].Key = b.keys[len(b.keys)-len(g.Key):]
	return b
}

// batches is a source whose Gets may be made in batches.
type batches struct {
	source
	ends func(made uint64) bool
}

// EndsBatch implements lookuppath.Batcher.
func (b batches) EndsBatch() func(made uint64) bool { return b.ends }

// inBatches reports whether some Gets of these numbers are made together.
func (a *analysis) inBatches(wanted []int) bool {
	return slices.ContainsFunc(wanted, func(i int) bool { return !a.gets[i].together.alone() })
}

// endsBatch reports whether the Get at a place of wanted is the last of those that are made
// together, or alone.
func (a *analysis) endsBatch(wanted []int, at int) bool {
	of := a.gets[wanted[at]].together
	return of.alone() || at+1 == len(wanted) || a.gets[wanted[at+1]].together.call != of.call
}

// attribute gives the reads of batches to those of their keys that asked for the blocks, as far as
// each key is looked up by itself, and counts a read of neighbouring blocks as one of each. It
// reports whether reads were divided. t are the accesses of the Gets of the numbers wanted.
func (a *analysis) attribute(t *cachesim.Trace, wanted []int) (divided bool) {
	for n, i := range wanted {
		switch g := &a.gets[i]; {
		case g.together.call == 0 || !g.together.first || len(g.reads) == 0:
		case g.together.oneByOne:
			a.attributeInTurn(t, wanted, n)
		default:
			before := len(g.reads)
			g.reads = divide(g.reads, t, accessesOf(t, n))
			divided = divided || len(g.reads) > before
		}
	}

	return divided
}

// attributeInTurn gives each read of the batch that begins at a place of wanted to the first key
// that can have made it: keys are looked up in their order, as reads come in theirs.
func (a *analysis) attributeInTurn(t *cachesim.Trace, wanted []int, first int) {
	all, call, n := a.gets[wanted[first]].reads, a.gets[wanted[first]].together.call, first
	a.gets[wanted[first]].reads = nil
	for _, r := range all {
		made := func(number uint32) bool {
			b := &t.Blocks[number]
			kind, _ := r.table.typeAt(r.offset)
			return r.of(b) || kind == engine.Meta && r.table.number == b.File
		}

		for at := n; at < len(wanted) && a.gets[wanted[at]].together.call == call; at++ {
			if slices.ContainsFunc(accessesOf(t, at), made) {
				n = at
				break
			}
		}

		g := &a.gets[wanted[n]]
		g.reads = append(g.reads, r)
	}
}

// divide makes one read of each block that a read has of those that were accessed.
func divide(reads []read, t *cachesim.Trace, accesses []uint32) (all []read) {
	for _, r := range reads {
		all = append(all, r)
		if kind, known := r.table.typeAt(r.offset); !known || kind == engine.Meta {
			continue
		}

		last := &all[len(all)-1]
		for _, number := range accesses {
			b := &t.Blocks[number]
			behind := int64(b.Offset) - r.offset
			if b.File != r.table.number || behind <= 0 || behind >= int64(r.bytes) {
				continue
			}

			part := r
			part.offset, part.bytes = int64(b.Offset), last.bytes-int32(int64(b.Offset)-last.offset)
			last.bytes -= part.bytes
			all = append(all, part)
			last = &all[len(all)-1]
		}
	}

	return all
}

// batchFigures are of all keys of batches and their reads; accesses are of those keys alone that
// are among the Gets.
func (a *analysis) batchFigures(seen probe.Batches) *result.WatchedBatches {
	if seen.Calls == 0 || seen.Keys == 0 {
		return nil
	}

	w := &result.WatchedBatches{
		Calls:      seen.Calls,
		Keys:       seen.Keys,
		BlockReads: a.others[subject.ForBatches].reads,
	}

	accesses := 0.0
	for i := range a.gets {
		g := &a.gets[i]
		if g.together.call == 0 {
			continue
		}

		w.Gets++
		w.BlockReads += uint64(len(g.reads))
		if a.accesses != nil {
			accesses += float64(a.accesses[i])
		}
	}

	keysPerCall := float64(w.Keys) / float64(w.Calls)
	w.BlockReadsPerKey = float64(w.BlockReads) / float64(w.Keys)
	w.BlockReadsPerCall = w.BlockReadsPerKey * keysPerCall
	if accesses > 0 {
		accesses /= float64(w.Gets)
		w.BlockAccessesPerKey = figure.Known(accesses)
		w.BlockAccessesPerCall = figure.Known(accesses * keysPerCall)
	}

	return w
}
