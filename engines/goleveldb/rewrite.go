package goleveldb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// RewriteOptions implements engine.Rewriter: no compactions, and a write buffer that holds the
// entries of any table.
func (d *db) RewriteOptions() (map[string]string, error) {
	tables, err := d.tables()
	if err != nil {
		return nil, err
	}

	const decoded = 8 // times the bytes of a table, and more
	buffer := int64(minWriteBuffer)
	for _, t := range tables {
		buffer = max(buffer, decoded*t.Bytes)
	}

	return map[string]string{
		"WriteBuffer":            strconv.FormatInt(buffer, 10) + "B",
		"CompactionL0Trigger":    "1000000",
		"CompactionTotalSize":    "1024GiB",
		"DisableSeeksCompaction": "true",
	}, nil
}

// Rewrite implements engine.Rewriter. goleveldb writes each table as one of level 0, the lowest
// level first, as older entries lie below newer ones; then a manifest puts it on the level where it
// was. What the log holds is not taken over.
func (d *db) Rewrite(ctx context.Context, from engine.DB, done func(tables, of int)) error {
	source, is := from.(*db)
	if !is {
		return engine.Fail(engine.CodeUnsupported,
			"goleveldb: tables of another engine cannot be rewritten")
	}

	families, err := blockbased.Families(source.dir)
	if err != nil {
		return err
	}

	tables, entries := families[0].Tables, uint64(0)
	slices.Reverse(tables)
	for i, t := range tables {
		done(i, len(tables))
		n, err := d.copyTable(source.dir, t)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return fmt.Errorf("goleveldb: rewrite a table of %s: %w", source.dir, err)
		}

		entries += n
	}

	written, err := d.tables()
	if err != nil {
		return err
	}

	if len(written) != len(tables) {
		return fmt.Errorf("goleveldb: %d tables of %s became %d", len(tables), source.dir,
			len(written))
	}

	for i, t := range tables { // in the order in which they were written
		written[i].Level, written[i].Smallest, written[i].Largest = t.Level, t.Smallest, t.Largest
	}

	d.follower.Stop()
	err = d.leveldb.Close()
	if err == nil {
		err = d.place(written, entries)
	}

	if err == nil {
		d.leveldb, err = leveldb.Open(d.storage, d.settings.translate(engine.Options{}))
	}

	d.follower.Follow(d.storage.changed)
	if err != nil {
		return fmt.Errorf("goleveldb: open %s with its tables on their levels: %w", d.dir, err)
	}

	return d.follower.Refresh(ctx, nil)
}

// copyTable writes the newest entry of each key of a table in dir.
func (d *db) copyTable(dir string, t blockbased.Facts) (entries uint64, err error) {
	to, err := d.leveldb.OpenTransaction()
	if err != nil {
		return 0, err
	}

	defer to.Discard() // unless it is committed
	add := func(key, value []byte, deleted bool) error {
		entries++
		if deleted {
			return to.Delete(key, nil)
		}
		return to.Put(key, value, nil)
	}
	if err := blockbased.EachEntry(dir, t, &blockbased.Reading{Level: true}, add); err != nil {
		return 0, err
	}

	return entries, to.Commit()
}

// place writes a manifest with tables on their levels. (Source: goleveldb's session_record.go.)
func (d *db) place(tables []blockio.LiveTable, entries uint64) error {
	const comparerName, journalNumber, nextNumber, sequence, table = 1, 2, 3, 4, 7
	next := uint64(1) // beyond all tables, whose numbers ascend
	if n := len(tables); n > 0 {
		next += uint64(tables[n-1].Number)
	}

	var record []byte
	number := func(all ...uint64) {
		for _, n := range all {
			record = binary.AppendUvarint(record, n)
		}
	}

	text := func(t, more string) {
		number(uint64(len(t) + len(more)))
		record = append(append(record, t...), more...)
	}

	number(comparerName)
	text(comparer.DefaultComparer.Name(), "")
	number(journalNumber, next+1, nextNumber, next+2, sequence, entries)
	// bounds have the first and the last sequence number that a key can have
	for _, t := range tables {
		number(table, uint64(t.Level), uint64(t.Number), uint64(t.Bytes))
		text(string(t.Smallest), "\x01\xff\xff\xff\xff\xff\xff\xff")
		text(string(t.Largest), "\x00\x00\x00\x00\x00\x00\x00\x00")
	}

	manifest := storage.FileDesc{Type: storage.TypeManifest, Num: int64(next)}
	file, err := d.storage.Create(manifest)
	if err != nil {
		return err
	}

	out := journal.NewWriter(file)
	to, err := out.Next()
	if err == nil {
		_, err = to.Write(record)
	}

	if err = errors.Join(err, out.Close(), file.Sync(), file.Close()); err != nil {
		return err
	}

	return d.storage.SetMeta(manifest)
}

var _ engine.Rewriter = (*db)(nil)
