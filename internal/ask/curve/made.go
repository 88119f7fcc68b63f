package curve

import (
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/getpath"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/subject"
)

// made records the accesses of Gets that are made, with a cache that admits nothing. It needs
// no model of what a Get does, so it follows whatever the engine does: values in files of their
// own, tables that share a file. It takes about ten times as long as resolving.
type made struct {
	identity string
	db       engine.DB
	reader   engine.Reader

	out     *trace.Writer
	known   map[blockAt]uint32 // the trace's numbers of blocks
	numbers []uint32           // of the Get that is being made
}

type blockAt struct{ file, offset uint64 }

func openMade(ctx context.Context, o Of) (_ *made, err error) {
	spec := &o.Spec
	m := &made{known: map[blockAt]uint32{}}
	if m.identity, err = resolve.Identify(spec.Dir, subject.PebbleVersion(spec.Engine)); err != nil {
		return nil, err
	}
	m.db, err = dbformat.Open(ctx, o.Engine, engine.Options{Dir: spec.Dir, Profile: spec.Profile, Overrides: spec.Overrides, Foreign: spec.Foreign,
		ReadOnly: true, IgnoreLock: true, TraceAccesses: true, Accessed: m.accessed})
	if err != nil {
		return nil, err
	}
	if m.reader, err = m.db.Reader(); err != nil {
		return nil, errors.Join(err, m.db.Close())
	}
	return m, nil
}

func (m *made) accessed(a engine.Access) {
	if m.out == nil {
		return // of opening the database
	}
	at := blockAt{a.File, a.Offset}
	number, known := m.known[at]
	if !known {
		number = m.out.Block(cachesim.Block{File: a.File, Offset: a.Offset, Bytes: a.Bytes, DiskBytes: a.DiskBytes, Type: a.Type, Level: uint8(a.Level)})
		m.known[at] = number
	}
	m.numbers = append(m.numbers, number)
}

func (m *made) Identity() string { return m.identity }

// Opening are none: the engine whose Gets are made keeps what opening a table reads elsewhere.
func (*made) Opening() []uint32 { return nil }

// Record makes the Gets of keys, one after the other.
func (m *made) Record(ctx context.Context, _ []uint32, keys getpath.Keys, _ uint64, sample trace.Sample, out *trace.Writer) (offered uint64, err error) {
	m.out = out
	var value []byte
	for {
		key, known, more := keys()
		if !more {
			return offered, nil
		}
		offered++
		if ctx.Err() != nil {
			return offered, ctx.Err()
		}
		if !sample.Takes(key) {
			continue
		}
		m.numbers = m.numbers[:0]
		var found bool
		if value, found, err = m.reader.Get(key, value); err == nil && known && !found {
			err = errors.New("it should be in the database and is not")
		}
		if err == nil {
			err = out.Get(found, m.numbers)
		}
		if err != nil {
			return offered, fmt.Errorf("trace the Get of key %x: %w", key, err)
		}
	}
}

func (m *made) Close() error { return errors.Join(m.reader.Close(), m.db.Close()) }
