//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
)

type db struct {
	settings  settings
	rocks     *C.rocksdb_t
	families  []family             // that are open, the one that Gets go to first
	kept      optionsFile          // of another program's database
	logs      string               // folder of the write-ahead log
	options   *C.rocksdb_options_t // hold the statistics
	cache     *C.rocksdb_cache_t
	writes    *C.rocksdb_writeoptions_t
	effective map[string]string
	reads     *account
	written   atomic.Int64 // keys and values committed, bytes

	// tables with filters that this version ignores, by family and level; nil: not looked for yet
	oldFilters map[string]map[int][]blockbased.Written

	memory     sync.Mutex
	cacheBytes int64
	outside    int64 // filters and indexes outside the cache when it was last sized

	warning  sync.Mutex
	warnings []engine.Warning
}

func open(s settings) (*db, error) {
	if s.readOnly && !s.ignoreLock {
		// Opening for reading only takes no lock and would not notice.
		if err := blockio.CheckUnlocked(filepath.Join(s.dir, "LOCK")); err != nil {
			return nil, err
		}
	}

	d := &db{settings: s, cacheBytes: s.cacheBytes}
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.Close())
	}

	return d, nil
}

func (d *db) start() (err error) {
	if err := d.createCache(); err != nil {
		return err
	}

	if err := d.takeOptions(); err != nil {
		return err
	}

	if err := blockio.DetectWALRemoval([]string{d.logs}, d.settings.ignoreLock,
		d.openFamilies); err != nil {
		return err
	}

	d.writes = C.rocks_writeoptions_create()
	d.effective = d.inForce()
	if !d.settings.readOnly {
		if d.effective, err = readEffective(d.settings.dir); err != nil {
			return err
		}
	}

	// With few handles, tables are opened when they are needed: the shape opens
	// each once, so that their metadata is accounted for.
	shape, err := d.Shape()
	if err != nil {
		return err
	}

	if err := d.rebalance(); err != nil {
		return err
	}

	sector := int64(0)
	if d.settings.direct {
		if sector, err = sectorBytes(d.settings.dir); err != nil {
			return err
		}
	}

	d.reads = d.newAccount(shape, sector)
	if d.settings.readOnly {
		remedy := "leave --read-only out, or read a copy without it"
		if d.settings.foreign {
			remedy = "work them out: statelab trace and statelab simulate"
		}

		d.warn(engine.Warning{Code: "cache_untold",
			Text: "opened read-only, RocksDB does not report what Gets found in its block cache: " +
				"no accesses and hit rates, and no types of reads where " +
				"filters and indexes are in the cache",
			Remedy: remedy})
	}

	if d.settings.foreign && d.kept.file == "" {
		d.warn(engine.Warning{
			Code: "no_options_file",
			Text: "the database has no OPTIONS file: its owner's options, such as prefix " +
				"extractors, are not known, and profile default is used instead",
			Remedy: "let the program that owns it open it once, which writes the file, and read " +
				"a copy of that",
		})
	}

	d.warnOfFamilies(shape)
	for _, f := range d.asked() {
		for _, w := range d.kept.warnings(f.name) {
			d.warn(w)
		}
	}

	return nil
}

func (d *db) createCache() error {
	if d.settings.cacheKind == cachesim.PooledLRUPolicy {
		d.cache = C.rocks_cache_create_lru(C.size_t(d.cacheBytes))
		return nil
	}

	if d.cache = C.rocks_create_hyper_clock(C.size_t(d.cacheBytes),
		C.size_t(d.settings.entryBytes)); d.cache == nil {
		version, _ := load()
		f := engine.Fail(engine.CodeUnsupported, "RocksDB %s offers no HyperClockCache to "+
			"programs that load it", version)
		f.Remedy = howToGet
		return f
	}

	return nil
}

// takeOptions makes the options to open with.
func (d *db) takeOptions() (err error) {
	d.logs = d.settings.dir
	if d.settings.foreign {
		if d.kept, err = loadKept(d.settings.dir, d.cache); err != nil {
			return err
		}

		if d.settings.direct && d.kept.mapped() {
			return engine.Fail(engine.CodeOption, "%s has allow_mmap_reads=true: tables that are "+
				"mapped into memory are not read with O_DIRECT", d.kept.file).
				WithRemedy("use --page-cache cold, or another value than direct")
		}

		if d.settings.handles < 0 {
			d.settings.handles = d.kept.openFiles()
		}

		if d.logs, err = d.kept.logsIn(d.settings.dir, d.settings.database["wal_dir"]); err != nil {
			return err
		}
	}

	if !d.settings.create {
		if few := d.settings.limitHandles(d.settings.otherFiles); few != nil {
			d.warn(*few)
		}
	}

	if d.options, err = d.settings.options(d.cache, d.kept, d.logs); err != nil {
		return err
	}

	if d.settings.foreign {
		dir := C.CString(d.settings.dir)
		defer C.free(unsafe.Pointer(dir))
		C.rocks_one_folder(d.options, dir)
	}

	return nil
}

// Close closes what start has opened.
func (d *db) Close() error {
	if d.rocks != nil {
		for _, f := range d.families {
			C.rocks_column_family_handle_destroy(f.handle)
		}
		C.rocks_close(d.rocks)
		C.rocks_writeoptions_destroy(d.writes)
	}

	if d.options != nil {
		C.rocks_options_destroy(d.options)
	}

	d.kept.destroy()
	if d.cache != nil {
		C.rocks_cache_destroy(d.cache)
	}

	return nil
}

func (d *db) Sync(context.Context) error {
	if d.settings.readOnly {
		return nil
	}

	var message *C.char
	C.rocks_flush_wal(d.rocks, 1, &message)
	if err := errFromC(message); err != nil {
		return fmt.Errorf("rocksdb: sync the WAL: %w", err)
	}

	return nil
}

// CacheBytes is the size of the block cache.
func (d *db) CacheBytes() int64 { return d.cacheBytes }

// Effective are the options by RocksDB's own account, and what the harness asks
// of every engine.
func (d *db) Effective() map[string]string {
	e := maps.Clone(d.effective)
	d.memory.Lock()
	e["cache_bytes"] = strconv.FormatInt(d.cacheBytes, 10)
	d.memory.Unlock()
	if kind := d.settings.cacheKind; kind != cachesim.PooledLRUPolicy {
		e[cacheOption] = string(kind)
	}

	e["handles"] = strconv.Itoa(max(d.settings.handles, 0)) // 0: all tables stay open
	return e
}

func (d *db) Warnings() []engine.Warning {
	d.warning.Lock()
	defer d.warning.Unlock()
	warnings := slices.Clone(d.warnings)
	if w, much := adapter.Unflushed(d.replayedBytes(),
		d.number("rocksdb.live-sst-files-size")); much {
		warnings = append(warnings, w)
	}
	return warnings
}

// replayedBytes are those of memtables of a database that is open for reading: they came from its
// log.
func (d *db) replayedBytes() int64 {
	if !d.settings.readOnly ||
		d.number("rocksdb.num-entries-active-mem-table")+
			d.number("rocksdb.num-entries-imm-mem-tables") == 0 {
		return 0
	}
	return d.number("rocksdb.cur-size-all-mem-tables")
}

// warn adds a warning, once.
func (d *db) warn(w engine.Warning) {
	d.warning.Lock()
	defer d.warning.Unlock()
	if !slices.ContainsFunc(d.warnings, func(have engine.Warning) bool {
		return have.Code == w.Code
	}) {
		d.warnings = append(d.warnings, w)
	}
}

// BackgroundError says whether flushes or compactions failed.
func (d *db) BackgroundError() error {
	if n := d.number("rocksdb.background-errors"); n > 0 {
		return fmt.Errorf("rocksdb: %d background errors: see the file LOG in %s", n,
			d.settings.dir)
	}
	return nil
}

// number sums a property over the families that are open; 0 for one that RocksDB does not
// know. Of what RocksDB counts for the whole database only whether it is 0 means something.
func (d *db) number(property string) (sum int64) {
	for _, f := range d.families {
		sum += d.propertyOf(f, property)
	}
	return sum
}

// propertyOf is a property of one family that is a number; 0 for one that RocksDB does not know.
func (d *db) propertyOf(f family, property string) int64 {
	name := C.CString(property)
	defer C.free(unsafe.Pointer(name))
	var value C.uint64_t
	if C.rocks_property_int_cf(d.rocks, f.handle, name, &value) != 0 {
		return 0
	}
	return int64(value)
}
