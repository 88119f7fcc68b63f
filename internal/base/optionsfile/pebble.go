package optionsfile

// pebble are the options that Pebble v1.1 and v2.1 write. Source: Options.String and Options.Parse
// of both.
func pebble() []group {
	of := func(kind string, class Class, why, names string) group {
		return group{Pebble, kind, class, why, names}
	}
	const options, level = "Options", "Level"

	return []group{
		of(options, Applied, "", `max_open_files table_cache_shards comparer merger wal_dir
			key_schema=DefaultKeySchema*`),
		of(options, Replaced, "--cache", `cache_size`),
		of(options, Simulated, "", `mem_table_size mem_table_stop_writes_threshold`),
		of(options, Unmodelled, "blocks of remote tables are kept in a cache of files",
			`secondary_cache_size_bytes=0 create_on_shared=0`),
		of(options, Inert, inFile, `format_major_version enable_columnar_blocks table_format`),
		of(options, Inert, ofRecords, `cleaner max_manifest_file_size strict_wal_tail
			free_space_threshold_bytes free_space_timeframe obsolete_bytes_max_ratio
			obsolete_bytes_timeframe min_deletion_rate`),
		of(options, Inert, ofWrites, `bytes_per_sync wal_bytes_per_sync disable_wal
			disable_ingest_as_flushable compaction_debt_concurrency
			compaction_garbage_fraction_for_max_concurrency flush_delay_delete_range
			flush_delay_range_key delete_range_flush_delay flush_split_bytes
			l0_compaction_concurrency l0_compaction_file_threshold l0_compaction_threshold
			l0_stop_writes_threshold l0_sublevel_compactions lbase_max_bytes
			level_multiplier concurrent_compactions max_concurrent_compactions
			max_concurrent_downloads min_compaction_rate min_flush_rate
			multilevel_compaction_heuristic read_compaction_rate
			read_sampling_multiplier num_deletions_threshold
			deletion_size_ratio_threshold tombstone_dense_compaction_threshold
			point_tombstone_weight table_property_collectors validate_on_ingest
			max_writer_concurrency force_writer_parallelism
			disable_delete_only_compactions disable_elision_only_compactions`),
		of(options, Inert, ofIterators, `disable_lazy_combined_iteration`),

		of(level, Applied, "", `filter_policy=none,rocksdb.BuiltinBloomFilter`),
		of(level, Unmodelled, "filters have another form", `filter_type=table`),
		of(level, Inert, whenWritten, `block_restart_interval block_size block_size_threshold
			compression index_block_size target_file_size`),

		of("Value Separation", Inert, whenWritten, `enabled minimum_size
			max_blob_reference_depth rewrite_minimum_age target_garbage_ratio`),
		of("WAL Failover", Applied, "", `secondary_dir`),
		of("WAL Failover", Inert, ofWrites, `primary_dir_probe_interval
			healthy_probe_latency_threshold healthy_interval unhealthy_sampling_interval
			unhealthy_operation_latency_threshold elevated_write_stall_threshold_lag`),
	}
}

// levelDBs are the options that LevelDB in Go and in C++ take. Neither writes them down, so nobody
// but their owner knows them: flags say them here. Sources: leveldb/opt/options.go of goleveldb,
// include/leveldb/options.h of LevelDB 1.23.
func levelDBs() []group {
	const unsaid = "set it with --set, or with a profile"
	return []group{
		{GoLevelDB, "Options", Replaced, "--cache", `BlockCacher BlockCacheCapacity
			DisableBlockCache BlockCacheEvictRemoved`},
		{GoLevelDB, "Options", Replaced, "--max-open-files",
			`OpenFilesCacheCapacity OpenFilesCacher`},
		{GoLevelDB, "Options", Applied, unsaid, `Filter AltFilters BlockSize DisableBufferPool`},
		{GoLevelDB, "Options", Unmodelled, "keys have another order", `Comparer`},
		{GoLevelDB, "Options", Inert, ofWrites, `CompactionExpandLimitFactor
			CompactionGPOverlapsFactor CompactionL0Trigger CompactionSourceLimitFactor
			CompactionTableSize CompactionTableSizeMultiplier
			CompactionTableSizeMultiplierPerLevel CompactionTotalSize
			CompactionTotalSizeMultiplier CompactionTotalSizeMultiplierPerLevel
			DisableCompactionBackoff DisableLargeBatchTransaction NoSync NoWriteMerge
			WriteBuffer WriteL0PauseTrigger WriteL0SlowdownTrigger`},
		{GoLevelDB, "Options", Inert, "a compaction that Gets cause is none of a database that " +
			"is only read", `DisableSeeksCompaction`},
		{GoLevelDB, "Options", Inert, whenWritten, `BlockRestartInterval Compression
			FilterBaseLg`},
		{GoLevelDB, "Options", Inert, ofIterators, `IteratorSamplingRate`},
		{GoLevelDB, "Options", Inert, ofRecords, `MaxManifestFileSize`},
		{GoLevelDB, "Options", Inert, ofOpening, `ErrorIfExist ErrorIfMissing ReadOnly Strict`},

		{LevelDB, "Options", Replaced, "--cache", `block_cache`},
		{LevelDB, "Options", Replaced, "--max-open-files", `max_open_files`},
		{LevelDB, "Options", Applied, unsaid, `filter_policy`},
		{LevelDB, "Options", Unmodelled, "keys have another order", `comparator`},
		{LevelDB, "Options", Inert, ofWrites, `write_buffer_size max_file_size reuse_logs
			zstd_compression_level`},
		{LevelDB, "Options", Inert, whenWritten, `block_size block_restart_interval compression`},
		{LevelDB, "Options", Inert, ofOpening, `create_if_missing error_if_exists
			paranoid_checks`},
		{LevelDB, "Options", Inert, ofRecords, `env info_log`},
	}
}
