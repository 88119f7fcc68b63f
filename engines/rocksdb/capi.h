//go:build cgo

// The part of RocksDB's C interface that the adapter uses, resolved at run time:
// FUNCTION(returned type, name without "rocksdb_", parameters, arguments).
// Objects are opaque; errors are strings of malloc, to be freed with free.
#ifndef STATELAB_ROCKSDB_CAPI_H
#define STATELAB_ROCKSDB_CAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_options_t rocksdb_options_t;
typedef struct rocksdb_block_based_table_options_t rocksdb_table_options_t;
typedef struct rocksdb_cache_t rocksdb_cache_t;
typedef struct rocksdb_readoptions_t rocksdb_readoptions_t;
typedef struct rocksdb_writeoptions_t rocksdb_writeoptions_t;
typedef struct rocksdb_flushoptions_t rocksdb_flushoptions_t;
typedef struct rocksdb_writebatch_t rocksdb_writebatch_t;
typedef struct rocksdb_pinnableslice_t rocksdb_pinnableslice_t;
typedef struct rocksdb_iterator_t rocksdb_iterator_t;
typedef struct rocksdb_livefiles_t rocksdb_livefiles_t;
typedef struct rocksdb_column_family_handle_t rocksdb_family_t;
typedef struct rocksdb_env_t rocksdb_env_t;
typedef struct rocksdb_mergeoperator_t rocksdb_mergeoperator_t;
typedef struct rocksdb_dbpath_t rocksdb_dbpath_t;
typedef struct rocksdb_envoptions_t rocksdb_envoptions_t;
typedef struct rocksdb_sstfilewriter_t rocksdb_sstfilewriter_t;
typedef struct rocksdb_ingestexternalfileoptions_t rocksdb_ingestoptions_t;
typedef unsigned char rocksdb_bool;

// What a merge operator does: operands are merged into the old value, or with one another.
typedef char *rocks_full_merge(void *state, const char *key, size_t n, const char *old, size_t m, const char *const *operands, const size_t *sizes, int count,
	rocksdb_bool *success, size_t *length);
typedef char *rocks_partial_merge(void *state, const char *key, size_t n, const char *const *operands, const size_t *sizes, int count,
	rocksdb_bool *success, size_t *length);

// Exported by every version the adapter takes.
#define ROCKSDB_REQUIRED(FUNCTION) \
	FUNCTION(rocksdb_t *, open_column_families, (const rocksdb_options_t *o, const char *dir, int count, const char *const *names, \
		const rocksdb_options_t *const *each, rocksdb_family_t **families, char **err), (o, dir, count, names, each, families, err)) \
	FUNCTION(rocksdb_t *, open_for_read_only_column_families, (const rocksdb_options_t *o, const char *dir, int count, const char *const *names, \
		const rocksdb_options_t *const *each, rocksdb_family_t **families, rocksdb_bool error_if_wal, char **err), \
		(o, dir, count, names, each, families, error_if_wal, err)) \
	FUNCTION(char **, list_column_families, (const rocksdb_options_t *o, const char *dir, size_t *count, char **err), (o, dir, count, err)) \
	FUNCTION(void, list_column_families_destroy, (char **names, size_t count), (names, count)) \
	FUNCTION(rocksdb_env_t *, create_default_env, (void), ()) \
	FUNCTION(void, env_destroy, (rocksdb_env_t *env), (env)) \
	FUNCTION(void, load_latest_options, (const char *dir, rocksdb_env_t *env, bool ignore_unknown, rocksdb_cache_t *cache, rocksdb_options_t **o, \
		size_t *count, char ***names, rocksdb_options_t ***each, char **err), (dir, env, ignore_unknown, cache, o, count, names, each, err)) \
	FUNCTION(void, load_latest_options_destroy, (rocksdb_options_t *o, char **names, rocksdb_options_t **each, size_t count), (o, names, each, count)) \
	FUNCTION(void, column_family_handle_destroy, (rocksdb_family_t *family), (family)) \
	FUNCTION(void, close, (rocksdb_t *db), (db)) \
	FUNCTION(rocksdb_options_t *, options_create, (void), ()) \
	FUNCTION(void, options_destroy, (rocksdb_options_t *o), (o)) \
	FUNCTION(void, options_enable_statistics, (rocksdb_options_t *o), (o)) \
	FUNCTION(char *, options_statistics_get_string, (rocksdb_options_t *o), (o)) \
	FUNCTION(void, get_options_from_string, (const rocksdb_options_t *base, const char *text, rocksdb_options_t *o, char **err), (base, text, o, err)) \
	FUNCTION(void, options_set_block_based_table_factory, (rocksdb_options_t *o, rocksdb_table_options_t *t), (o, t)) \
	FUNCTION(rocksdb_table_options_t *, block_based_options_create, (void), ()) \
	FUNCTION(void, block_based_options_destroy, (rocksdb_table_options_t *t), (t)) \
	FUNCTION(void, block_based_options_set_block_cache, (rocksdb_table_options_t *t, rocksdb_cache_t *c), (t, c)) \
	FUNCTION(void, block_based_options_set_no_block_cache, (rocksdb_table_options_t *t, unsigned char on), (t, on)) \
	FUNCTION(rocksdb_mergeoperator_t *, mergeoperator_create, (void *state, void (*destroy)(void *), rocks_full_merge *full, rocks_partial_merge *partial, \
		void (*free_value)(void *, const char *, size_t), const char *(*name)(void *)), (state, destroy, full, partial, free_value, name)) \
	FUNCTION(void, options_set_merge_operator, (rocksdb_options_t *o, rocksdb_mergeoperator_t *m), (o, m)) \
	FUNCTION(rocksdb_dbpath_t *, dbpath_create, (const char *dir, uint64_t bytes), (dir, bytes)) \
	FUNCTION(void, dbpath_destroy, (rocksdb_dbpath_t *p), (p)) \
	FUNCTION(void, options_set_db_paths, (rocksdb_options_t *o, const rocksdb_dbpath_t **paths, size_t count), (o, paths, count)) \
	FUNCTION(void, options_set_wal_dir, (rocksdb_options_t *o, const char *dir), (o, dir)) \
	FUNCTION(rocksdb_cache_t *, cache_create_lru, (size_t bytes), (bytes)) \
	FUNCTION(void, cache_destroy, (rocksdb_cache_t *c), (c)) \
	FUNCTION(void, cache_set_capacity, (rocksdb_cache_t *c, size_t bytes), (c, bytes)) \
	FUNCTION(size_t, cache_get_usage, (rocksdb_cache_t *c), (c)) \
	FUNCTION(rocksdb_readoptions_t *, readoptions_create, (void), ()) \
	FUNCTION(void, readoptions_destroy, (rocksdb_readoptions_t *o), (o)) \
	FUNCTION(void, readoptions_set_total_order_seek, (rocksdb_readoptions_t *o, rocksdb_bool on), (o, on)) \
	FUNCTION(rocksdb_writeoptions_t *, writeoptions_create, (void), ()) \
	FUNCTION(void, writeoptions_destroy, (rocksdb_writeoptions_t *o), (o)) \
	FUNCTION(rocksdb_pinnableslice_t *, get_pinned_cf, (rocksdb_t *db, const rocksdb_readoptions_t *o, rocksdb_family_t *family, const char *key, size_t n, \
		char **err), (db, o, family, key, n, err)) \
	FUNCTION(const char *, pinnableslice_value, (const rocksdb_pinnableslice_t *s, size_t *n), (s, n)) \
	FUNCTION(void, pinnableslice_destroy, (rocksdb_pinnableslice_t *s), (s)) \
	FUNCTION(rocksdb_writebatch_t *, writebatch_create, (void), ()) \
	FUNCTION(void, writebatch_destroy, (rocksdb_writebatch_t *b), (b)) \
	FUNCTION(void, writebatch_clear, (rocksdb_writebatch_t *b), (b)) \
	FUNCTION(int, writebatch_count, (rocksdb_writebatch_t *b), (b)) \
	FUNCTION(void, writebatch_put_cf, (rocksdb_writebatch_t *b, rocksdb_family_t *family, const char *key, size_t n, const char *value, size_t m), \
		(b, family, key, n, value, m)) \
	FUNCTION(void, writebatch_delete_cf, (rocksdb_writebatch_t *b, rocksdb_family_t *family, const char *key, size_t n), (b, family, key, n)) \
	FUNCTION(void, write, (rocksdb_t *db, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b, char **err), (db, o, b, err)) \
	FUNCTION(rocksdb_flushoptions_t *, flushoptions_create, (void), ()) \
	FUNCTION(void, flushoptions_destroy, (rocksdb_flushoptions_t *o), (o)) \
	FUNCTION(void, flush_cf, (rocksdb_t *db, const rocksdb_flushoptions_t *o, rocksdb_family_t *family, char **err), (db, o, family, err)) \
	FUNCTION(void, flush_wal, (rocksdb_t *db, rocksdb_bool sync, char **err), (db, sync, err)) \
	FUNCTION(int, property_int_cf, (rocksdb_t *db, rocksdb_family_t *family, const char *name, uint64_t *value), (db, family, name, value)) \
	FUNCTION(char *, property_value_cf, (rocksdb_t *db, rocksdb_family_t *family, const char *name), (db, family, name)) \
	FUNCTION(const rocksdb_livefiles_t *, livefiles, (rocksdb_t *db), (db)) \
	FUNCTION(void, livefiles_destroy, (const rocksdb_livefiles_t *l), (l)) \
	FUNCTION(int, livefiles_count, (const rocksdb_livefiles_t *l), (l)) \
	FUNCTION(const char *, livefiles_column_family_name, (const rocksdb_livefiles_t *l, int i), (l, i)) \
	FUNCTION(int, livefiles_level, (const rocksdb_livefiles_t *l, int i), (l, i)) \
	FUNCTION(size_t, livefiles_size, (const rocksdb_livefiles_t *l, int i), (l, i)) \
	FUNCTION(uint64_t, livefiles_entries, (const rocksdb_livefiles_t *l, int i), (l, i)) \
	FUNCTION(const char *, livefiles_smallestkey, (const rocksdb_livefiles_t *l, int i, size_t *n), (l, i, n)) \
	FUNCTION(const char *, livefiles_largestkey, (const rocksdb_livefiles_t *l, int i, size_t *n), (l, i, n)) \
	FUNCTION(rocksdb_iterator_t *, create_iterator_cf, (rocksdb_t *db, const rocksdb_readoptions_t *o, rocksdb_family_t *family), (db, o, family)) \
	FUNCTION(void, iter_destroy, (rocksdb_iterator_t *it), (it)) \
	FUNCTION(void, iter_seek, (rocksdb_iterator_t *it, const char *key, size_t n), (it, key, n)) \
	FUNCTION(void, iter_seek_to_first, (rocksdb_iterator_t *it), (it)) \
	FUNCTION(void, iter_next, (rocksdb_iterator_t *it), (it)) \
	FUNCTION(rocksdb_bool, iter_valid, (const rocksdb_iterator_t *it), (it)) \
	FUNCTION(const char *, iter_key, (const rocksdb_iterator_t *it, size_t *n), (it, n)) \
	FUNCTION(void, iter_get_error, (const rocksdb_iterator_t *it, char **err), (it, err)) \
	FUNCTION(rocksdb_envoptions_t *, envoptions_create, (void), ()) \
	FUNCTION(void, envoptions_destroy, (rocksdb_envoptions_t *e), (e)) \
	FUNCTION(rocksdb_sstfilewriter_t *, sstfilewriter_create, (const rocksdb_envoptions_t *e, const rocksdb_options_t *o), (e, o)) \
	FUNCTION(void, sstfilewriter_destroy, (rocksdb_sstfilewriter_t *w), (w)) \
	FUNCTION(void, sstfilewriter_open, (rocksdb_sstfilewriter_t *w, const char *path, char **err), (w, path, err)) \
	FUNCTION(void, sstfilewriter_put, (rocksdb_sstfilewriter_t *w, const char *key, size_t n, const char *value, size_t m, char **err), \
		(w, key, n, value, m, err)) \
	FUNCTION(void, sstfilewriter_delete, (rocksdb_sstfilewriter_t *w, const char *key, size_t n, char **err), (w, key, n, err)) \
	FUNCTION(void, sstfilewriter_finish, (rocksdb_sstfilewriter_t *w, char **err), (w, err)) \
	FUNCTION(rocksdb_ingestoptions_t *, ingestexternalfileoptions_create, (void), ()) \
	FUNCTION(void, ingestexternalfileoptions_destroy, (rocksdb_ingestoptions_t *o), (o)) \
	FUNCTION(void, ingestexternalfileoptions_set_move_files, (rocksdb_ingestoptions_t *o, rocksdb_bool on), (o, on)) \
	FUNCTION(void, ingest_external_file_cf, (rocksdb_t *db, rocksdb_family_t *family, const char *const *paths, size_t count, \
		const rocksdb_ingestoptions_t *o, char **err), (db, family, paths, count, o, err))

// Exported by newer versions only; NULL where it is missing.
#define ROCKSDB_OPTIONAL(FUNCTION) \
	FUNCTION(rocksdb_bool, get_into_buffer_cf, (rocksdb_t *db, const rocksdb_readoptions_t *o, rocksdb_family_t *family, const char *key, size_t n, \
		char *buffer, size_t room, size_t *needed, rocksdb_bool *found, char **err), (db, o, family, key, n, buffer, room, needed, found, err)) \
	FUNCTION(void, readoptions_set_async_io, (rocksdb_readoptions_t *o, rocksdb_bool on), (o, on)) \
	FUNCTION(void, readoptions_set_timestamp, (rocksdb_readoptions_t *o, const char *time, size_t n), (o, time, n)) \
	FUNCTION(void, batched_multi_get_cf, (rocksdb_t *db, const rocksdb_readoptions_t *o, rocksdb_family_t *family, size_t count, const char *const *keys, \
		const size_t *sizes, rocksdb_pinnableslice_t **values, char **errs, rocksdb_bool sorted), \
		(db, o, family, count, keys, sizes, values, errs, sorted)) \
	FUNCTION(rocksdb_cache_t *, cache_create_hyper_clock, (size_t bytes, size_t entry_bytes), (bytes, entry_bytes)) \
	FUNCTION(void, start_block_cache_trace, (rocksdb_t *db, void *env, const void *env_options, const void *o, const char *path, char **err), \
		(db, env, env_options, o, path, err)) \
	FUNCTION(void, end_block_cache_trace, (rocksdb_t *db, char **err), (db, err))

#define FIELD(returned, name, parameters, arguments) returned(*name) parameters;

// The table is filled by rocks_load and constant from then on.
extern struct rocks_functions {
	ROCKSDB_REQUIRED(FIELD)
	ROCKSDB_OPTIONAL(FIELD)
} rocks_functions;

#undef FIELD

// cgo calls functions, not pointers: rocks_open and so on.
#define CALL(returned, name, parameters, arguments) \
	static inline returned rocks_##name parameters { return rocks_functions.name arguments; }

ROCKSDB_REQUIRED(CALL)

#undef CALL

// rocks_load resolves the functions of the library at path, once per process. It
// returns NULL, or what is wrong, to be freed.
char *rocks_load(const char *path);

// rocks_version is the version of the loaded library, to be freed, or NULL.
char *rocks_version(void);

// rocks_reader is what a Get needs; C's memory, so that Go need not check what it
// passes on. err is to be freed by who reads it.
typedef struct {
	rocksdb_t *db;
	rocksdb_family_t *family; // of the database: not freed
	rocksdb_readoptions_t *options;
	char *err;
} rocks_reader;

// rocks_read_latest makes o read the newest version of keys that end with a time of 8 bytes;
// 0 if the loaded library does not know such keys.
rocksdb_bool rocks_read_latest(rocksdb_readoptions_t *o);

// rocks_create_hyper_clock is a HyperClockCache, whose table is fixed for entries of entry_bytes or grows if that is 0; NULL if
// the loaded library has none.
rocksdb_cache_t *rocks_create_hyper_clock(size_t bytes, size_t entry_bytes);

// rocks_one_folder says that tables of all numbers of folders are in dir. Without it, RocksDB reads
// beyond its list of folders when it closes a database that was written with several.
void rocks_one_folder(rocksdb_options_t *o, const char *dir);

// rocks_refuse_merges gives o a merge operator of that name whose merges fail. Without any, RocksDB
// takes the first merge in a log for the log's end, and says nothing of what follows.
void rocks_refuse_merges(rocksdb_options_t *o, const char *name);

// rocks_many is a batch of Gets in C's memory. Where keys[i] is and its size are the
// caller's to write; values[i] is NULL for a key that is missing.
typedef struct {
	rocksdb_readoptions_t *options;
	size_t room;              // keys that the arrays hold
	const char **keys;
	size_t *sizes;
	const char **values;
	size_t *lengths;
	rocksdb_pinnableslice_t **slices;
	char **errs;
} rocks_many;

// rocks_can_get_many tells whether the loaded library has what rocks_get_many needs.
rocksdb_bool rocks_can_get_many(void);

// rocks_many_room makes the arrays hold count keys; 0 if there is no memory.
rocksdb_bool rocks_many_room(rocks_many *m, size_t count);

// rocks_get_many finds count keys. Values live until rocks_many_release. It returns
// rocks_failed, with the reader's err, if one could not be read.
int64_t rocks_get_many(rocks_reader *r, rocks_many *m, size_t count, rocksdb_bool sorted);
void rocks_many_release(rocks_many *m, size_t count);
void rocks_many_free(rocks_many *m);

enum { rocks_missing = -1, rocks_failed = -2 };

// rocks_get copies the value of key into buffer and returns its length; where that
// is beyond room, nothing is copied. Else rocks_missing, or rocks_failed with err.
int64_t rocks_get(rocks_reader *r, const char *key, size_t n, char *buffer, size_t room);

// rocks_get_all gets count keys of n bytes each that follow one another and returns
// how many it found: the floor that a Get from Go is held against.
int64_t rocks_get_all(rocks_reader *r, const char *keys, size_t n, size_t count, char *buffer, size_t room);

#endif
