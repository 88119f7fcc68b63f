//go:build cgo

package lmdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

type db struct {
	*mmapdb.DB
	mmapdb.Tables[lmdb.DBI]

	env      *lmdb.Env
	settings settings
	readOnly bool
	opened   uintptr // last transaction at Open
}

func words() mmapdb.CursorOps {
	return mmapdb.CursorOps{
		First:      lmdb.First,
		Next:       lmdb.NextNoDup,
		SetRange:   lmdb.SetRange,
		IsNotFound: lmdb.IsNotFound,
	}
}

// Shape counts the pages in use and those free between them, not the map.
func (d *db) Shape() (engine.Shape, error) {
	info, err := d.env.Info()
	if err != nil {
		return engine.Shape{}, fmt.Errorf("lmdb: shape: %w", err)
	}

	stat, err := d.env.Stat()
	if err != nil {
		return engine.Shape{}, fmt.Errorf("lmdb: shape: %w", err)
	}

	values := d.Values
	if values == nil && !d.readOnly { // the table of a database that is written
		err = d.env.View(func(txn *lmdb.Txn) error {
			stat, err := statOf(txn, d.Chosen[0])
			values = stat.OwnPages()
			return err
		})
	}

	return engine.Shape{
		Bytes:  (info.LastPNO + 1) * int64(stat.PSize),
		Files:  1,
		Tables: d.Named,
		Values: values,
	}, err
}

// Warnings tells of a writer that came after Open: without a lock file it does not
// know of our readers.
func (d *db) Warnings() []engine.Warning {
	info, err := d.env.Info()
	if err != nil || !d.readOnly || info.LastTxnID == int64(d.opened) {
		return nil
	}

	return []engine.Warning{{
		Code:   "written_meanwhile",
		Text:   "another process wrote to the database while it was read: values may be wrong",
		Remedy: "stop it, or measure a copy made by mdb_copy",
	}}
}

// SampleKeys draws keys from the pages of the file.
func (d *db) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) error {
	if d.None != nil {
		return d.None
	}

	return d.env.View(func(*lmdb.Txn) error {
		return d.SampleTables(ctx, d.settings.table, n, seed, yield)
	})
}

// Writer returns a writer of batches.
func (d *db) Writer() (engine.Writer, error) {
	return d.NewWriter(func(b *adapter.Batch) error {
		err := d.env.Update(func(txn *lmdb.Txn) error {
			return mmapdb.Apply(b, txn, d.Chosen[0], words())
		})
		if failed, is := errors.AsType[*lmdb.OpError](err); is && lmdb.IsMapFull(failed) {
			err = fmt.Errorf("%w: the database has reached its largest size: begin again with a "+
				"new --db and a larger --set map_size=1TiB", err)
		}

		return err
	})
}

type reader struct {
	mmapdb.Reader
	db  *db
	txn *lmdb.Txn
}

func (d *db) Reader() (engine.Reader, error) {
	if d.None != nil {
		return nil, fmt.Errorf("lmdb: %w", d.None)
	}

	r := &reader{db: d}
	err := d.Begin(&r.Reader, func() (mmapdb.ReadTxn, error) {
		txn, err := d.env.BeginTxn(nil, lmdb.Readonly)
		if err != nil {
			return nil, err
		}

		txn.RawRead = true // Get copies into the caller's buffer
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
	if err != nil && !lmdb.IsNotFound(err) {
		return dst[:0], false, err
	}

	r.Count()
	return append(dst[:0], value...), err == nil, nil
}

func (r *reader) measure() (mmapdb.Pages, error) {
	return r.db.Pages(func(table lmdb.DBI) (mmapdb.Stat, error) { return statOf(r.txn, table) })
}

func statOf(txn *lmdb.Txn, table lmdb.DBI) (s mmapdb.Stat, err error) {
	stat, err := txn.Stat(table)
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
		SeveralValues: flags&lmdb.DupSort != 0,
	}, err
}
