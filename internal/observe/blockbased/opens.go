package blockbased

import (
	"slices"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

// LimitOpenTables lets the tables of families of one database be open only as far as the limit of
// open files that they are read with keeps them open. Without it all tables stay open. It returns
// the least limit with which all do; 0 where they do already.
func LimitOpenTables(members ...*Resolver) (enough int, err error) {
	var files, preferred []uint64
	for _, r := range members {
		if r.reading.OpenFiles < 0 || r.reading.Level && r.reading.OpenFiles == 0 {
			return 0, nil
		}

		files, preferred = append(files, r.Files()...), append(preferred, r.opened...)
	}

	var cache *cachesim.TableCache
	switch reading := &members[0].reading; {
	case reading.Level:
		cache = cachesim.NewLevelTableCache(reading.OpenFiles)
	default:
		cache = cachesim.NewRocksTableCache(reading.OpenFiles, reading.TableShardBits, preferred)
	}

	if cache.Fits(files) {
		return 0, nil
	}

	for _, r := range members {
		r.tables = cache
		if err := r.reopenTables(cache); err != nil {
			return 0, err
		}
	}

	return cache.Enough(files), nil
}

// reopenTables lets Gets open the tables that they do not find open, as open says.
func (r *Resolver) reopenTables(open lookuppath.OpenTables) error {
	for _, t := range r.All {
		t.readMetadataToOpen(&r.reading)
	}
	return r.LimitOpen(open, (*table).openedByGet)
}

// ReopenTables lets Gets open the tables that they do not find open, as open says. No Walker may be
// in use, and it can be called once.
func (m *Mix) ReopenTables(open lookuppath.OpenTables) error {
	for _, r := range m.members {
		if err := r.reopenTables(open); err != nil {
			return err
		}
	}

	*m = *NewMix(m.members...) // opening has blocks of its own, which are numbered, too
	return nil
}

// OpenFiles is the limit of open files that the database is read with; below 0: none.
func (r *Resolver) OpenFiles() int { return r.reading.OpenFiles }

// SetOpenFiles sets the limit of open files; 0: all tables stay open.
func (r *Resolver) SetOpenFiles(limit int) { r.reading.OpenFiles = limit }

// openedByGet are the blocks that a Get which opens the table asks the block cache for.
func (t *table) openedByGet() []uint32 {
	if t.reading.Level {
		return nil // it asks for the index and the filter when it needs them
	}
	return t.opening(true)
}

// readMetadataToOpen adds the blocks that are kept outside the cache, with the open table, to what
// opening it reads. Read past the page cache, all of them come in one read of the table's end.
func (t *table) readMetadataToOpen(r *Reading) {
	if r.Level {
		return
	}

	if !r.MetadataInCache {
		t.readsToOpen(t.dictionaryAt)
		t.readsToOpen(t.Root)
		t.readsToOpen(t.filters.at)
	}

	if r.Direct {
		first := slices.MinFunc(t.Reads, func(a, b lookuppath.Handle) int {
			return int(int64(a.Offset) - int64(b.Offset))
		})
		t.Reads = []handle{{Offset: first.Offset, Bytes: uint32(uint64(t.Bytes) - first.Offset)}}
	}
}

// Open implements lookuppath.Opener.
func (m *Mix) Open(dst, numbers []uint32) []uint32 {
	for _, number := range numbers {
		of, from := m.of(number), len(dst)
		dst = m.members[of].Open(dst, []uint32{number - m.firsts[of]})
		for i := from; i < len(dst); i++ {
			dst[i] += m.firsts[of]
		}
	}
	return dst
}
