/* SPDX-License-Identifier: Apache-2.0
 *
 * statelab_engine.h: the interface of a key-value engine that statelab loads as a
 * shared library, written in any language.
 *
 * The library exports one symbol, statelab_engine_v1, which returns a table of
 * functions. statelab loads the library, checks the table and calls nothing else.
 * Every function pointer must be set.
 *
 * Non-goals: iteration, transactions, snapshots. A lookup needs none of them.
 * The library must not measure time. It must not estimate counters: a counter that
 * the engine does not have is left out.
 *
 * MEMORY. The side that allocates memory frees it. Pointers that statelab passes are
 * valid during the call only: the library copies what it keeps. Strings that the
 * library returns stay valid until the handle they came from is closed; those of the
 * table stay valid for ever. Strings are UTF-8 and end with NUL. Keys and values are
 * bytes with a length. They may contain any bytes, and may be empty (their pointer
 * may then be NULL).
 *
 * THREADS. Functions of a statelab_db are called from several threads at a time.
 * A reader or writer is used by one thread at a time, but not always by the same
 * one: the library keeps nothing in thread-local storage between calls. statelab closes all
 * readers and writers before their db, and uses no handle after closing it.
 * A function may block. It must not call back, install signal handlers, change
 * the working directory, write to standard output or end the process. It may write
 * log messages to standard error. Unwinding (C++ exceptions, Rust panics) must not
 * leave the library.
 *
 * ERRORS. Functions that can fail return one of the codes below. On failure they
 * write a message into the caller's statelab_error: what was being done and what
 * went wrong ("read block 17 of table: Input/output error"). The caller owns that
 * memory, so no two threads ever share it. A function that fails returns no handle.
 *
 * UNITS. Sizes and counters are bytes or plain counts. Counters are cumulative since
 * open and monotonic.
 */
#ifndef STATELAB_ENGINE_H
#define STATELAB_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this contract. It changes when a library that was built for the
 * old one could go wrong with the new one; the symbol's name changes with it. */
#define STATELAB_ENGINE_ABI 1

enum {
	STATELAB_OK = 0,             /* done; get: the key was found */
	STATELAB_MISSING = 1,        /* get: no such key. Not an error; leave statelab_error empty */
	STATELAB_TOO_SMALL = 2,      /* get: the buffer cannot hold the value */
	STATELAB_WORKING = 3,        /* settle: not done yet, call again */
	STATELAB_FAILED = -1,        /* see statelab_error */
	STATELAB_LOCKED = -2,        /* open: another process holds the database */
	STATELAB_NOT_A_DATABASE = -3 /* open: the directory does not exist, is empty or contains something else */
};

#define STATELAB_ERROR_BYTES 1024
typedef struct {
	char text[STATELAB_ERROR_BYTES]; /* ends with NUL; one line per mistake */
} statelab_error;

/* Handles, whose contents only the library knows. */
typedef struct statelab_db statelab_db;
typedef struct statelab_reader statelab_reader;
typedef struct statelab_writer statelab_writer;

typedef struct {
	const char *name;
	const char *value;
} statelab_setting;

/* The options of open. 0 means the engine's default. */
typedef struct {
	const char *directory;   /* of the database; "" in check if it is not known yet */
	int32_t create;          /* 1: create a database. statelab has created the directory, which is empty
	                            except for folders "statelab" and "lost+found", which must not be changed.
	                            0: open the existing database, and create nothing */
	int32_t read_only;       /* 1: change no file */
	int32_t direct;          /* 1: reads bypass the page cache; only with the capability direct */
	int32_t trace_accesses;  /* 1: a cache that admits nothing; only with the capability block_accesses */
	int64_t cache_bytes;     /* the engine's own cache of blocks */
	int64_t memory_bytes;    /* everything that the engine keeps in memory; only with the capability memory_budget,
	                            and never together with cache_bytes */
	int64_t handles;         /* open-file limit */
	size_t settings_count;   /* the user's own options (--set NAME=VALUE), by the engine's names */
	const statelab_setting *settings;
} statelab_options;

/* A counter or gauge. Names, all optional, are
 *
 *   reads.TYPE          block reads: reads by Gets from the file layer, because no cache of
 *   read_bytes.TYPE     the engine had the block, and their bytes. One without the other is
 *                       refused. Reads of background work are not included.
 *   accesses.TYPE       block accesses: blocks that Gets needed, cached or not
 *   direct_bytes        bytes of those reads after rounding to sectors, if direct
 *   background_reads, background_read_bytes      reads of merges, compactions, flushes
 *   table_opens         files opened for Gets
 *   cache_hits, cache_misses                     of the block cache, all types, by Gets
 *   filter_negative, filter_positive             filters consulted, by their result
 *   table_cache_hits, table_cache_misses
 *   user_write_bytes    bytes of keys and values that were put and committed
 *   wal_bytes, flush_bytes, compact_bytes        bytes written to files
 *   write_stalls, write_stall_ns                 times that writers had to wait, and how long
 *   cache_used_bytes, memtable_bytes, cache_reserved_bytes     gauges: current values
 *
 * where TYPE is filter, top_index, index, data, value, meta, single_index or page
 * (for engines whose blocks have no types). The suffixes ".L0" to ".L6" after the TYPE
 * of a reads.* or read_bytes.* name the level of an LSM tree. */
typedef struct {
	const char *name;
	int64_t value;
} statelab_stat;

/* A share of the engine's memory. The shares add up to all of it. */
typedef struct {
	/* "block cache", "filters and indexes outside the cache", "write buffers", "open tables", "page cache"; of a layout of state, for the model of
	 * its memory: "leaf cache" and "page cache of the layout" (blocks or pages as on the disk), "index and the rest of the heap" */
	const char *use;
	const char *basis; /* "limit": the engine enforces it; "measured": the engine's current count; "estimate" */
	int64_t bytes;
} statelab_memory;

typedef struct {
	int64_t bytes; /* of the files that Gets read, without WAL and manifest */
	int64_t files;
} statelab_shape;

typedef struct {
	int64_t pending_bytes; /* estimated work left */
	int64_t jobs;          /* running */
} statelab_settling;

typedef struct {
	uint32_t abi;          /* STATELAB_ENGINE_ABI */
	uint32_t struct_bytes; /* sizeof(statelab_engine) */

	const char *name;       /* of the engine: "rocksdb" */
	const char *version;    /* of the engine, not of this library */
	const char *licence;    /* SPDX */
	const char *durability; /* what survives a kill, and what a power cut, after commit and after sync */
	/* Names between spaces:
	 *   block_reads     counts reads.* and, if it has a cache, cache_hits and cache_misses exactly
	 *   block_accesses  honours trace_accesses
	 *   direct          honours direct
	 *   memory_budget   honours memory_bytes and reports memory
	 *   shared_reads    Gets that wait for another's read of a block count as cache misses
	 *   page_cache      reads through mmap: the operating system's page cache is its cache
	 *   volatile        keeps nothing on disk
	 *   no_block_cache  has no block cache: cache_bytes has no effect, and effective reports 0
	 *   no_handles      keeps all its files open: handles has no effect, and effective reports 0
	 *   stores=NAME     the setting NAME applies when data is written: a database keeps the value
	 *                   that it was created with, and opening it with another one fails */
	const char *capabilities;

	/* Reports all mistakes in the options without accessing a file: unknown settings,
	 * invalid values, each with a valid example. OK: open may be tried. */
	int32_t (*check)(const statelab_options *, statelab_error *);

	int32_t (*open)(const statelab_options *, statelab_db **, statelab_error *);
	/* The handle is invalid afterwards, also on failure. */
	int32_t (*close)(statelab_db *, statelab_error *);

	int32_t (*reader_open)(statelab_db *, statelab_reader **, statelab_error *);
	void (*reader_close)(statelab_reader *);

	/* The call that is measured. It sees every commit that returned before it began.
	 * OK: *value_bytes bytes of value were written. TOO_SMALL: *value_bytes is the size
	 * of the value, more than capacity; the caller calls again with a larger buffer.
	 * It never writes beyond capacity. */
	int32_t (*get)(statelab_reader *, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity,
	               size_t *value_bytes, statelab_error *);

	/* A writer collects a batch. commit applies the batch atomically and in order, and
	 * empties it; before that, the batch is invisible to readers. commit need not wait
	 * for the disk: sync does. Closing a writer discards its batch. */
	int32_t (*writer_open)(statelab_db *, statelab_writer **, statelab_error *);
	void (*writer_close)(statelab_writer *);
	int32_t (*put)(statelab_writer *, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes,
	               statelab_error *);
	int32_t (*remove)(statelab_writer *, const uint8_t *key, size_t key_bytes, statelab_error *);
	int32_t (*commit)(statelab_writer *, statelab_error *);

	/* Returns when everything committed so far survives a kill of the process. */
	int32_t (*sync)(statelab_db *, statelab_error *);
	/* Flushes buffered writes and waits until no background work (compactions) is left,
	 * but not much longer than wait_ms: it then returns WORKING and the remaining work. */
	int32_t (*settle)(statelab_db *, int64_t wait_ms, statelab_settling *, statelab_error *);

	/* These fill at most capacity entries and return the number of entries: if that is
	 * more than capacity, the caller calls again. They read no block. */
	size_t (*stats)(statelab_db *, statelab_stat *, size_t capacity);
	size_t (*memory)(statelab_db *, statelab_memory *, size_t capacity);
	/* The settings in force, with defaults resolved. cache_bytes and handles are always
	 * among them. */
	size_t (*effective)(statelab_db *, statelab_setting *, size_t capacity);

	int32_t (*shape)(statelab_db *, statelab_shape *, statelab_error *);
} statelab_engine;

/* What the library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const statelab_engine *statelab_engine_v1(void);

#ifdef __cplusplus
}
#endif

#endif
