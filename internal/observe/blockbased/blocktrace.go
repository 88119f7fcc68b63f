package blockbased

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// BlockTrace is what Gets asked of RocksDB's block cache, as DB::StartBlockCacheTrace writes it
// (trace_replay/block_cache_tracer.cc), or of the files of tables, as DB::StartIOTrace does
// (io_tracer.cc). The first names a key only where a Get reached a block of data, the second none,
// so these are traces of blocks, not of Gets with keys. Offsets of the first are relative to
// another block of the file; each read of the second counts as a Get.
type BlockTrace struct {
	*cachesim.Trace
	Found   []bool // of the Gets
	Version string // of RocksDB
	Misses  uint64 // that RocksDB's own cache had
	// accesses by others than Gets, and of other files than tables, that were left out
	Others uint64
	// SampledBlocks N says that RocksDB traced one of N blocks, chosen by the hash of their names
	// in the cache, with all accesses to each; 1: all. Gets that accessed none of them are here,
	// too, without accesses.
	SampledBlocks int64
	// NotChecked are sentences on what could not be checked of the trace's completeness.
	NotChecked []string
}

const (
	cacheTraceMagic     = "feedcafedeadbeef" // behind its length
	cacheTraceHeadBytes = 1 + len(cacheTraceMagic) + 4 + 4
	cacheKeyBytes       = 16
)

// Kinds of records of a block-cache trace.
const (
	traceIndexBlock, traceFilterBlock, traceDataBlock = 7, 8, 9
	traceDictionary, traceDeletions, traceIO          = 10, 11, 12
)

// Callers that are Gets.
const callerGet, callerMultiGet = 1, 2

// blockGet is an access, and of which Get.
type blockGet struct {
	get    uint64
	time   uint64 // us
	number uint32
	record uint32 // in the file, from 1; 0: by a MultiGet, which accesses a block several times
}

// ReadBlockTrace reads a whole trace, whose errors name it name, of all column families: they share
// the cache. told hears how many records are read.
func ReadBlockTrace(
	in *bufio.Reader, name string, told func(records uint64) error,
) (*BlockTrace, error) {
	records := &QueryTrace{name: name, in: in}
	kind, err := records.record()
	t := &BlockTrace{Trace: &cachesim.Trace{CacheKeys: map[uint64][2]uint64{}}}
	begins := append([]byte{byte(len(cacheTraceMagic))}, cacheTraceMagic...)
	if err == nil &&
		(kind != traceBegin || len(records.payload) != cacheTraceHeadBytes ||
			!bytes.HasPrefix(records.payload, begins)) {
		return nil, engine.Fail(engine.CodeUnsupported, "%s: not a trace of RocksDB's block "+
			"cache or files", name)
	}

	if err != nil {
		return nil, records.damage(err)
	}

	version := records.payload[len(begins):]
	t.Version = fmt.Sprintf("%d.%d", binary.LittleEndian.Uint32(version),
		binary.LittleEndian.Uint32(version[4:]))
	_, before83 := CacheOf(t.Version)
	var all []blockGet
	found := map[uint64]bool{}
	var whole blockCompleteness
	for {
		kind, err := records.record()
		if err == nil && kind == traceEnd {
			break
		}

		switch {
		case err != nil:
		case kind == traceIO:
			if err = whole.read(records); err == nil {
				all, err = t.addRead(all, records.payload)
			}
		default:
			all, err = t.add(all, found, kind, before83, records, &whole)
		}

		if err != nil {
			return nil, records.damage(err)
		}

		if records.records%(1<<16) == 0 {
			if err := told(records.records); err != nil {
				return nil, err
			}
		}
	}

	if len(all) == 0 {
		return nil, engine.Fail(engine.CodeUnsupported, "%s: no access by a Get, and no read of "+
			"a table", name)
	}

	// Gets are numbered as they begin; those of several threads lie between one another.
	slices.SortStableFunc(all, func(a, b blockGet) int { return cmp.Compare(a.get, b.get) })
	if err := whole.judge(t, name, all); err != nil {
		return nil, err
	}

	for i, a := range all {
		if i == 0 || a.get != all[i-1].get {
			for n := uint64(0); t.SampledBlocks > 1 && i > 0 && all[i-1].get+n+1 < a.get; n++ {
				t.BeginGet() // of blocks that were not chosen
				t.Found = append(t.Found, false)
			}

			t.BeginGet()
			t.Found = append(t.Found, found[a.get])
		}
		t.Accesses = append(t.Accesses, a.number)
	}

	return t, told(records.records)
}

// addRead reads a record of an I/O trace.
func (t *BlockTrace) addRead(all []blockGet, payload []byte) ([]blockGet, error) {
	f := lsmtail.Fields{Rest: payload}
	has, operation := f.Fixed(8), f.Text()
	f.Fixed(8) // how long it took
	f.Text()   // whether it failed
	file := path.Base(string(f.Text()))
	var of [3]uint64 // the size of the file, the bytes that are read, the offset
	for i := range of {
		if has>>i&1 != 0 {
			of[i] = f.Fixed(8)
		}
	}

	if len(f.Rest) > 0 { // where the caller handed over a context of its own
		if context := f.Fixed(8); context&1 != 0 {
			f.Text() // the request
		}
	}

	if len(f.Rest) > 0 {
		f.Fail("bytes behind its last field: several records in one")
	}

	number, err := strconv.ParseUint(strings.TrimSuffix(file, ".sst"), 10, 64)
	if err != nil || has>>2&1 == 0 || !strings.Contains(string(operation), "Read") {
		t.Others++
		return all, f.Err
	}

	if of[1] > 1<<30 {
		f.Fail("a read of %d bytes", of[1])
	}

	t.Misses++
	b := cachesim.Block{
		File:   number,
		Offset: of[2],
		Bytes:  int32(of[1] & (1<<31 - 1)),
		Level:  engine.LevelUnknown,
		Type:   engine.Data,
	}

	return append(all, blockGet{get: uint64(len(all)), number: t.Number(b)}), f.Err
}

// add reads a record of a block-cache trace.
func (t *BlockTrace) add(
	all []blockGet, found map[uint64]bool, kind byte, before83 bool, records *QueryTrace,
	whole *blockCompleteness,
) ([]blockGet, error) {
	f := lsmtail.Fields{Rest: records.payload}
	key, usage := f.Text(), f.Fixed(8)
	f.Fixed(8) // the family's number
	f.Text()   // and name
	level, file := f.Fixed(4), f.Fixed(8)
	caller, hit := f.Fixed(1), f.Fixed(1)
	f.Fixed(1) // whether it may enter the cache
	if f.Err != nil {
		return all, f.Err
	}

	if caller != callerGet && caller != callerMultiGet {
		t.Others++
		return all, nil
	}

	get := f.Fixed(8)
	f.Fixed(1) // whether it is of a snapshot
	f.Text()   // the key, of a block of data
	if kind == traceDataBlock {
		f.Fixed(8)
		f.Fixed(8)
		found[get] = f.Fixed(1) == 1 || found[get]
	}

	if len(key) != cacheKeyBytes {
		f.Fail("a key of %d bytes in the cache, where RocksDB has 16 since 7.0", len(key))
	}

	if f.Err != nil {
		return all, f.Err
	}

	b := cachesim.Block{File: file, Level: engine.LevelUnknown, Type: engine.Data}
	if level < uint64(engine.LevelUnknown) {
		b.Level = uint8(level)
	}

	switch kind {
	case traceDataBlock:
	case traceIndexBlock:
		b.Type, b.Marks = engine.Index, cachesim.HighPriority
	case traceFilterBlock:
		b.Type, b.Marks = engine.Filter, cachesim.HighPriority|cachesim.ParsedFilter
	case traceDictionary, traceDeletions:
		b.Type, b.Marks = engine.Meta, cachesim.HighPriority
	default:
		return all, fmt.Errorf("a record of the unknown kind %d", kind)
	}

	b.Bytes = cachesim.RocksBytes(usage, b.Marks, before83)
	names := [2]uint64{binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:])}
	first, known := t.CacheKeys[file]
	if !known {
		t.CacheKeys[file] = names
		first = names
	}

	b.Offset = (names[1] ^ first[1]) << 2
	if names[0] != first[0] || b.Offset>>2 != names[1]^first[1] {
		return all, errors.New("two names for one file in the cache: these are traces of two " +
			"databases")
	}

	if hit == 0 {
		t.Misses++
	}

	whole.access(key, len(f.Rest) > 0, records.records)
	a := blockGet{get: get, time: records.time, number: t.Number(b)}
	if caller == callerGet {
		a.record = uint32(records.records)
	}

	return append(all, a), nil
}
