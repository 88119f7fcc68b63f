package optionsfile

// Reasons that many options share.
const (
	whenWritten = "it applies when tables are written, and those that are there are read as they " +
		"are"
	ofWrites    = "it applies to writes, flushes and compactions, of which none happens here"
	ofMemtables = "it is about memtables, in which a Get reads no blocks"
	ofOpening   = "it applies while the database is opened, before the first Get"
	ofRecords   = "it is about logs, statistics and files beside the tables"
	ofIterators = "it applies to iterators, and a Get makes none"
	ofKernel    = "it is a hint to the kernel: block reads stay, device reads are measured with " +
		"--page-cache"
	inFile = "tables say it themselves"
)

// rocksDB are the options that RocksDB 6.29 to 11.8 write. Source: options/db_options.cc,
// options/cf_options.cc and table/block_based/block_based_table_factory.cc of these versions.
func rocksDB() []group {
	of := func(kind string, class Class, why, names string) group {
		return group{RocksDB, kind, class, why, names}
	}
	const (
		db     = "DBOptions"
		family = "CFOptions"
		table  = "TableOptions/BlockBasedTable"
	)

	return []group{
		of(db, Applied, "", `max_open_files table_cache_numshardbits allow_mmap_reads=true,false
			wal_dir`),
		of(db, Replaced, "--page-cache direct", `use_direct_reads`),
		of(db, Measured, "", `wal_recovery_mode allow_2pc two_write_queues`),
		of(db, Unmodelled, "tables are opened by Gets then, or without their filters and indexes",
			`open_files_async=false fast_sst_open=false`),
		of(db, Unmodelled, "the log holds other entries than the application wrote",
			`wal_filter=nullptr`),
		of(db, Inert, ofOpening, `max_file_opening_threads skip_stats_update_on_db_open
			skip_checking_sst_file_sizes_on_db_open verify_sst_unique_id_in_manifest
			paranoid_checks fail_if_options_file_error best_efforts_recovery
			create_if_missing create_missing_column_families error_if_exists
			avoid_flush_during_recovery enforce_write_buffer_manager_during_recovery
			track_and_verify_wals track_and_verify_wals_in_manifest log_readahead_size
			optimize_manifest_for_recovery reuse_manifest_on_open
			follower_refresh_catchup_period_ms follower_catchup_retry_count
			follower_catchup_retry_wait_ms`),
		of(db, Inert, ofKernel, `advise_random_on_open access_hint_on_compaction_start
			random_access_max_buffer_size`),
		of(db, Inert, ofRecords, `info_log_level log_file_time_to_roll max_log_file_size
			keep_log_file_num recycle_log_file_num db_log_dir db_host_id
			stats_dump_period_sec stats_history_buffer_size stats_persist_period_sec
			persist_stats_to_disk statistics listeners dump_malloc_stats
			enable_thread_tracking allow_data_in_errors is_fd_close_on_exec
			write_identity_file write_dbid_to_manifest file_checksum_gen_factory
			max_manifest_file_size max_manifest_space_amp_pct manifest_preallocation_size
			verify_manifest_content_on_close metadata_write_temperature
			wal_write_temperature avoid_unnecessary_blocking_io
			background_close_inactive_wals delete_obsolete_files_period_micros`),
		of(db, Inert, ofWrites, `compaction_readahead_size strict_bytes_per_sync bytes_per_sync
			wal_bytes_per_sync max_background_jobs max_background_flushes
			max_background_compactions base_background_compactions max_subcompactions
			avoid_flush_during_shutdown delayed_write_rate writable_file_max_buffer_size
			max_total_wal_size db_write_buffer_size enforce_single_del_contracts
			bgerror_resume_retry_interval max_bgerror_resume_count wal_compression
			manual_wal_flush allow_ingest_behind atomic_flush
			compaction_verify_record_count flush_verify_memtable_count
			max_write_batch_group_size_bytes allow_fallocate allow_mmap_writes
			use_adaptive_mutex use_fsync use_direct_io_for_flush_and_compaction
			use_direct_io_for_compaction_reads allow_concurrent_memtable_write
			async_wal_precreate WAL_ttl_seconds WAL_size_limit_MB enable_pipelined_write
			unordered_write enable_write_thread_adaptive_yield
			write_thread_slow_yield_usec write_thread_max_yield_usec
			max_compaction_trigger_wakeup_seconds preserve_deletes rate_limiter
			new_table_reader_for_compaction_inputs`),
		of(db, Inert, "there is no cache of a second tier here", `lowest_used_cache_tier`),
		of(db, Inert, ofIterators, `prefix_seek_opt_in_only read_io_executor_threads`),
		of(db, Inert, ofMemtables, `experimental_mempurge_threshold`),

		of(family, Applied, "", `comparator merge_operator table_factory
			prefix_extractor optimize_filters_for_hits=true,false write_buffer_size`),
		of(family, Unmodelled, "keys in tables have no times then, which the comparator expects",
			`persist_user_defined_timestamps=true`),
		of(family, Inert, whenWritten, `compression compression_per_level compression_opts
			bottommost_compression bottommost_compression_opts compression_manager
			target_file_size_base target_file_size_multiplier
			target_file_size_is_upper_bound num_levels max_bytes_for_level_base
			max_bytes_for_level_multiplier max_bytes_for_level_multiplier_additional
			level_compaction_dynamic_level_bytes level_compaction_dynamic_file_size
			enable_blob_files min_blob_size blob_file_size blob_compression_type
			blob_compression_opts blob_file_starting_level enable_blob_direct_write
			blob_direct_write_partitions sst_partitioner_factory
			last_level_temperature default_temperature default_write_temperature
			table_properties_collectors min_tombstones_for_range_conversion`),
		of(family, Inert, ofMemtables, `memtable_factory memtable_prefix_bloom_size_ratio
			memtable_whole_key_filtering memtable_huge_page_size memtable_max_range_deletions
			memtable_protection_bytes_per_key memtable_op_scan_flush_trigger
			memtable_avg_op_scan_flush_trigger memtable_verify_per_key_checksum_on_seek
			memtable_batch_lookup_optimization paranoid_memory_checks arena_block_size
			bloom_locality inplace_update_support inplace_update_num_locks
			inplace_callback max_successive_merges strict_max_successive_merges
			disallow_memtable_writes experimental_mempurge_threshold
			memtable_insert_with_hint_prefix_extractor`),
		of(family, Inert, ofWrites, `max_write_buffer_number max_write_buffer_number_to_maintain
			max_write_buffer_size_to_maintain min_write_buffer_number_to_merge
			level0_file_num_compaction_trigger level0_slowdown_writes_trigger
			level0_stop_writes_trigger soft_pending_compaction_bytes_limit
			hard_pending_compaction_bytes_limit soft_rate_limit hard_rate_limit
			rate_limit_delay_max_milliseconds disable_auto_compactions compaction_style
			compaction_pri compaction_filter compaction_filter_factory
			compaction_options_fifo compaction_options_universal max_compaction_bytes
			ignore_max_compaction_bytes_for_input ttl periodic_compaction_seconds
			bottommost_file_compaction_delay preserve_internal_time_seconds
			preclude_last_level_data_seconds enable_blob_garbage_collection
			blob_garbage_collection_age_cutoff blob_garbage_collection_force_threshold
			blob_compaction_readahead_size prepopulate_blob_cache
			read_triggered_compaction_threshold report_bg_io_stats paranoid_file_checks
			force_consistency_checks check_flush_compaction_key_order
			sample_for_compression cf_allow_ingest_behind uncache_aggressiveness
			verify_output_flags filter_deletes verify_checksums_in_compaction
			purge_redundant_kvs_while_flush max_mem_compaction_level
			expanded_compaction_factor source_compaction_factor
			max_grandparent_overlap_factor`),
		of(family, Inert, "blocks are checked in memory", `block_protection_bytes_per_key`),
		of(family, Inert, ofIterators, `max_sequential_skip_in_iterations`),

		of(table, Applied, "", `cache_index_and_filter_blocks=true,false
			cache_index_and_filter_blocks_with_high_priority=true,false
			pin_l0_filter_and_index_blocks_in_cache=true,false
			pin_top_level_index_and_filter=true,false metadata_cache_options={*
			whole_key_filtering=true,false no_block_cache=true,false
			filter_policy=nullptr,bloomfilter*,ribbonfilter*,{id=bloom*,{id=ribbon*,rocksdb.*`),
		of(table, Replaced, "--cache", `block_cache block_cache_compressed persistent_cache`),
		of(table, Unmodelled, "every block in the cache takes a bitmap more",
			`read_amp_bytes_per_bit=0`),
		of(table, Unmodelled, "Gets ask an index that the owner's code made",
			`use_udi_as_primary_index=false user_defined_index_factory=nullptr`),
		of(table, Unmodelled, "data blocks have another form",
			`separate_key_value_in_data_block=false`),
		of(table, Inert, whenWritten, `block_size block_size_deviation block_restart_interval
			index_block_restart_interval metadata_block_size block_align
			super_block_alignment_size super_block_alignment_space_overhead_ratio
			index_shortening data_block_hash_table_util_ratio partition_filters
			decouple_partitioned_filters optimize_filters_for_memory
			detect_filter_construct_corruption format_version checksum
			enable_index_compression use_delta_encoding flush_block_policy_factory
			hash_index_allow_collision prepopulate_block_cache cache_usage_options
			reserve_table_builder_memory reserve_table_reader_memory verify_compression
			uniform_cv_threshold`),
		of(table, Inert, inFile, `index_type data_block_index_type`),
		of(table, Inert, "it decides how a block is searched that was read",
			`index_block_search_type`),
		of(table, Inert, ofIterators, `num_file_reads_for_auto_readahead
			initial_auto_readahead_size max_auto_readahead_size`),
		of(table, Inert, ofOpening, `fail_if_no_udi_on_open`),
	}
}
