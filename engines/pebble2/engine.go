// Package pebble2 adapts Pebble v2, the engine of go-ethereum databases made
// since version 1.17.
//
// What does not name a type of Pebble's is in internal/adapt/pebbledb, for both
// versions. Block reads are counted at the file layer by internal/observe/blockio;
// what Pebble counts itself is passed on for self-checks.
package pebble2

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
)

// Engine is Pebble v2.
type Engine = pebbledb.Engine[library]

// library is Pebble v2 for pebbledb.
type library struct{}

const name = "pebble2"

func (library) About() pebbledb.About {
	return pebbledb.About{
		Name: name, Version: adapter.Version("github.com/cockroachdb/pebble/v2", "v2.1.7"),
		Profiles: []pebbledb.Profile{
			pebbledb.BenchKVDB(), pebbledb.GethV2(), pebbledb.Columnar(uint64(pebble.FormatNewest)), pebbledb.Default(),
		},
		Also: []engine.Capability{engine.SharesReads},
	}
}

func (library) Check(s pebbledb.Settings, o engine.Options) error {
	options, err := translate(s, o)
	if err != nil {
		return err
	}
	options.FS = vfs.Default
	options.EnsureDefaults()
	return options.Validate()
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
		base = pebble2fs.ReadOnly(base, blockio.ReadOnly{IgnoreLock: o.IgnoreLock})
	}
	options.FS = pebble2fs.Counting(base, recorder)
	options.EventListener = listener(events)
	options.Cache = pebble.NewCache(s.CacheBytes)
	defer options.Cache.Unref() // the database holds its own reference
	replayed := pebbledb.ReplayBesideCache(options.Cache, name, s.CacheBytes, o.ReadOnly)
	options.EnsureDefaults()
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
		BlockChargeBytes:   block.MetadataSize,
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

func (v version) SortedBuild(s pebbledb.Settings, o engine.Options) (pebbledb.SortedBuild, error) {
	options, err := translate(s, o)
	if err != nil {
		return pebbledb.SortedBuild{}, err
	}
	options.EnsureDefaults()
	format := v.TableFormat()
	return pebbledb.SortedBuild{
		TargetFileBytes:       options.TargetFileSizes,
		LBaseMaxBytes:         options.LBaseMaxBytes,
		MemTableBytes:         options.MemTableSize,
		L0CompactionThreshold: options.L0CompactionThreshold,
		NewTable: func(level int, file *pebbledb.TableFile) pebbledb.TableWriter {
			return tableWriter{sstable.NewWriter(file, options.MakeWriterOptions(level, format))}
		},
		OpenForIngestion: func() (pebbledb.Version, error) { return openForIngestion(o.Dir, options) },
	}, nil
}

type tableWriter struct{ *sstable.Writer }

func (w tableWriter) Set(key, value []byte, number uint64) error {
	return w.Raw().Add(pebble.InternalKey{UserKey: key, Trailer: pebble.InternalKeyTrailer(number<<8) | pebble.InternalKeyTrailer(pebble.InternalKeyKindSet)},
		value, false)
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
