//go:build cgo

package mdbx

import (
	"context"
	"errors"
	"fmt"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

type db struct {
	*mmapdb.DB

	env      *mdbx.Env
	chosen   []mdbx.DBI // the table that Gets ask for, or those of a mix
	settings settings
	readOnly bool
	tables   []engine.Table
	noTable  error // why nothing can be looked up: tables there are, and none was chosen
}

func words() mmapdb.Words {
	return mmapdb.Words{First: mdbx.First, Last: mdbx.Last, Next: mdbx.NextNoDup, SetRange: mdbx.SetRange, IsNotFound: mdbx.IsNotFound}
}

// Shape counts the pages in use and those free between them, not the hole up to
// the end of the file.
func (d *db) Shape() (engine.Shape, error) {
	info, err := d.env.Info(nil)
	if err != nil {
		return engine.Shape{}, fmt.Errorf("mdbx: shape: %w", err)
	}
	return engine.Shape{Bytes: int64(info.MiLastPgNo+1) * int64(info.PageSize), Files: 1, Tables: d.tables}, nil
}

func (d *db) pageBytes() (int64, error) {
	info, err := d.env.Info(nil)
	if err != nil {
		return 0, err
	}
	return int64(info.PageSize), nil
}

func (*db) Warnings() []engine.Warning { return nil }

// SampleKeys draws places between the first key and the last.
func (d *db) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
	if d.noTable != nil {
		return d.noTable
	}
	return d.env.View(func(txn *mdbx.Txn) error {
		return adapter.SampleMix(d.settings.mix, n, func(table, n int, yield func([]byte) error) error {
			return mmapdb.SampleTable(ctx, txn, d.chosen[table], words(), n, seed, yield)
		}, yield)
	})
}

// Writer returns a writer of batches.
func (d *db) Writer() (engine.Writer, error) {
	return d.NewWriter(func(b *mmapdb.Batch) error {
		err := d.env.Update(func(txn *mdbx.Txn) error { return mmapdb.Apply(b, txn, d.chosen[0], words()) })
		if errors.Is(err, mdbx.MapFull) {
			err = fmt.Errorf("%w: raise --set size_upper", err)
		}
		return err
	})
}

type reader struct {
	mmapdb.Reader
	db  *db
	txn *mdbx.Txn
}

func (d *db) Reader() (engine.Reader, error) {
	if d.noTable != nil {
		return nil, fmt.Errorf("mdbx: %w", d.noTable)
	}
	r := &reader{db: d}
	err := d.Begin(&r.Reader, func() (mmapdb.ReadTxn, error) {
		txn, err := d.env.BeginTxn(nil, mdbx.Readonly)
		if err != nil {
			return nil, err
		}
		r.txn = txn
		return txn, nil
	}, r.measure)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	if r.Stale() {
		if err := r.Renew(); err != nil {
			return dst[:0], false, err
		}
	}
	table, key, known := adapter.Unmix(len(r.db.chosen), key)
	if !known {
		return dst[:0], false, nil
	}
	value, err := r.txn.Get(r.db.chosen[table], key)
	if err != nil && !mdbx.IsNotFound(err) {
		return dst[:0], false, err
	}
	r.Count()
	return append(dst[:0], value...), err == nil, nil
}

// measure tells the pages that each Get touches; of a mix, those of the flattest table.
func (r *reader) measure() (pages mmapdb.Pages, err error) {
	for _, table := range r.db.chosen {
		stat, err := r.txn.StatDBI(table)
		if err != nil {
			return pages, err
		}
		flags, err := r.txn.Flags(table)
		if err != nil {
			return pages, err
		}
		pages.Add(int64(stat.Depth), stat.OverflowPages > 0 || flags&mdbx.DupSort != 0)
	}
	return pages, nil
}
