package resolve

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	pebble2 "github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Following follows a database while its owner writes into it: which tables there are from when to
// when, by the changes of its manifest, and which keys are in memory, by its log. Times are the
// caller's. For one goroutine.
type Following struct {
	lsmtail.Database
	version cachesim.PebbleVersion
	kept    dbformat.KeptByPebble

	flushed int64 // bytes, about, of the memtables that became tables before
	grown   bool  // there were so many that memtables have their full size
	// the owner found a database, of whose log it made memtables before it made the one that it
	// writes into
	reopened bool
	made     *int                    // what MemTablesMade is; nil: what is estimated
	batches  map[uint64][]largeBatch // of logs
}

// largeBatch is a batch that an engine with small memtables keeps apart from them, in memory that
// it takes from the block cache until it is in a table.
type largeBatch struct {
	at           time.Duration
	bytes, asKey int64 // as it is, and in a memtable
}

const minLargeBatch = 64 << 10

// Follow begins. appeared returns the paths of files that came into the folders of the database
// since it was last called, or since Follow was.
func Follow(
	dir string, version cachesim.PebbleVersion, appeared func() ([]string, error),
) (f *Following, err error) {
	f = &Following{version: version, batches: map[uint64][]largeBatch{}}
	format := lsmtail.Format{
		Manifest: func() (string, error) {
			name, err := dbformat.PebbleManifest(dir)
			return filepath.Join(dir, name), err
		},
		Begin: func() {},
		Edits: func(record []byte) ([]lsmtail.Edit, error) {
			e, err := lsmtail.ReadEdit(record, false)
			return []lsmtail.Edit{e}, err
		},
		Began:   f.since,
		Entries: f.entries,
	}

	if f.kept, err = dbformat.ReadKeptByPebble(dir); err == nil {
		err = f.Begin(dir, format, f.kept.Logs, appeared)
	}

	if err != nil {
		err = errors.Join(fmt.Errorf("follow %s: %w", dir, dbformat.RemoteObjects(dir, err)),
			f.Close())
	}

	return f, err
}

// Folders are where files of the database come and go.
func Folders(dir string) []string {
	kept, err := dbformat.ReadKeptByPebble(dir)
	return lsmtail.Folders(dir, kept.Logs, err)
}

// since learns how much was written to tables since the owner opened the database. It began a
// manifest then, with all that there was, and then wrote its options. It begins another manifest
// when that is long.
func (f *Following) since(manifestName string, edits []lsmtail.Edit) error {
	options, err := optionsfile.Newest(f.Dir)
	if err != nil {
		return err
	}

	number := func(name, prefix string) uint64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(name, prefix), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}

	f.grown = options != "" && number(manifestName, "MANIFEST-") > number(options, "OPTIONS-")
	const second = 2 // the first version makes the one that it writes into before
	for i, e := range edits {
		f.reopened = f.reopened || i == 0 && f.version == second && len(e.Added) > 0
		if i > 0 && e.MinLog > 0 {
			f.flushed += tookInMemory(e.Added)
		}
	}

	return nil
}

// tookInMemory is about how many bytes the entries of tables took in memtables. Each entry has a
// sequence number of its own: small ones take more there for themselves than for what they hold.
func tookInMemory(tables []lsmtail.Facts) (bytes int64) {
	const uncompressed, node = 1.5, 28 // about
	entries := uint64(0)
	for _, t := range tables {
		bytes += int64(uncompressed * float64(t.Bytes))
		entries = max(entries, t.LargestSeqNum-t.SmallestSeqNum+1)
	}

	return bytes + node*int64(min(entries, maxEntries))
}

// maxEntries are more than any memtable has.
const maxEntries = 1 << 32

// inMemtable is what Pebble reckons for an entry of a memtable besides its key and its value.
const inMemtable = 195

// entries visits those of a batch, and notes a large one.
func (f *Following) entries(
	log uint64, batch []byte, at time.Duration,
	visit func(family uint32, entry lsmtail.Entry, key, end []byte),
) error {
	reckoned := int64(0)
	err := eachEntry(batch, func(kind pebble2.InternalKeyKind, key, value []byte) error {
		reckoned += inMemtable + int64(len(key)) + int64(len(value))
		if entry, _ := entryOf(kind); entry != lsmtail.None {
			visit(0, entry, key, value)
		}
		return nil
	})

	if bytes := int64(len(batch)); bytes >= minLargeBatch && err == nil {
		f.batches[log] = append(f.batches[log], largeBatch{at, bytes, reckoned})
	}

	return err
}
