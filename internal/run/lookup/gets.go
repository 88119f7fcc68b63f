package lookup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// reader is a layout's reader as the timed loop calls it: a key of one hash names an
// account, one of two a slot of that account, and one of a hash and a number a chunk of its code.
type reader struct {
	layout.Reader
	account layout.Account // that was found last
}

const (
	hashBytes   = len(layout.Hash{})
	numberBytes = 8
)

func (r *reader) Get(key, dst []byte) (value []byte, found bool, err error) {
	if len(key) == hashBytes+numberBytes {
		return r.Reader.(layout.CodeReader).CodeChunk(layout.Hash(key[:hashBytes]),
			binary.BigEndian.Uint64(key[hashBytes:]), dst)
	}

	if len(key) > hashBytes {
		return r.Slot(layout.Hash(key[:hashBytes]), layout.Hash(key[hashBytes:]), dst)
	}

	r.account, found, err = r.Account(layout.Hash(key))
	return dst, found, err
}

// touch is a lookup, and what it must find.
type touch struct {
	account, key layout.Hash
	slot         bool
	want         layout.Account
	value        []byte
	absent       bool
	kinds        []string // AgedAccess
}

// gets are the lookups of one worker, for the timed loop. Nothing in it is shared.
type gets struct {
	lookups
	reader    *reader
	generator *Generator
	seed      uint64
	place     int // among the workers
	at        uint64
	key       [2 * hashBytes]byte
	random    choice // what was asked, unless it is
	touch     *touch
	want      []byte // a slot's value
	again     []byte
	failed    error // of the same lookup before the one that is timed
}

func (g *gets) Next(uint64) (key []byte, n uint64) {
	at := g.at
	g.at++
	slot := false
	if g.touches != nil { // taken in turn
		g.touch = &g.touches[int(at)*g.inFlight+g.place]
		slot = g.touch.slot
		copy(g.key[:], g.touch.account[:])
		copy(g.key[hashBytes:], g.touch.key[:])
	} else {
		g.choose(at)
		slot = g.random.slot
		g.generator.accounts.Key(g.key[:hashBytes], g.random.index)
		if slot {
			g.generator.slots.Key(g.key[hashBytes:], slotNumber(g.random.index, g.random.j))
		}
	}

	switch key = g.key[:]; {
	case g.touches == nil && g.random.code:
		binary.BigEndian.PutUint64(g.key[hashBytes:], g.random.j)
		key = g.key[:hashBytes+numberBytes]
	case !slot:
		key = g.key[:hashBytes]
	}

	if g.condition == result.AgainLookups {
		g.again, _, g.failed = g.reader.Get(key, g.again[:0])
	}

	return key, 1
}

func (g *gets) LastRequest() string {
	if g.touches != nil {
		return fmt.Sprintf("look up %x %x", g.touch.account, g.touch.key)
	}
	return fmt.Sprintf("look up %s %d of account %d", g.kind, g.random.j, g.random.index)
}

// Check compares the answer with what the generator or the access list says.
func (g *gets) Check(value []byte, found bool) error {
	absent, slot := g.random.absent, g.random.slot
	if g.touches != nil {
		absent, slot = g.touch.absent, g.touch.slot
	}

	switch {
	case g.failed != nil:
		return g.failed
	case found && absent:
		return errors.New("wrong answer: a value for what was never written")
	case !found && !absent:
		return errors.New("wrong answer: what was written is missing")
	case absent:
		return nil
	case slot || g.touches == nil && g.random.code:
		if want := g.wantedSlot(); !bytes.Equal(value, want) {
			return fmt.Errorf("wrong answer: %x, not %x", value, want)
		}
		return nil
	}

	if g.touches != nil {
		return g.same(&g.touch.want)
	}

	want := g.generator.Account(g.random.index)
	return g.same(&want)
}

// same compares the account that was found with one in place: both are large.
func (g *gets) same(want *layout.Account) error {
	if g.reader.account != *want {
		return fmt.Errorf("wrong answer: %+v, not %+v", g.reader.account, *want)
	}
	return nil
}

func (g *gets) wantedSlot() []byte {
	if g.touches != nil {
		return g.touch.value
	}

	if g.random.code {
		g.want = g.generator.codeChunk(g.want[:0], g.random.index, g.random.j)
		return g.want
	}

	g.want = g.generator.Slot(g.want[:0], g.random.index, g.random.j)
	return g.want
}

// choice is a random lookup.
type choice struct {
	index, j uint64
	slot     bool
	code     bool
	absent   bool
}

func (g *gets) choose(n uint64) {
	of, c := g.generator, &g.random
	random := of.word(lookupStream, g.seed, n)
	*c = choice{index: random % of.chain.Accounts}
	switch g.kind {
	case result.AbsentAccountLookup:
		c.index, c.absent = of.chain.Accounts+random%(1<<40), true
		return
	case result.AccountLookup:
		return
	}

	c.code = g.kind == result.CodeLookup || g.kind == result.AbsentCodeLookup
	c.slot = !c.code
	if of.chain.ContractSlots > 0 {
		c.index = 0
	}

	for try := uint64(0); !of.HasStorage(c.index); try++ {
		c.index = of.word(contractStream, g.seed, n, try) % of.chain.Accounts
	}

	slots := of.slotsOf(c.index)
	if c.code {
		slots = (of.chain.CodeBytes + layout.CodeBytes - 1) / layout.CodeBytes
	}

	c.j = of.word(lookupSlotStream, g.seed, n) % slots
	if g.kind == result.AbsentSlotLookup || g.kind == result.AbsentCodeLookup {
		c.j, c.absent = c.j+slots, true
	}
}

type cost = session.Cost[layout.Counters]

// subject says how a layout counts.
func (r *run) subject() session.Subject[layout.Counters] {
	return session.Subject[layout.Counters]{
		Now: func() *layout.Counters {
			if r.state == nil {
				return nil
			}
			return new(r.state.Counters())
		},
		Between: host.Between[layout.Counters],
		Note: func(c layout.Counters, p *result.Phase) {
			p.Engine = session.Known(map[string]*int64{
				"reads":       c.Reads,
				"read_bytes":  c.ReadBytes,
				"writes":      c.Writes,
				"write_bytes": c.WriteBytes,
				"nodes_new":   c.NodesNew,
			})
		},
	}
}

// phase runs work as a named phase.
func (r *run) phase(name string, work func() (ops uint64, err error)) (cost, error) {
	return r.Phase(name, func(ops *atomic.Uint64) error {
		n, err := work()
		ops.Store(n)
		return err
	})
}

// deviceReadBytes are the private device's, else the kernel's account of the process.
func deviceReadBytes(c cost) int64 {
	if c.Device != nil {
		return c.Device.ReadBytes
	}
	return c.Process.ReadBytes
}

func deviceReads(c cost) *int64 {
	if c.Device == nil {
		return nil
	}
	return &c.Device.Reads
}

// written is what was written, and who counted it: the state's own device, which
// sees the filesystem's journal too; else the layout; else the kernel's account of the
// process, which is of whole folios, up to 2 MiB, where one page of them is made dirty:
// many times too much for small writes in place.
func written(c cost) (bytes int64, source string) {
	switch {
	case c.Device != nil:
		return c.Device.WriteBytes, "device"
	case c.Subject.WriteBytes != nil:
		return *c.Subject.WriteBytes, "layout"
	}
	return c.Process.WriteBytes, "process"
}

func each(total *int64, ops uint64) *float64 { return session.Per(total, float64(ops)) }

// floorLookups is short enough to go before every run: some 50 ms.
const floorLookups = 100_000

// HarnessFloor is the cost of the loop around a lookup of an absent account, in nanoseconds, in a
// layout that answers at once: choosing and naming it, two clock reads, recording.
func HarnessFloor(clock *measure.Clock) float64 {
	return session.Overhead(clock, floorLookups, nullWorker(clock).Run)
}

// nullWorker looks up absent accounts in no layout.
func nullWorker(clock *measure.Clock) *timed.Worker {
	const accounts = 1 << 20
	return workerOn(clock, &reader{Reader: nothing{}},
		NewGenerator(protocol.Chain{Seed: 1, Accounts: accounts, BlockAccounts: accounts}, 0),
		result.AbsentAccountLookup)
}

// workerOn makes random lookups of a kind alone.
func workerOn(clock *measure.Clock, r *reader, g *Generator, kind string) *timed.Worker {
	return timed.NewWorker(clock,
		&gets{lookups: lookups{kind: kind, inFlight: 1}, reader: r, generator: g}, r)
}

// nothing is a layout's reader without a layout.
type nothing struct{ layout.Reader }

func (nothing) Account(layout.Hash) (layout.Account, bool, error) {
	return layout.Account{}, false, nil
}
