package pebbledb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// RewriteOptions implements engine.Rewriter: of the same format, and without compactions, which
// would change what is compared.
func (d *DB) RewriteOptions() (map[string]string, error) {
	return map[string]string{
		"FormatMajorVersion":          d.Effective()["format_major_version"],
		"DisableAutomaticCompactions": "true",
	}, nil
}

// Rewrite implements engine.Rewriter. Pebble ingests each table, and the manifest then puts it on
// the level where it was. What the log or files of values hold is not taken over.
func (d *DB) Rewrite(ctx context.Context, from engine.DB, done func(tables, of int)) (err error) {
	source, is := from.(*DB)
	if !is {
		return engine.Fail(engine.CodeUnsupported,
			"%s: tables of another engine cannot be rewritten", d.config.adapter)
	}

	tables, err := source.version.Tables()
	if err != nil {
		return source.failed("list the tables", err)
	}

	build, err := d.sortedBuild()
	if err != nil {
		return err
	}

	folder := filepath.Join(d.config.dir, buildFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var paths [Levels][]string
	for i, t := range tables {
		done(i, len(tables))
		path := filepath.Join(folder, fmt.Sprintf("L%d-%06d.table", t.Level, i))
		file, err := os.Create(path)
		if err != nil {
			return err
		}

		out := build.NewTable(t.Level, newTableFile(file))
		if err := errors.Join(source.copyTable(ctx, t, out), out.Close()); err != nil {
			return source.failed("rewrite a table of", err)
		}

		paths[t.Level] = append(paths[t.Level], path)
	}

	if err := d.detach(); err != nil {
		return err
	}

	err = build.ingest(ctx, paths)
	if err == nil {
		err = relevel(d.config.dir, paths)
	}

	if err = errors.Join(err, d.reopen(ctx)); err != nil {
		return d.failed("ingest tables of", err)
	}

	return nil
}

// relevel puts the tables of a closed database on the levels from which they come. Pebble ingested
// each into the deepest one that is above all older ones which it overlaps.
func relevel(dir string, paths [Levels][]string) error {
	name, err := dbformat.PebbleManifest(dir)
	if err != nil {
		return err
	}

	path := filepath.Join(dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	var records [][]byte
	for in := record.NewReader(bytes.NewReader(content), 0); ; {
		next, err := in.Next()
		if err == io.EOF {
			break
		}

		if err != nil {
			return err
		}

		edit, err := io.ReadAll(next)
		if err != nil {
			return err
		}

		records = append(records, edit)
	}

	tables := make([]int, Levels)
	for level := range paths {
		tables[level] = len(paths[level])
	}

	if err := lsmtail.Relevel(records, tables); err != nil {
		return err
	}

	var changed bytes.Buffer
	out := record.NewWriter(&changed)
	for _, edit := range records {
		if _, err := out.WriteRecord(edit); err != nil {
			return err
		}
	}

	if err := out.Close(); err != nil {
		return err
	}

	return os.WriteFile(path, changed.Bytes(), 0o644)
}

// copyTable writes the newest entry of each of a table's keys to another table. The first and the
// last must have no sequence numbers to be ingested (writeTable).
func (d *live) copyTable(ctx context.Context, t blockio.LiveTable, to TableWriter) (err error) {
	table, err := openSampled(ctx, d.tablePath(t.Number), d.config.kept)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, table.reader.Close()) }()
	properties, err := table.reader.ReadPropertiesBlock(ctx, nil)
	if err != nil {
		return err
	}

	if t.Virtual || properties.NumRangeDeletions > 0 || properties.NumRangeKeys() > 0 ||
		properties.NumMergeOperands > 0 {
		return engine.Fail(engine.CodeUnsupported, "table %06d shares its file, or has merges or "+
			"entries about ranges of keys, which are not rewritten",
			uint64(t.Number))
	}

	keys, err := table.reader.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, keys.Close()) }()
	var key, value []byte
	var number uint64 // of the first one: none
	var kind pebble.InternalKeyKind
	put := func() error {
		if kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindSetWithDelete {
			return to.Set(key, value, number)
		}
		return to.Delete(key, number)
	}

	for kv := keys.First(); kv != nil; kv = keys.Next() {
		if key != nil {
			if bytes.Equal(kv.K.UserKey, key) {
				continue // an older version
			}

			if err := put(); err != nil {
				return err
			}

			number = uint64(kv.K.SeqNum())
		}

		key, kind = append(key[:0], kv.K.UserKey...), kv.K.Kind()
		read, _, err := kv.Value(nil)
		if err != nil {
			return err
		}

		value = append(value[:0], read...)
	}

	number = 0
	return errors.Join(put(), keys.Error(), context.Cause(ctx))
}
