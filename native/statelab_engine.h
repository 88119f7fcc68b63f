/* SPDX-License-Identifier: Apache-2.0
 *
 * statelab_engine.h: how a key-value engine comes into statelab as a shared
 * library, whatever it is written in.
 *
 * The library exports one symbol, statelab_engine_v1, which returns a table of
 * functions. statelab loads the library, checks the table and calls nothing else.
 * Every function pointer must be set.
 *
 * Non-goals: iteration, transactions, snapshots: a lookup needs none of them.
 * Never measure time here, never count what was not seen, never guess: what the
 * engine cannot tell is left out.
 *
 * MEMORY. Whoever allocates frees. Pointers that statelab passes are valid during
 * the call only: copy what is to be kept. Strings that the library returns stay
 * valid until the handle they came from is closed, those of the table for ever.
 * Strings are UTF-8 and end with NUL; keys and values are bytes with a length and
 * may hold anything, also nothing at all (then their pointer may be NULL).
 *
 * THREADS. Functions of a statelab_db are called from several threads at a time.
 * A reader or writer is used by one thread at a time, but not always by the same
 * one: keep nothing in thread-local storage between calls. statelab closes all
 * readers and writers before their db, and uses no handle after closing it.
 * A function may block. It must not call back, install signal handlers, change
 * the working directory, write to standard output or end the process. Standard
 * error is free for the engine's own words. Unwinding (C++ exceptions, Rust
 * panics) must not leave the library.
 *
 * ERRORS. Functions that can fail return one of the codes below. On anything but
 * success they leave a sentence in the caller's statelab_error: what was being
 * done and what went wrong ("read block 17 of table: Input/output error"). It is
 * the caller's memory, so no two threads ever share it. On failure, handles that
 * would have been returned are not made.
 *
 * UNITS. Sizes and counters are bytes or plain counts. A counter is a total since
 * open and never falls.
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
	STATELAB_MISSING = 1,        /* get: no such key. Not an error: leave no sentence */
	STATELAB_TOO_SMALL = 2,      /* get: the buffer cannot hold the value */
	STATELAB_WORKING = 3,        /* settle: not done yet, ask again */
	STATELAB_FAILED = -1,        /* see the sentence */
	STATELAB_LOCKED = -2,        /* open: another process holds the database */
	STATELAB_NOT_A_DATABASE = -3 /* open: the directory is missing, empty or holds something else */
};

#define STATELAB_ERROR_BYTES 1024
typedef struct {
	char text[STATELAB_ERROR_BYTES]; /* ends with NUL; several mistakes: a line each */
} statelab_error;

/* Handles: what is in them is the library's business. */
typedef struct statelab_db statelab_db;
typedef struct statelab_reader statelab_reader;
typedef struct statelab_writer statelab_writer;

typedef struct {
	const char *name;
	const char *value;
} statelab_setting;

/* What a database is opened with. 0 means: what the engine does by default. */
typedef struct {
	const char *directory;   /* of the database; "" in check where it is not known yet */
	int32_t create;          /* 1: make a database; statelab has made the directory, which holds
	                            nothing but, perhaps, folders "statelab" and "lost+found": leave them alone.
	                            0: open the one that is there, and create nothing */
	int32_t read_only;       /* 1: change no file */
	int32_t direct;          /* 1: reads bypass the page cache; only with the capability direct */
	int32_t trace_accesses;  /* 1: a cache that admits nothing; only with the capability block_accesses */
	int64_t cache_bytes;     /* the engine's own cache of blocks */
	int64_t memory_bytes;    /* all that the engine keeps in memory; only with the capability memory_budget,
	                            and never together with cache_bytes */
	int64_t handles;         /* files the engine may keep open */
	size_t settings_count;   /* the user's own options (--set NAME=VALUE), by the engine's names */
	const statelab_setting *settings;
} statelab_options;

/* A counter or gauge. Names, all optional, are
 *
 *   reads.TYPE          block reads: what Gets asked of the file layer because no cache
 *   read_bytes.TYPE     of the engine's had it, and their bytes. One without the other is
 *                       refused. Reads of background work do not belong here.
 *   accesses.TYPE       blocks that Gets needed, whether a cache held them or not
 *   direct_bytes        bytes of those reads after rounding to sectors, if direct
 *   background_reads, background_read_bytes      reads of merges, compactions, flushes
 *   table_opens         files opened for Gets
 *   cache_hits, cache_misses                     of the block cache, all types, by Gets
 *   filter_negative, filter_positive             filters asked, by their answer
 *   table_cache_hits, table_cache_misses
 *   user_write_bytes    keys and values as they were put (and committed)
 *   wal_bytes, flush_bytes, compact_bytes        written to files
 *   write_stalls, write_stall_ns                 writers made to wait
 *   cache_used_bytes, memtable_bytes, cache_reserved_bytes     gauges: now
 *
 * where TYPE is filter, top_index, index, data, value, meta, single_index or page
 * (for engines whose blocks have no types). ".L0" to ".L6" behind the TYPE of a
 * reads.* or read_bytes.* tells levels of an LSM tree apart. */
typedef struct {
	const char *name;
	int64_t value;
} statelab_stat;

/* A part of what the engine keeps in memory. The parts add up to all of it. */
typedef struct {
	/* "block cache", "filters and indexes outside the cache", "write buffers", "open tables", "page cache"; of a layout of state, for the model of
	 * its memory: "leaf cache" and "page cache of the layout" (blocks or pages as on the disk), "index and the rest of the heap" */
	const char *use;
	const char *basis; /* "limit": the engine keeps to it; "measured": its own account, now; "estimate" */
	int64_t bytes;
} statelab_memory;

typedef struct {
	int64_t bytes; /* of the files that Gets read: no log, no manifest */
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
	 *   memory_budget   honours memory_bytes and tells memory
	 *   shared_reads    Gets that wait for another's read of a block count as cache misses
	 *   page_cache      reads through mmap: the operating system's page cache is its cache
	 *   volatile        keeps nothing on disk
	 *   no_block_cache  keeps no blocks itself: cache_bytes has no effect, and is told as 0
	 *   no_handles      keeps all its files open: handles has no effect, and is told as 0
	 *   stores=NAME     the setting NAME applies when data is written: a database keeps the value
	 *                   that it was made with, and an open that asks for another one fails */
	const char *capabilities;

	/* Names what is wrong with the options, touching no file: unknown settings,
	 * impossible values, each with a legal example. OK: open may be tried. */
	int32_t (*check)(const statelab_options *, statelab_error *);

	int32_t (*open)(const statelab_options *, statelab_db **, statelab_error *);
	/* The handle is gone afterwards, also on failure. */
	int32_t (*close)(statelab_db *, statelab_error *);

	int32_t (*reader_open)(statelab_db *, statelab_reader **, statelab_error *);
	void (*reader_close)(statelab_reader *);

	/* The call that is measured. Sees every commit that returned before it began.
	 * OK: *value_bytes bytes of value were written. TOO_SMALL: *value_bytes is how
	 * many there are, more than capacity; the caller asks again with a larger buffer.
	 * Never writes beyond capacity. */
	int32_t (*get)(statelab_reader *, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity,
	               size_t *value_bytes, statelab_error *);

	/* A writer collects a batch, of which nobody sees anything before commit
	 * applies it as a whole, in order, and empties it. commit need not wait for the
	 * disk: sync does. Closing a writer drops what it holds. */
	int32_t (*writer_open)(statelab_db *, statelab_writer **, statelab_error *);
	void (*writer_close)(statelab_writer *);
	int32_t (*put)(statelab_writer *, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes,
	               statelab_error *);
	int32_t (*remove)(statelab_writer *, const uint8_t *key, size_t key_bytes, statelab_error *);
	int32_t (*commit)(statelab_writer *, statelab_error *);

	/* Returns when everything committed so far survives a kill of the process. */
	int32_t (*sync)(statelab_db *, statelab_error *);
	/* Flushes what is buffered and waits until no background work is left, but not
	 * much longer than wait_ms: then WORKING, with what is left. */
	int32_t (*settle)(statelab_db *, int64_t wait_ms, statelab_settling *, statelab_error *);

	/* These fill at most capacity entries and return how many there are: if that is
	 * more, the caller asks again. They read no block. */
	size_t (*stats)(statelab_db *, statelab_stat *, size_t capacity);
	size_t (*memory)(statelab_db *, statelab_memory *, size_t capacity);
	/* What the engine runs with, defaults resolved. cache_bytes and handles are
	 * always among them. */
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
