/* engine.c: the table of functions of statelab_engine.h over a small engine.
 *
 * A commit goes to the log, then to the memtable. When that is full, or on settle,
 * it is merged with the sorted table into a new one, which takes the old one's
 * place by a rename; then the log is emptied. A crash between the two only replays
 * what the table already holds.
 *
 * Goals: to be read in an hour, to lose nothing, to count exactly.
 * Non-goals: large databases. A merge rewrites the whole table while the writer
 * waits, so loading n keys writes about n * n bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cache.h"
#include "failure.h"
#include "log.h"
#include "memtable.h"
#include "table.h"

#define DEFAULT_CACHE_BYTES (8 << 20)
#define DEFAULT_WRITE_BUFFER_BYTES (16 << 20)
#define LEAST_MEMORY_BYTES (1 << 20)
#define DEFAULT_HANDLES 3 /* lock, log, table: it never opens more */

/* What the options come to. */
typedef struct {
	int64_t cache_bytes, write_buffer_bytes, handles;
	char cache_text[24], write_buffer_text[24], handles_text[24];
} sizes;

struct statelab_db {
	char directory[PATH_MAX];
	bool read_only, direct;
	sizes sizes;
	int lock;

	/* writing is held by one commit or merge at a time, state exclusively only
	 * while what Gets see changes. Order: writing, then state. */
	pthread_mutex_t writing;
	pthread_rwlock_t state;
	log_file log;
	memtable *recent;
	table *table; /* NULL before the first merge */
	cache *cache;

	atomic_int_least64_t user_write_bytes, wal_bytes, merge_bytes, merge_reads, merge_read_bytes;
};

struct statelab_reader {
	statelab_db *db;
	page_buffer block;
};

struct statelab_writer {
	statelab_db *db;
	log_batch batch;
};

/* resolve turns options into sizes; several mistakes make several lines. */
static int32_t resolve(const statelab_options *o, sizes *s, statelab_error *error) {
	s->write_buffer_bytes = DEFAULT_WRITE_BUFFER_BYTES;
	s->cache_bytes = o->cache_bytes ? o->cache_bytes : DEFAULT_CACHE_BYTES;
	s->handles = o->handles ? o->handles : DEFAULT_HANDLES;
	size_t said = 0;
	if (o->memory_bytes) {
		if (o->memory_bytes < LEAST_MEMORY_BYTES)
			said += (size_t)snprintf(error->text, sizeof error->text, "memory of %lld bytes is too little: give at least %d\n",
			                         (long long)o->memory_bytes, LEAST_MEMORY_BYTES);
		s->write_buffer_bytes = o->memory_bytes / 4;
		s->cache_bytes = o->memory_bytes - s->write_buffer_bytes;
	}
	if (o->trace_accesses) s->cache_bytes = 0;
	for (size_t i = 0; i < o->settings_count && said < sizeof error->text; i++) {
		const statelab_setting *set = &o->settings[i];
		char *end;
		long long value = strtoll(set->value, &end, 10);
		if (strcmp(set->name, "write_buffer_bytes") != 0)
			said += (size_t)snprintf(error->text + said, sizeof error->text - said, "unknown option \"%s\": use write_buffer_bytes\n", set->name);
		else if (*set->value == '\0' || *end != '\0' || value < 1)
			said += (size_t)snprintf(error->text + said, sizeof error->text - said,
			                         "option write_buffer_bytes=%s is illegal: write write_buffer_bytes=16777216\n", set->value);
		else
			s->write_buffer_bytes = value;
	}
	return said == 0 ? STATELAB_OK : STATELAB_FAILED;
}

static int32_t engine_check(const statelab_options *o, statelab_error *error) {
	sizes s;
	return resolve(o, &s, error);
}

static int32_t path_in(const statelab_db *db, const char *name, char path[PATH_MAX], statelab_error *error) {
	if (snprintf(path, PATH_MAX, "%s/%s", db->directory, name) >= PATH_MAX) return fail(error, "%s is too long a path", db->directory);
	return STATELAB_OK;
}

static int32_t sync_directory(const statelab_db *db, statelab_error *error) {
	int directory = open(db->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int32_t code = STATELAB_OK;
	if (directory < 0 || fsync(directory) != 0) code = fail_errno(error, "sync %s", db->directory);
	if (directory >= 0) close(directory);
	return code;
}

/* take_lock keeps other processes out: all for a writer, writers for a reader. */
static int32_t take_lock(statelab_db *db, bool create, statelab_error *error) {
	char path[PATH_MAX];
	int32_t code = path_in(db, "lock", path, error);
	if (code != STATELAB_OK) return code;
	db->lock = open(path, O_CLOEXEC | (create ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY), 0644);
	if (db->lock < 0 && !create && (errno == ENOENT || errno == ENOTDIR)) {
		fail(error, "%s is not there", path);
		return STATELAB_NOT_A_DATABASE;
	}
	if (db->lock < 0) return fail_errno(error, "open %s", path);
	if (flock(db->lock, (db->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
		bool held = errno == EWOULDBLOCK;
		fail_errno(error, "lock %s", path);
		return held ? STATELAB_LOCKED : STATELAB_FAILED;
	}
	return STATELAB_OK;
}

static int32_t remember(void *context, const record *r, statelab_error *error) {
	statelab_db *db = context;
	return memtable_put(db->recent, r) ? STATELAB_OK : fail(error, "no memory for the memtable");
}

static int32_t open_files(statelab_db *db, bool create, statelab_error *error) {
	char path[PATH_MAX];
	int32_t code = take_lock(db, create, error);
	if (code != STATELAB_OK || (code = path_in(db, "log", path, error)) != STATELAB_OK) return code;
	if (create) {
		code = log_create(&db->log, path, error);
		return code == STATELAB_OK ? sync_directory(db, error) : code;
	}
	code = log_open(&db->log, path, db->read_only, remember, db, error);
	if (code != STATELAB_OK || (code = path_in(db, "table", path, error)) != STATELAB_OK) return code;
	if (access(path, F_OK) != 0) return errno == ENOENT ? STATELAB_OK : fail_errno(error, "open %s", path);
	db->table = table_open(path, db->direct, error);
	return db->table ? STATELAB_OK : STATELAB_FAILED;
}

static void discard(statelab_db *db) {
	log_close(&db->log);
	if (db->lock >= 0) close(db->lock);
	table_close(db->table);
	if (db->recent) memtable_free(db->recent);
	if (db->cache) cache_free(db->cache);
	pthread_rwlock_destroy(&db->state);
	pthread_mutex_destroy(&db->writing);
	free(db);
}

static int32_t engine_open(const statelab_options *o, statelab_db **opened, statelab_error *error) {
	statelab_db *db = calloc(1, sizeof *db);
	if (!db) return fail(error, "no memory to open %s", o->directory);
	db->lock = db->log.file = -1;
	db->read_only = o->read_only;
	db->direct = o->direct;
	pthread_mutex_init(&db->writing, NULL);
	/* Readers in a tight loop must not keep a commit waiting for ever. */
	pthread_rwlockattr_t fair;
	pthread_rwlockattr_init(&fair);
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&db->state, &fair);
	pthread_rwlockattr_destroy(&fair);

	int32_t code = resolve(o, &db->sizes, error);
	if (code == STATELAB_OK && snprintf(db->directory, sizeof db->directory, "%s", o->directory) >= (int)sizeof db->directory)
		code = fail(error, "%s is too long a path", o->directory);
	if (code == STATELAB_OK && (!(db->recent = memtable_new()) || !(db->cache = cache_new(db->sizes.cache_bytes))))
		code = fail(error, "no memory to open %s", o->directory);
	if (code == STATELAB_OK) code = open_files(db, o->create, error);
	if (code != STATELAB_OK) {
		discard(db);
		return code;
	}
	snprintf(db->sizes.cache_text, sizeof db->sizes.cache_text, "%lld", (long long)db->sizes.cache_bytes);
	snprintf(db->sizes.write_buffer_text, sizeof db->sizes.write_buffer_text, "%lld", (long long)db->sizes.write_buffer_bytes);
	snprintf(db->sizes.handles_text, sizeof db->sizes.handles_text, "%lld", (long long)db->sizes.handles);
	*opened = db;
	return STATELAB_OK;
}

static int32_t engine_close(statelab_db *db, statelab_error *error) {
	int32_t code = db->read_only ? STATELAB_OK : log_sync(&db->log, error);
	discard(db);
	return code;
}

static int32_t engine_reader_open(statelab_db *db, statelab_reader **opened, statelab_error *error) {
	statelab_reader *r = calloc(1, sizeof *r);
	if (!r) return fail(error, "no memory for a reader");
	r->db = db;
	*opened = r;
	return STATELAB_OK;
}

static void engine_reader_close(statelab_reader *r) {
	page_buffer_free(&r->block);
	free(r);
}

/* answer hands out a found value. */
static int32_t answer(const record *r, uint8_t *value, size_t capacity, size_t *value_bytes) {
	*value_bytes = r->value_bytes;
	if (r->value_bytes > capacity) return STATELAB_TOO_SMALL;
	if (r->value_bytes) memcpy(value, r->value, r->value_bytes);
	return STATELAB_OK;
}

static int32_t engine_get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *value_bytes,
		statelab_error *error) {
	statelab_db *db = r->db;
	record found;
	int32_t code = STATELAB_MISSING;
	pthread_rwlock_rdlock(&db->state);
	if (memtable_find(db->recent, key, key_bytes, &found)) {
		if (!found.removed) code = answer(&found, value, capacity, value_bytes);
	} else if (db->table) {
		code = table_find(db->table, db->cache, &r->block, key, key_bytes, &found, error);
		if (code == STATELAB_OK) code = answer(&found, value, capacity, value_bytes);
	}
	pthread_rwlock_unlock(&db->state);
	return code;
}

static int32_t engine_writer_open(statelab_db *db, statelab_writer **opened, statelab_error *error) {
	if (db->read_only) return fail(error, "the database is open for reading only");
	statelab_writer *w = calloc(1, sizeof *w);
	if (!w) return fail(error, "no memory for a writer");
	w->db = db;
	*opened = w;
	return STATELAB_OK;
}

static void engine_writer_close(statelab_writer *w) {
	log_batch_free(&w->batch);
	free(w);
}

static int32_t engine_put(statelab_writer *w, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes,
		statelab_error *error) {
	if (key_bytes > RECORD_MAX || value_bytes > RECORD_MAX) return fail(error, "a key of %zu and a value of %zu bytes are too large", key_bytes, value_bytes);
	record r = {.key = key, .key_bytes = (uint32_t)key_bytes, .value = value, .value_bytes = (uint32_t)value_bytes};
	return log_batch_add(&w->batch, &r, error);
}

static int32_t engine_remove(statelab_writer *w, const uint8_t *key, size_t key_bytes, statelab_error *error) {
	if (key_bytes > RECORD_MAX) return fail(error, "a key of %zu bytes is too large", key_bytes);
	record r = {.key = key, .key_bytes = (uint32_t)key_bytes, .removed = true};
	return log_batch_add(&w->batch, &r, error);
}

/* write_merged writes the pairs of the old table and the memtable, the newer of
 * two winning, what was removed left out. */
static int32_t write_merged(statelab_db *db, const record *recent, table_scan *scan, table_writer *w, statelab_error *error) {
	size_t i = 0, n = memtable_count(db->recent);
	record old;
	int32_t more = table_scan_next(scan, &old, error);
	while (more == STATELAB_OK || (more == STATELAB_MISSING && i < n)) {
		int order = 0;
		if (more != STATELAB_OK)
			order = 1;
		else if (i == n)
			order = -1;
		else
			order = compare_keys(old.key, old.key_bytes, recent[i].key, recent[i].key_bytes);
		const record *next = order < 0 ? &old : &recent[i];
		int32_t code = next->removed ? STATELAB_OK : table_writer_add(w, next, error);
		if (code != STATELAB_OK) return code;
		if (order >= 0) i++;
		if (order <= 0) more = table_scan_next(scan, &old, error);
	}
	return more == STATELAB_MISSING ? STATELAB_OK : more;
}

static int32_t write_table(statelab_db *db, const char *path, statelab_error *error) {
	table_scan scan = {.table = db->table};
	int64_t bytes = 0;
	record *recent = memtable_sorted(db->recent);
	if (!recent) return fail(error, "no memory to merge");
	table_writer *w = table_writer_new(path, error);
	int32_t code = w ? write_merged(db, recent, &scan, w, error) : STATELAB_FAILED;
	if (code == STATELAB_OK)
		code = table_writer_finish(w, &bytes, error);
	else if (w)
		table_writer_abandon(w);
	atomic_fetch_add(&db->merge_reads, scan.reads);
	atomic_fetch_add(&db->merge_read_bytes, scan.read_bytes);
	atomic_fetch_add(&db->merge_bytes, bytes);
	table_scan_free(&scan);
	free(recent);
	return code;
}

/* merge empties the memtable into a new table. The caller holds writing. */
static int32_t merge(statelab_db *db, statelab_error *error) {
	char new_path[PATH_MAX], path[PATH_MAX];
	if (memtable_count(db->recent) == 0) return STATELAB_OK;
	int32_t code = path_in(db, "table.new", new_path, error);
	if (code == STATELAB_OK) code = path_in(db, "table", path, error);
	if (code == STATELAB_OK) code = write_table(db, new_path, error);
	if (code != STATELAB_OK) return code;
	if (rename(new_path, path) != 0) return fail_errno(error, "rename %s", new_path);
	if ((code = sync_directory(db, error)) != STATELAB_OK) return code;
	table *fresh = table_open(path, db->direct, error);
	if (!fresh) return STATELAB_FAILED;

	pthread_rwlock_wrlock(&db->state);
	table *stale = db->table;
	db->table = fresh;
	memtable_clear(db->recent);
	cache_clear(db->cache);
	pthread_rwlock_unlock(&db->state);
	table_close(stale);
	return log_clear(&db->log, error);
}

static int32_t engine_commit(statelab_writer *w, statelab_error *error) {
	statelab_db *db = w->db;
	if (w->batch.used == 0) return STATELAB_OK;
	pthread_mutex_lock(&db->writing);
	int32_t code = log_append(&db->log, &w->batch, error);
	if (code == STATELAB_OK) {
		pthread_rwlock_wrlock(&db->state);
		code = log_batch_visit(&w->batch, remember, db, error);
		pthread_rwlock_unlock(&db->state);
		atomic_fetch_add(&db->user_write_bytes, w->batch.user_bytes);
		atomic_fetch_add(&db->wal_bytes, (int64_t)w->batch.used);
		log_batch_clear(&w->batch);
	}
	if (code == STATELAB_OK && memtable_bytes(db->recent) > (size_t)db->sizes.write_buffer_bytes) code = merge(db, error);
	pthread_mutex_unlock(&db->writing);
	return code;
}

static int32_t engine_sync(statelab_db *db, statelab_error *error) {
	if (db->read_only) return STATELAB_OK;
	pthread_mutex_lock(&db->writing);
	int32_t code = log_sync(&db->log, error);
	pthread_mutex_unlock(&db->writing);
	return code;
}

/* A merge is done in one go, however long it takes. */
static int32_t engine_settle(statelab_db *db, int64_t wait_ms, statelab_settling *left, statelab_error *error) {
	(void)wait_ms;
	(void)left;
	if (db->read_only) return STATELAB_OK;
	pthread_mutex_lock(&db->writing);
	int32_t code = merge(db, error);
	pthread_mutex_unlock(&db->writing);
	return code;
}

static size_t engine_stats(statelab_db *db, statelab_stat *into, size_t capacity) {
	cache_counters c;
	cache_count(db->cache, &c);
	pthread_rwlock_rdlock(&db->state);
	int64_t memtable = (int64_t)memtable_bytes(db->recent);
	pthread_rwlock_unlock(&db->state);
	const statelab_stat all[] = {
	    {"reads.data", c.reads[DATA_BLOCK]},
	    {"read_bytes.data", c.read_bytes[DATA_BLOCK]},
	    {"reads.index", c.reads[INDEX_BLOCK]},
	    {"read_bytes.index", c.read_bytes[INDEX_BLOCK]},
	    {"accesses.data", c.hits[DATA_BLOCK] + c.misses[DATA_BLOCK]},
	    {"accesses.index", c.hits[INDEX_BLOCK] + c.misses[INDEX_BLOCK]},
	    {"cache_hits", c.hits[DATA_BLOCK] + c.hits[INDEX_BLOCK]},
	    {"cache_misses", c.misses[DATA_BLOCK] + c.misses[INDEX_BLOCK]},
	    {"cache_used_bytes", c.used_bytes},
	    {"memtable_bytes", memtable},
	    {"background_reads", atomic_load(&db->merge_reads)},
	    {"background_read_bytes", atomic_load(&db->merge_read_bytes)},
	    {"user_write_bytes", atomic_load(&db->user_write_bytes)},
	    {"wal_bytes", atomic_load(&db->wal_bytes)},
	    {"compact_bytes", atomic_load(&db->merge_bytes)},
	    /* Blocks are whole pages: O_DIRECT rounds nothing. Told last, only if direct. */
	    {"direct_bytes", c.read_bytes[DATA_BLOCK] + c.read_bytes[INDEX_BLOCK]},
	};
	size_t n = sizeof all / sizeof *all - (db->direct ? 0 : 1);
	if (n <= capacity) memcpy(into, all, n * sizeof *all);
	return n;
}

static size_t engine_memory(statelab_db *db, statelab_memory *into, size_t capacity) {
	pthread_rwlock_rdlock(&db->state);
	int64_t top = db->table ? table_memory_bytes(db->table) : 0;
	pthread_rwlock_unlock(&db->state);
	const statelab_memory all[] = {
	    {"block cache", "limit", db->sizes.cache_bytes},
	    {"write buffers", "limit", db->sizes.write_buffer_bytes},
	    {"filters and indexes outside the cache", "measured", top},
	};
	size_t n = sizeof all / sizeof *all;
	if (n <= capacity) memcpy(into, all, sizeof all);
	return n;
}

static size_t engine_effective(statelab_db *db, statelab_setting *into, size_t capacity) {
	const statelab_setting all[] = {
	    {"cache_bytes", db->sizes.cache_text},
	    {"handles", db->sizes.handles_text},
	    {"write_buffer_bytes", db->sizes.write_buffer_text},
	    {"block_bytes", "4096"},
	    {"direct", db->direct ? "true" : "false"},
	};
	size_t n = sizeof all / sizeof *all;
	if (n <= capacity) memcpy(into, all, sizeof all);
	return n;
}

static int32_t engine_shape(statelab_db *db, statelab_shape *shape, statelab_error *error) {
	(void)error;
	pthread_rwlock_rdlock(&db->state);
	shape->files = db->table ? 1 : 0;
	shape->bytes = db->table ? table_file_bytes(db->table) : 0;
	pthread_rwlock_unlock(&db->state);
	return STATELAB_OK;
}

static const statelab_engine functions = {
	.abi = STATELAB_ENGINE_ABI,
	.struct_bytes = sizeof(statelab_engine),
	.name = "sortedtable",
	.version = "1",
	.licence = "Apache-2.0",
	.durability = "a kill: every commit; a power cut: what a sync or settle returned for",
	.capabilities = "block_reads block_accesses direct memory_budget",
	.check = engine_check,
	.open = engine_open,
	.close = engine_close,
	.reader_open = engine_reader_open,
	.reader_close = engine_reader_close,
	.get = engine_get,
	.writer_open = engine_writer_open,
	.writer_close = engine_writer_close,
	.put = engine_put,
	.remove = engine_remove,
	.commit = engine_commit,
	.sync = engine_sync,
	.settle = engine_settle,
	.stats = engine_stats,
	.memory = engine_memory,
	.effective = engine_effective,
	.shape = engine_shape,
};

const statelab_engine *statelab_engine_v1(void) { return &functions; }
