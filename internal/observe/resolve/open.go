package resolve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Open reads the manifest, the log, and of every table the filter and the index
// of the database in dir, as Pebble of that version sees it. It writes nothing
// and ignores the lock, so the database may be in use: what is resolved is its
// state at one moment.
//
// A version of Pebble that cannot open the database is an error, and so is
// anything in it that could not be resolved exactly: of that the code is
// engine.CodeUnsupported.
func Open(dir string, version cachesim.PebbleVersion) (*Resolver, error) {
	var r *Resolver
	err := livedir.Retry(dir, func() (err error) {
		r, err = open(dir, version)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", dir, err)
	}

	return r, nil
}

// IgnoreFilters resolves Gets of a database whose options name no filter: Pebble asks
// none then, whatever its tables have.
func (r *Resolver) IgnoreFilters() {
	for _, t := range r.All {
		t.filter = nil
	}
}

// ConsultFilters resolves Gets as if the options of a database that name no filter policy named
// one, or not any more. No Walker may be in use.
func (r *Resolver) ConsultFilters(consult bool) error {
	if !r.kept.NoFilters {
		return nil
	}

	if !consult {
		r.IgnoreFilters()
		return nil
	}

	for _, t := range r.All {
		if t.Level != lastLevel && t.filterAt.Bytes > 0 {
			if err := t.loadFilter(); err != nil {
				return fmt.Errorf("table %06d: %w", t.File, err)
			}
		}
	}

	return nil
}

// AskLastFilters resolves look-ups by iterators that ask the filters of the last level, too
// (UseL6Filters): where such a one finds its key does not keep it from looking into all older
// levels. Of databases with deletions, merges or keys in the log it is not known which blocks an
// iterator steps on to: the code of that error is engine.CodeUnsupported.
func (r *Resolver) AskLastFilters() error {
	if r.unflushed != nil && r.inLog > 0 {
		return engine.Fail(engine.CodeUnsupported,
			"iterators over keys in the log are not resolved")
	}

	for _, t := range r.All {
		if t.deletes || t.merges || t.excluded != nil || t.rangeDelAt.Bytes > 0 {
			return engine.Fail(engine.CodeUnsupported,
				"iterators over deletions and merges are not resolved")
		}

		if t.Level == lastLevel && t.filterAt.Bytes > 0 {
			if err := t.loadFilter(); err != nil {
				return fmt.Errorf("table %06d: %w", t.File, err)
			}
		}
	}

	r.iterates = true
	return nil
}

// Kept is what the database says of itself.
func (r *Resolver) Kept() dbformat.KeptByPebble { return r.kept }

// Identify is the identity that a Resolver of the database would have, also where it cannot be
// resolved.
func Identify(dir string, version cachesim.PebbleVersion) (string, error) {
	var found manifest
	err := livedir.Retry(dir, func() (err error) {
		found, err = listAlone(dir, version)
		return err
	})
	return lsmtail.Identify(found.tables), err
}

func listAlone(dir string, version cachesim.PebbleVersion) (manifest, error) {
	kept, err := dbformat.ReadKeptByPebble(dir)
	if err != nil {
		return manifest{}, err
	}
	return list(dir, version, kept)
}

func list(
	dir string, version cachesim.PebbleVersion, kept dbformat.KeptByPebble,
) (manifest, error) {
	switch version {
	case cachesim.PebbleV1:
		return list1(dir, kept)
	case cachesim.PebbleV2:
		return list2(dir, kept)
	}
	return manifest{}, fmt.Errorf("invalid Pebble version %d: must be 1 or 2", version)
}

func open(dir string, version cachesim.PebbleVersion) (*Resolver, error) {
	kept, err := dbformat.ReadKeptByPebble(dir)
	if err != nil {
		return nil, err
	}

	r := &Resolver{version: version, kept: kept}
	var found manifest
	err = blockio.DetectWALRemoval(kept.Logs, true, func() (err error) {
		if found, err = list(dir, version, kept); err == nil {
			r.unflushed, r.inLog, err = readLogs(found.logs)
		}
		return err
	})

	if err = errors.Join(err, found.unresolved); err != nil {
		return nil, err
	}

	all, err := lsmtail.EachTable(found.tables, func(facts lsmtail.Facts) (*table, error) {
		return openTable(dir, facts, kept)
	})
	if r.Tables = lookuppath.Opened(all, found.tables); err == nil {
		_, err = r.Number(0)
	}

	if err != nil {
		return nil, errors.Join(err, r.Close())
	}

	r.levels = inGetOrder(r.All)
	return r, nil
}

// manifest is what a version says a database consists of.
type manifest struct {
	tables []lsmtail.Facts // from L0 to L6
	logs   []string        // paths, oldest first, of those that hold what no table does

	unresolved error // a table that cannot be opened here
}

// noteLog is told which files Pebble opens: the logs among them hold what no table does.
func (m *manifest) noteLog(path string) {
	if strings.HasSuffix(path, ".log") {
		m.logs = append(m.logs, path)
	}
}

// Opening implements lookuppath.Source, in the order of the level table. v1 reads the properties of
// tables through the block cache, v2 keeps them elsewhere.
func (r *Resolver) Opening() (numbers []uint32) {
	for _, t := range r.All {
		switch {
		case r.Limited():
			numbers = r.Lookup(t, numbers) // with what opening it asks for
		case r.version == cachesim.PebbleV1:
			numbers = append(numbers, t.First+propertiesNumber)
		}
	}

	return numbers
}

// LimitOpenTables lets the tables be open only as far as Pebble keeps them open with this limit
// (MaxOpenFiles) and so many shards of the table cache. Without it all tables stay open. It returns
// the least limit with which all do; 0 where they do already.
func (r *Resolver) LimitOpenTables(maxOpenFiles, shards int) (enough int, err error) {
	cache := cachesim.NewPebbleTableCache(r.version, maxOpenFiles, shards)
	files := r.Files()
	if cache.Fits(files) {
		return 0, nil
	}

	return cache.Enough(files), r.ReopenTables(cache)
}

// ReopenTables lets Gets open the tables that they do not find open, as open says. No Walker may be
// in use, and it can be called once.
func (r *Resolver) ReopenTables(open lookuppath.OpenTables) error {
	// v1 reads the properties through the block cache, v2 beside it.
	return r.LimitOpen(open, func(t *table) []uint32 {
		if r.version == cachesim.PebbleV1 {
			return []uint32{t.First + propertiesNumber}
		}
		t.Reads = append(t.Reads, lookuppath.Handle{
			Offset: t.propertiesAt.Offset,
			Bytes:  t.propertiesAt.Bytes + lookuppath.TrailerBytes,
		})
		return nil
	})
}
