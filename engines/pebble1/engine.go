// Package pebble1 adapts Pebble v1, the engine of go-ethereum databases made
// before its move to v2.
//
// What does not name a type of Pebble's is in internal/adapt/pebbledb, for both
// versions. Block reads are counted at the file layer by internal/observe/blockio;
// what Pebble counts itself is passed on for self-checks.
package pebble1

import (
	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/sstable"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble1fs"
)

// Engine is Pebble v1.
type Engine = pebbledb.Engine[library]

// library is Pebble v1 for pebbledb.
type library struct{}

const name = "pebble1"

func (library) About() pebbledb.About {
	return pebbledb.About{
		Name: name, Version: adapter.Version("github.com/cockroachdb/pebble", "v1.1.5"),
		Profiles: []pebbledb.Profile{pebbledb.BenchKVDB(), pebbledb.GethV1(), pebbledb.Default()},
	}
}

func (library) Check(s pebbledb.Settings, o engine.Options) error {
	options, err := translate(s, o)
	if err != nil {
		return err
	}
	options.FS = vfs.Default
	return options.EnsureDefaults().Validate()
}

func (library) Open(
	s pebbledb.Settings, o engine.Options, recorder *blockio.Recorder, events *pebbledb.Events,
) (pebbledb.Version, pebbledb.Config, error) {
	options, err := translate(s, o)
	if err != nil {
		return nil, pebbledb.Config{}, err
	}
	base := vfs.Default
	if o.ReadOnly {
		base = pebble1fs.ReadOnly(base, blockio.ReadOnly{IgnoreLock: o.IgnoreLock})
	}
	options.FS = pebble1fs.Counting(base, recorder)
	options.EventListener = listener(events)
	options.Cache = pebble.NewCache(s.CacheBytes)
	defer options.Cache.Unref() // the database holds its own reference
	replayed := pebbledb.ReplayBesideCache(options.Cache, name, s.CacheBytes, o.ReadOnly)
	options = options.EnsureDefaults()
	opened, err := pebble.Open(o.Dir, options)
	if err != nil {
		return nil, pebbledb.Config{}, err
	}
	v := version{opened}
	return v, pebbledb.Config{
		Options:            options.String(),
		CacheBytes:         s.CacheBytes,
		Handles:            options.MaxOpenFiles,
		MemTableBytes:      options.MemTableSize,
		FormatMajorVersion: uint64(opened.FormatMajorVersion()),
		BesideCacheBytes:   replayed(v.Metrics()),
	}, nil
}

func listener(e *pebbledb.Events) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError:  e.Failed,
		CompactionEnd:    func(pebble.CompactionInfo) { e.TablesChanged() },
		FlushEnd:         func(pebble.FlushInfo) { e.TablesChanged() },
		TableIngested:    func(pebble.TableIngestInfo) { e.TablesChanged() },
		TableStatsLoaded: func(pebble.TableStatsInfo) { e.StatsLoaded() },
		WriteStallBegin:  func(pebble.WriteStallBeginInfo) { e.StallBegan() },
		WriteStallEnd:    e.StallEnded,
	}
}

func (version) SortedBuild(s pebbledb.Settings, o engine.Options) (pebbledb.SortedBuild, error) {
	options, err := translate(s, o)
	if err != nil {
		return pebbledb.SortedBuild{}, err
	}
	options = options.EnsureDefaults()
	build := pebbledb.SortedBuild{
		LBaseMaxBytes:         options.LBaseMaxBytes,
		MemTableBytes:         options.MemTableSize,
		L0CompactionThreshold: options.L0CompactionThreshold,
		NewTable: func(level int, file *pebbledb.TableFile) pebbledb.TableWriter {
			return tableWriter{sstable.NewWriter(file, options.MakeWriterOptions(level, tableFormat(options)))}
		},
		OpenForIngestion: func() (pebbledb.Version, error) { return openForIngestion(o.Dir, options) },
	}
	for level := range build.TargetFileBytes {
		build.TargetFileBytes[level] = options.Level(level).TargetFileSize
	}
	return build, nil
}

// tableFormat is the one a compaction writes.
func tableFormat(options *pebble.Options) sstable.TableFormat {
	format := options.FormatMajorVersion.MaxTableFormat()
	if format == sstable.TableFormatPebblev3 {
		return sstable.TableFormatPebblev2 // value blocks are not enabled
	}
	return format
}

type tableWriter struct{ *sstable.Writer }

func (w tableWriter) Set(key, value []byte, number uint64) error {
	return w.Add(pebble.InternalKey{UserKey: key, Trailer: number<<8 | uint64(pebble.InternalKeyKindSet)}, value)
}

func openForIngestion(dir string, options *pebble.Options) (pebbledb.Version, error) {
	building := options.Clone()
	building.DisableAutomaticCompactions = true
	building.LBaseMaxBytes = 1 // a table may land on any level below L0
	opened, err := pebble.Open(dir, building)
	if err != nil {
		return nil, err
	}
	return version{opened}, nil
}
