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
	mmapdb.Tables[mdbx.DBI]

	env      *mdbx.Env
	settings settings
	readOnly bool
}

func words() mmapdb.CursorOps {
	return mmapdb.CursorOps{
		First:      mdbx.First,
		Next:       mdbx.NextNoDup,
		SetRange:   mdbx.SetRange,
		IsNotFound: mdbx.IsNotFound,
	}
}

// Shape counts the pages in use and those free between them, not the hole up to
// the end of the file.
func (d *db) Shape() (engine.Shape, error) {
	info, err := d.env.Info(nil)
	if err != nil {
		return engine.Shape{}, fmt.Errorf("mdbx: shape: %w", err)
	}

	values := d.Values
	if values == nil && !d.readOnly { // the table of a database that is written
		err = d.env.View(func(txn *mdbx.Txn) error {
			stat, err := statOf(txn, d.Chosen[0])
			values = stat.OwnPages()
			return err
		})
	}

	return engine.Shape{
		Bytes:  int64(info.MiLastPgNo+1) * int64(info.PageSize),
		Files:  1,
		Tables: d.Named,
		Values: values,
	}, err
}

func (*db) Warnings() []engine.Warning { return nil }

// SampleKeys draws keys from the pages of the file.
func (d *db) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) error {
	if d.None != nil {
		return d.None
	}

	return d.env.View(func(*mdbx.Txn) error {
		return d.SampleTables(ctx, d.settings.table, n, seed, yield)
	})
}

// Writer returns a writer of batches.
func (d *db) Writer() (engine.Writer, error) {
	return d.NewWriter(func(b *adapter.Batch) error {
		err := d.env.Update(func(txn *mdbx.Txn) error {
			return mmapdb.Apply(b, txn, d.Chosen[0], words())
		})
		if errors.Is(err, mdbx.MapFull) {
			err = fmt.Errorf("%w: the database has reached its largest size: begin again with a "+
				"new --db and a larger --set size_upper=2TiB", err)
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
	if d.None != nil {
		return nil, fmt.Errorf("mdbx: %w", d.None)
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

	table, key, known := adapter.Unmix(len(r.db.Chosen), key)
	if !known {
		return dst[:0], false, nil
	}

	value, err := r.txn.Get(r.db.Chosen[table], key)
	if err != nil && !mdbx.IsNotFound(err) {
		return dst[:0], false, err
	}

	r.Count()
	return append(dst[:0], value...), err == nil, nil
}

func (r *reader) measure() (mmapdb.Pages, error) {
	return r.db.Pages(func(table mdbx.DBI) (mmapdb.Stat, error) { return statOf(r.txn, table) })
}

func statOf(txn *mdbx.Txn, table mdbx.DBI) (s mmapdb.Stat, err error) {
	stat, err := txn.StatDBI(table)
	if err != nil {
		return s, err
	}

	flags, err := txn.Flags(table)
	return mmapdb.Stat{
		Depth: int64(stat.Depth),
		Keys:  int64(stat.Entries),
		Bytes: int64(stat.BranchPages+stat.LeafPages+
			stat.OverflowPages) * int64(stat.PSize),
		Overflow:      int64(stat.OverflowPages) * int64(stat.PSize),
		SeveralValues: flags&mdbx.DupSort != 0,
	}, err
}
