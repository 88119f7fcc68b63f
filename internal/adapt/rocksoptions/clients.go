package rocksoptions

import "github.com/statelab/statelab/internal/adapt/adapter"

func clients() []Profile {
	return append(append([]Profile{besu(), ethrex()}, nethermind()...), reth()...)
}

// besu are the options of every column family of state: createColumnDescriptor and
// createBlockBasedTableConfig of RocksDBColumnarKeyValueStorage.java, the cache
// DEFAULT_CACHE_CAPACITY of RocksDBCLIOptions.java, one for each family, the families those of
// KeyValueSegmentIdentifier.java without blob files (hyperledger/besu, commit 3fd224e2e49d of
// 2026-03-29, after 26.3.0).
//
// Besu asks for partitioned filters without the index of two levels that they need: RocksDB drops
// them.
func besu() Profile {
	return adapter.Named("besu-26.3", "Besu 26.3, a family of its state", Layout{
		Database: named{
			"compression":                          "kLZ4Compression",
			"ttl":                                  "0",
			"level_compaction_dynamic_level_bytes": "true",
		},
		Table: named{
			"format_version":                "5",
			"filter_policy":                 "bloomfilter:10:false",
			"partition_filters":             "true",
			"cache_index_and_filter_blocks": "false",
			"block_size":                    "32768",
		},
		CacheBytes: 128 * mib, Families: []string{`\x06`, `\a`, `\b`, `\t`},
	})
}

// ethrex are the options of its four families of state: RocksDBBackend::open of
// crates/storage/backend/rocksdb.rs (lambdaclass/ethrex, commit 04cfd0ee3135 of 2026, after pull
// request 6735 and before 6940). Options for whole databases, such as the sizes of levels, do not
// reach its families, which begin with RocksDB's defaults.
func ethrex() Profile {
	return adapter.Named("ethrex-2026.06", "ethrex of June 2026, a family of its state", Layout{
		Database: named{
			"compression":                          "kNoCompression",
			"level_compaction_dynamic_level_bytes": "true",
			"target_file_size_base":                "268435456",
			"write_buffer_size":                    "536870912",
			"max_write_buffer_number":              "6",
			"min_write_buffer_number_to_merge":     "2",
			"memtable_prefix_bloom_size_ratio":     "0.2",
		},
		Table: named{
			"block_size":                              "16384",
			"filter_policy":                           "bloomfilter:10:false",
			"cache_index_and_filter_blocks":           "true",
			"pin_l0_filter_and_index_blocks_in_cache": "true",
		},
		CacheBytes: 12 << 30,
		Families: []string{"account_flatkeyvalue", "storage_flatkeyvalue", "account_trie_nodes",
			"storage_trie_nodes"},
	})
}

// nethermind are the options of its databases of state: RocksDbOptions of DbConfig.cs, changed by
// StateDbRocksDbOptions, or by FlatDbRocksDbOptions and those of a column; SharedBlockCacheSize is
// one cache for all (NethermindEth/nethermind, src/Nethermind/Nethermind.Db.Rocks/Config, commit
// 2706ce9e024a of 2026-07-31, 1.39). Its database of code has a hash index, which no model here
// knows.
func nethermind() []Profile {
	database := named{
		"level_compaction_dynamic_level_bytes": "false",
		"optimize_filters_for_hits":            "true",
		"target_file_size_base":                "64000000",
		"max_bytes_for_level_base":             "256000000",
		"write_buffer_size":                    "16000000",
		"max_write_buffer_number":              "2",
		"min_write_buffer_number_to_merge":     "1",
		"memtable_whole_key_filtering":         "true",
		"memtable_prefix_bloom_size_ratio":     "0.02",
		"max_compaction_bytes":                 "4000000000",
	}

	table := named{
		"pin_l0_filter_and_index_blocks_in_cache":          "true",
		"cache_index_and_filter_blocks_with_high_priority": "true",
		"format_version":                "5",
		"index_type":                    "kTwoLevelIndexSearch",
		"partition_filters":             "true",
		"metadata_block_size":           "4096",
		"data_block_index_type":         "kDataBlockBinaryAndHash",
		"cache_index_and_filter_blocks": "false",
	}

	profile := func(name, about string, families []string, databases, tables named) Profile {
		return adapter.Named("nethermind-1.39-"+name, "Nethermind 1.39, "+about,
			Layout{
				Database:   with(database, databases),
				Table:      with(table, tables),
				CacheBytes: 256 * mib,
				Families:   families,
			})
	}

	flatDatabase := named{
		"compression":                      "kLZ4Compression",
		"ttl":                              "0",
		"periodic_compaction_seconds":      "0",
		"target_file_size_multiplier":      "2",
		"min_write_buffer_number_to_merge": "2",
		"max_write_buffer_number":          "4",
	}

	flatTable := named{
		"block_restart_interval":           "4",
		"data_block_hash_table_util_ratio": "0.7",
		"filter_policy":                    "ribbonfilter:10:3",
		"partition_filters":                "false",
		"index_type":                       "kBinarySearch",
		"whole_key_filtering":              "true",
	}

	return []Profile{
		profile("state", "the state by paths of the trie (half-path)", []string{"default"},
			named{
				"compression":                      "kLZ4Compression",
				"max_bytes_for_level_multiplier":   "30",
				"max_bytes_for_level_base":         "350000000",
				"ttl":                              "0",
				"target_file_size_multiplier":      "2",
				"min_write_buffer_number_to_merge": "2",
				"write_buffer_size":                "64000000",
				"max_write_buffer_number":          "4",
				"periodic_compaction_seconds":      "0",
			},
			named{
				"block_restart_interval":           "4",
				"data_block_hash_table_util_ratio": "0.5",
				"block_size":                       "32000",
				"filter_policy":                    "bloomfilter:15",
			}),
		profile("accounts", "accounts of the flat state", []string{"Account"},
			with(flatDatabase, named{
				"compression":                    "kNoCompression",
				"optimize_filters_for_hits":      "false",
				"target_file_size_multiplier":    "3",
				"target_file_size_base":          "32000000",
				"max_bytes_for_level_multiplier": "15",
				"max_bytes_for_level_base":       "128000000",
			}),
			with(flatTable, named{"block_size": "4096"})),
		profile("storage", "storage slots of the flat state", []string{"Storage"},
			with(flatDatabase, named{
				"optimize_filters_for_hits": "false",
				"write_buffer_size":         "32000000",
			}),
			with(flatTable, named{"block_size": "8000"})),
		profile("nodes", "trie nodes of the flat state", []string{"StorageNodes", "StateNodes"},
			with(flatDatabase, named{
				"level_compaction_dynamic_level_bytes": "true",
				"max_bytes_for_level_base":             "350000000",
				"write_buffer_size":                    "64000000",
				"max_write_buffer_number":              "8",
			}),
			with(flatTable, named{"block_size": "16000", "block_restart_interval": "8"})),
	}
}

// reth are the options of its families of history: default_column_family_options and
// tx_hash_numbers_column_family_options of
// crates/storage/provider/src/providers/rocksdb/provider.rs (paradigmxyz/reth, commit 7b3432d95003
// of 2026-08-21, 2.5.1). Neither has filters.
func reth() []Profile {
	table := named{
		"block_size":                              "16384",
		"cache_index_and_filter_blocks":           "true",
		"pin_l0_filter_and_index_blocks_in_cache": "true",
		"filter_policy":                           "nullptr",
	}

	profile := func(name, about string, families []string, database named) Profile {
		return adapter.Named("reth-2.5-"+name, "reth 2.5, "+about, Layout{
			Database:   with(named{"level_compaction_dynamic_level_bytes": "true"}, database),
			Table:      table,
			CacheBytes: 128 * mib,
			Families:   families,
		})
	}

	return []Profile{
		profile(
			"history",
			"history of accounts and storage",
			[]string{"AccountsHistory", "StoragesHistory"},
			named{
				"compression":            "kLZ4Compression",
				"bottommost_compression": "kZSTD",
				"write_buffer_size":      "134217728",
			},
		),
		profile(
			"hashes",
			"numbers of transactions by their hashes",
			[]string{"TransactionHashNumbers"},
			named{"compression": "kNoCompression", "bottommost_compression": "kNoCompression"},
		),
	}
}
