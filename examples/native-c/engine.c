/* engine.c: a small but whole key-value engine behind statelab_engine.h.
 *
 * A commit is appended to one log. An index in memory says where the newest value
 * of each key lies, so a Get reads the pages of one value, through a page cache.
 * Opening reads the log once and builds the index again.
 *
 * Goals: to be read in half an hour, to lose nothing, to count exactly.
 * Non-goals: large databases. All keys are in memory, and the space of values that
 * were overwritten or removed is never used again.
 *
 * Numbers in the log are in the byte order of the machine.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "statelab_engine.h"

#define DEFAULT_CACHE_BYTES (8 << 20)
#define LEAST_PAGE_BYTES 4096 /* O_DIRECT needs whole sectors; pages are powers of two */
#define LARGEST_PAGE_BYTES (1 << 20)
#define LARGEST_RECORD ((size_t)64 << 20) /* key plus value */
#define MOST_BATCH_BYTES ((size_t)1 << 30)
#define REMOVED UINT32_MAX

static const char magic[8] = "hashlog1";

/* What the log holds behind the magic: batches, each a header and its records. */
typedef struct {
	uint64_t checksum; /* of what follows, the rest of this header included */
	uint64_t bytes;    /* of the records */
} batch_header;

typedef struct {
	uint32_t key_bytes, value_bytes; /* REMOVED: there is no value */
} record_header;

/* Where the value of a key lies. A slot without key is free. */
typedef struct {
	uint8_t *key;
	uint32_t key_bytes, value_bytes;
	uint64_t offset, checksum; /* of the value */
} entry;

struct statelab_db {
	char directory[PATH_MAX];
	bool read_only, direct;
	int64_t cache_bytes, page_bytes, handles;
	char cache_text[24], page_text[24], handles_text[24];

	int log, file;       /* the same file twice; the second has O_DIRECT if asked for */
	bool broken;         /* half a batch lies at the end and could not be cut off */
	uint64_t end;        /* of the last whole batch */
	entry *entries;      /* open addressing, a power of two of them */
	size_t slots, count;
	int64_t key_bytes;   /* in memory */

	pthread_mutex_t cache; /* over what follows */
	size_t places;         /* for pages; 0: it admits nothing */
	uint64_t *held;        /* the page in each place, counted from 1; 0: none */
	uint8_t *pages;
	int64_t hits, reads;

	/* writing is held by one commit at a time, index exclusively only while what
	 * Gets see changes. Order: writing, then index. */
	pthread_mutex_t writing;
	pthread_rwlock_t index;
	atomic_int_least64_t user_write_bytes, wal_bytes;
};

struct statelab_reader {
	statelab_db *db;
	uint8_t *page;
};

struct statelab_writer {
	statelab_db *db;
	uint8_t *bytes; /* room for a batch_header, then records */
	size_t used, capacity;
	int64_t user_bytes;
};

static int32_t fail(statelab_error *error, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return STATELAB_FAILED;
}

static int32_t fail_errno(statelab_error *error, const char *doing, const char *what) {
	return fail(error, "%s %s: %s", doing, what, strerror(errno));
}

/* hash is FNV-1a, eight bytes at a time: it finds torn writes and flipped bits, but is no defence against malice. */
static uint64_t hash(const uint8_t *bytes, size_t n) {
	uint64_t h = 0xcbf29ce484222325u ^ n;
	for (; n >= 8; bytes += 8, n -= 8) {
		uint64_t word;
		memcpy(&word, bytes, 8);
		h = (h ^ word) * 0x9fb21c651e98df25u;
		h ^= h >> 32;
	}
	for (; n; bytes++, n--) h = (h ^ *bytes) * 0x100000001b3u;
	return h ^ h >> 29;
}

/* The index. */

static entry *find(const statelab_db *db, const uint8_t *key, size_t key_bytes) {
	for (size_t i = hash(key, key_bytes);; i++) {
		entry *e = &db->entries[i & (db->slots - 1)];
		if (!e->key || (e->key_bytes == key_bytes && memcmp(e->key, key, key_bytes) == 0)) return e;
	}
}

static bool grow(statelab_db *db) {
	entry *old = db->entries;
	size_t slots = db->slots;
	db->entries = calloc(slots ? slots * 2 : 1024, sizeof *old);
	if (!db->entries) {
		db->entries = old;
		return false;
	}
	db->slots = slots ? slots * 2 : 1024;
	for (size_t i = 0; i < slots; i++)
		if (old[i].key) *find(db, old[i].key, old[i].key_bytes) = old[i];
	free(old);
	return true;
}

static bool remember(statelab_db *db, const uint8_t *key, record_header r, const uint8_t *value, uint64_t offset) {
	if (db->count * 2 >= db->slots && !grow(db)) return false;
	entry *e = find(db, key, r.key_bytes);
	if (!e->key) {
		if (!(e->key = malloc(r.key_bytes + 1))) return false; /* an empty key is a key */
		if (r.key_bytes) memcpy(e->key, key, r.key_bytes);
		e->key_bytes = r.key_bytes;
		db->count++;
		db->key_bytes += r.key_bytes + 1;
	}
	e->value_bytes = r.value_bytes;
	e->offset = offset;
	e->checksum = r.value_bytes == REMOVED ? 0 : hash(value, r.value_bytes);
	return true;
}

/* remember_batch puts the records of a batch, which lie at offset in the log, into the index. */
static int32_t remember_batch(statelab_db *db, const uint8_t *records, size_t bytes, uint64_t offset, statelab_error *error) {
	for (size_t at = 0; at < bytes;) {
		record_header r;
		size_t left = bytes - at;
		if (left < sizeof r) return fail(error, "damaged record at offset %llu of the log", (unsigned long long)(offset + at));
		memcpy(&r, records + at, sizeof r);
		size_t value_bytes = r.value_bytes == REMOVED ? 0 : r.value_bytes;
		if (left - sizeof r < (size_t)r.key_bytes + value_bytes)
			return fail(error, "damaged record at offset %llu of the log", (unsigned long long)(offset + at));
		const uint8_t *key = records + at + sizeof r, *value = key + r.key_bytes;
		at += sizeof r + r.key_bytes;
		if (!remember(db, key, r, value, offset + at)) return fail(error, "no memory for the index");
		at += value_bytes;
	}
	return STATELAB_OK;
}

/* The cache: a page has one place, where the page that is read last stays. */

static int32_t make_cache(statelab_db *db, statelab_error *error) {
	pthread_mutex_init(&db->cache, NULL);
	db->places = (size_t)(db->cache_bytes / db->page_bytes);
	if (db->places == 0) return STATELAB_OK;
	db->held = calloc(db->places, sizeof *db->held);
	db->pages = malloc(db->places * (size_t)db->page_bytes);
	return db->held && db->pages ? STATELAB_OK : fail(error, "no memory for a cache of %s bytes", db->cache_text);
}

/* forget drops a page that has changed. No Get is under way. */
static void forget(statelab_db *db, uint64_t page) {
	if (db->places && db->held[page % db->places] == page + 1) db->held[page % db->places] = 0;
}

/* read_page copies n bytes from the start of a page on; what it counts is what it did. */
static int32_t read_page(statelab_reader *r, uint64_t page, size_t start, size_t n, uint8_t *to, statelab_error *error) {
	statelab_db *db = r->db;
	size_t place = db->places ? page % db->places : 0, page_bytes = (size_t)db->page_bytes;
	pthread_mutex_lock(&db->cache);
	bool hit = db->places && db->held[place] == page + 1;
	if (hit) memcpy(to, db->pages + place * page_bytes + start, n);
	hit ? db->hits++ : db->reads++;
	pthread_mutex_unlock(&db->cache);
	if (hit) return STATELAB_OK;

	ssize_t got;
	do got = pread(db->file, r->page, page_bytes, (off_t)(page * page_bytes));
	while (got < 0 && errno == EINTR);
	if (got < 0) return fail(error, "read page %llu of the log: %s", (unsigned long long)page, strerror(errno));
	if ((size_t)got < start + n) return fail(error, "read page %llu of the log: the file ends in it", (unsigned long long)page);
	memcpy(to, r->page + start, n);
	if (db->places) {
		pthread_mutex_lock(&db->cache);
		db->held[place] = page + 1;
		memcpy(db->pages + place * page_bytes, r->page, page_bytes);
		pthread_mutex_unlock(&db->cache);
	}
	return STATELAB_OK;
}

/* Opening and closing. */

/* resolve turns options into sizes; several mistakes make several lines. */
static int32_t resolve(const statelab_options *o, statelab_db *db, statelab_error *error) {
	db->cache_bytes = o->trace_accesses ? 0 : o->cache_bytes ? o->cache_bytes : DEFAULT_CACHE_BYTES;
	db->handles = o->handles ? o->handles : 2; /* the log, once or twice: it never opens more */
	db->page_bytes = LEAST_PAGE_BYTES;
	size_t said = 0;
	for (size_t i = 0; i < o->settings_count && said < sizeof error->text; i++) {
		const statelab_setting *set = &o->settings[i];
		char *end, *into = error->text + said;
		size_t room = sizeof error->text - said;
		long long value = strtoll(set->value, &end, 10);
		if (strcmp(set->name, "page_bytes") != 0)
			said += (size_t)snprintf(into, room, "unknown option \"%s\": use page_bytes\n", set->name);
		else if (*set->value == '\0' || *end || value < LEAST_PAGE_BYTES || value > LARGEST_PAGE_BYTES || (value & (value - 1)))
			said += (size_t)snprintf(into, room, "invalid page_bytes=%s: a power of two from %d to %d (example: page_bytes=8192)\n", set->value,
			                         LEAST_PAGE_BYTES, LARGEST_PAGE_BYTES);
		else
			db->page_bytes = value;
	}
	snprintf(db->cache_text, sizeof db->cache_text, "%lld", (long long)db->cache_bytes);
	snprintf(db->page_text, sizeof db->page_text, "%lld", (long long)db->page_bytes);
	snprintf(db->handles_text, sizeof db->handles_text, "%lld", (long long)db->handles);
	return said == 0 ? STATELAB_OK : STATELAB_FAILED;
}

static int32_t engine_check(const statelab_options *o, statelab_error *error) {
	statelab_db db;
	return resolve(o, &db, error);
}

static int32_t write_all(int file, const uint8_t *bytes, size_t n, uint64_t offset) {
	for (size_t done = 0; done < n;) {
		ssize_t wrote = pwrite(file, bytes + done, n - done, (off_t)(offset + done));
		if (wrote < 0 && errno == EINTR) continue;
		if (wrote <= 0) return STATELAB_FAILED;
		done += (size_t)wrote;
	}
	return STATELAB_OK;
}

static bool read_all(int file, void *bytes, size_t n, uint64_t offset) {
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(file, (uint8_t *)bytes + done, n - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return false;
		done += (size_t)got;
	}
	return true;
}

static uint64_t batch_checksum(const uint8_t *batch, size_t bytes) { return hash(batch + sizeof(uint64_t), bytes - sizeof(uint64_t)); }

/* replay builds the index. A batch that the end of the file cuts off was never
 * committed: it is dropped, and cut off unless the database is read only. */
static int32_t replay(statelab_db *db, const char *path, statelab_error *error) {
	char found[sizeof magic];
	struct stat info;
	if (fstat(db->log, &info) != 0) return fail_errno(error, "read", path);
	if (!read_all(db->log, found, sizeof found, 0) || memcmp(found, magic, sizeof magic) != 0) {
		fail(error, "%s is not the log of such a database", path);
		return STATELAB_NOT_A_DATABASE;
	}
	db->end = sizeof magic;
	int32_t code = STATELAB_OK;
	uint8_t *batch = NULL;
	for (uint64_t size = (uint64_t)info.st_size; code == STATELAB_OK && db->end < size;) {
		batch_header h;
		if (size - db->end < sizeof h || !read_all(db->log, &h, sizeof h, db->end) || h.bytes > size - db->end - sizeof h) break;
		size_t bytes = sizeof h + h.bytes;
		uint8_t *larger = realloc(batch, bytes);
		if (!larger) code = fail(error, "no memory to read %s", path);
		else if (!read_all(db->log, batch = larger, bytes, db->end)) code = fail_errno(error, "read", path);
		else if (batch_checksum(batch, bytes) == h.checksum)
			code = remember_batch(db, batch + sizeof h, h.bytes, db->end + sizeof h, error);
		else if (db->end + bytes == size) break;
		else code = fail(error, "%s is damaged at offset %llu", path, (unsigned long long)db->end);
		db->end += bytes;
	}
	free(batch);
	if (code == STATELAB_OK && !db->read_only && ftruncate(db->log, (off_t)db->end) != 0) code = fail_errno(error, "cut off the end of", path);
	return code;
}

static int32_t create(statelab_db *db, const char *path, statelab_error *error) {
	db->end = sizeof magic;
	if (write_all(db->log, (const uint8_t *)magic, sizeof magic, 0) != STATELAB_OK || fsync(db->log) != 0) return fail_errno(error, "write", path);
	int directory = open(db->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool synced = directory >= 0 && fsync(directory) == 0;
	if (directory >= 0) close(directory);
	return synced ? grow(db) ? STATELAB_OK : fail(error, "no memory for the index") : fail_errno(error, "sync", db->directory);
}

static int32_t open_files(statelab_db *db, bool fresh, statelab_error *error) {
	char path[PATH_MAX + 8];
	snprintf(path, sizeof path, "%s/log", db->directory);
	db->log = open(path, O_CLOEXEC | (fresh ? O_RDWR | O_CREAT | O_EXCL : db->read_only ? O_RDONLY : O_RDWR), 0644);
	if (db->log < 0) {
		int32_t code = !fresh && (errno == ENOENT || errno == ENOTDIR) ? STATELAB_NOT_A_DATABASE : STATELAB_FAILED;
		fail_errno(error, "open", path);
		return code;
	}
	if (flock(db->log, (db->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
		int32_t code = errno == EWOULDBLOCK ? STATELAB_LOCKED : STATELAB_FAILED;
		fail_errno(error, "lock", path);
		return code;
	}
	db->file = open(path, O_RDONLY | O_CLOEXEC | (db->direct ? O_DIRECT : 0));
	if (db->file < 0) return fail_errno(error, db->direct ? "open with O_DIRECT" : "open", path);
	if (fresh) return create(db, path, error);
	return grow(db) ? replay(db, path, error) : fail(error, "no memory for the index");
}

static void discard(statelab_db *db) {
	if (db->file >= 0) close(db->file);
	if (db->log >= 0) close(db->log);
	for (size_t i = 0; i < db->slots; i++) free(db->entries[i].key);
	free(db->entries);
	free(db->held);
	free(db->pages);
	free(db);
}

static int32_t engine_open(const statelab_options *o, statelab_db **opened, statelab_error *error) {
	statelab_db *db = calloc(1, sizeof *db);
	if (!db) return fail(error, "no memory to open %s", o->directory);
	db->log = db->file = -1;
	db->read_only = o->read_only;
	db->direct = o->direct;
	pthread_mutex_init(&db->writing, NULL);
	/* Readers in a tight loop must not keep a commit waiting for ever. */
	pthread_rwlockattr_t fair;
	pthread_rwlockattr_init(&fair);
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&db->index, &fair);

	int32_t code = resolve(o, db, error);
	if (code == STATELAB_OK && snprintf(db->directory, sizeof db->directory, "%s", o->directory) >= (int)sizeof db->directory)
		code = fail(error, "%s is too long a path", o->directory);
	if (code == STATELAB_OK) code = make_cache(db, error);
	if (code == STATELAB_OK) code = open_files(db, o->create, error);
	if (code == STATELAB_OK)
		*opened = db;
	else
		discard(db);
	return code;
}

static int32_t engine_sync(statelab_db *db, statelab_error *error) {
	return db->read_only || fdatasync(db->log) == 0 ? STATELAB_OK : fail_errno(error, "sync the log in", db->directory);
}

static int32_t engine_close(statelab_db *db, statelab_error *error) {
	int32_t code = engine_sync(db, error);
	discard(db);
	return code;
}

/* Reading. */

static int32_t engine_reader_open(statelab_db *db, statelab_reader **opened, statelab_error *error) {
	statelab_reader *r = calloc(1, sizeof *r);
	if (!r || !(r->page = aligned_alloc(LEAST_PAGE_BYTES, (size_t)db->page_bytes))) {
		free(r);
		return fail(error, "no memory for a reader");
	}
	r->db = db;
	*opened = r;
	return STATELAB_OK;
}

static void engine_reader_close(statelab_reader *r) {
	free(r->page);
	free(r);
}

static int32_t read_value(statelab_reader *r, const entry *e, uint8_t *value, statelab_error *error) {
	uint64_t page_bytes = (uint64_t)r->db->page_bytes;
	for (uint64_t done = 0; done < e->value_bytes;) {
		uint64_t at = e->offset + done, start = at % page_bytes, n = page_bytes - start;
		if (n > e->value_bytes - done) n = e->value_bytes - done;
		int32_t code = read_page(r, at / page_bytes, start, n, value + done, error);
		if (code != STATELAB_OK) return code;
		done += n;
	}
	if (hash(value, e->value_bytes) == e->checksum) return STATELAB_OK;
	return fail(error, "the value at offset %llu of the log is damaged", (unsigned long long)e->offset);
}

static int32_t engine_get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *value_bytes,
		statelab_error *error) {
	int32_t code = STATELAB_MISSING;
	pthread_rwlock_rdlock(&r->db->index);
	const entry *e = find(r->db, key, key_bytes);
	if (e->key && e->value_bytes != REMOVED) {
		*value_bytes = e->value_bytes;
		code = e->value_bytes > capacity ? STATELAB_TOO_SMALL : read_value(r, e, value, error);
	}
	pthread_rwlock_unlock(&r->db->index);
	return code;
}

/* Writing. */

static int32_t engine_writer_open(statelab_db *db, statelab_writer **opened, statelab_error *error) {
	if (db->read_only) return fail(error, "the database is open for reading only");
	statelab_writer *w = calloc(1, sizeof *w);
	if (!w) return fail(error, "no memory for a writer");
	w->db = db;
	w->used = sizeof(batch_header);
	*opened = w;
	return STATELAB_OK;
}

static void engine_writer_close(statelab_writer *w) {
	free(w->bytes);
	free(w);
}

static int32_t add(statelab_writer *w, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes, bool removed,
		statelab_error *error) {
	if (key_bytes > LARGEST_RECORD || value_bytes > LARGEST_RECORD)
		return fail(error, "a key of %zu and a value of %zu bytes are too large", key_bytes, value_bytes);
	record_header r = {(uint32_t)key_bytes, removed ? REMOVED : (uint32_t)value_bytes};
	size_t needed = w->used + sizeof r + key_bytes + value_bytes;
	if (needed > MOST_BATCH_BYTES) return fail(error, "a batch of %zu bytes is too large", needed);
	if (needed > w->capacity) {
		uint8_t *larger = realloc(w->bytes, needed * 2);
		if (!larger) return fail(error, "no memory for a batch");
		w->bytes = larger;
		w->capacity = needed * 2;
	}
	memcpy(w->bytes + w->used, &r, sizeof r);
	if (key_bytes) memcpy(w->bytes + w->used + sizeof r, key, key_bytes);
	if (value_bytes) memcpy(w->bytes + w->used + sizeof r + key_bytes, value, value_bytes);
	w->used = needed;
	w->user_bytes += (int64_t)(key_bytes + value_bytes);
	return STATELAB_OK;
}

static int32_t engine_put(statelab_writer *w, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes,
		statelab_error *error) {
	return add(w, key, key_bytes, value, value_bytes, false, error);
}

static int32_t engine_remove(statelab_writer *w, const uint8_t *key, size_t key_bytes, statelab_error *error) {
	return add(w, key, key_bytes, NULL, 0, true, error);
}

/* append writes the batch behind the last one, or cuts off what it wrote of it. */
static int32_t append(statelab_db *db, const statelab_writer *w, statelab_error *error) {
	if (db->broken) return fail(error, "an earlier commit to %s failed: open the database again", db->directory);
	if (write_all(db->log, w->bytes, w->used, db->end) == STATELAB_OK) return STATELAB_OK;
	int32_t code = fail_errno(error, "append to the log in", db->directory);
	db->broken = ftruncate(db->log, (off_t)db->end) != 0;
	return code;
}

static int32_t engine_commit(statelab_writer *w, statelab_error *error) {
	statelab_db *db = w->db;
	batch_header h = {.bytes = w->used - sizeof h};
	if (h.bytes == 0) return STATELAB_OK;
	memcpy(w->bytes, &h, sizeof h);
	h.checksum = batch_checksum(w->bytes, w->used);
	memcpy(w->bytes, &h.checksum, sizeof h.checksum);

	pthread_mutex_lock(&db->writing);
	int32_t code = append(db, w, error);
	if (code == STATELAB_OK) {
		pthread_rwlock_wrlock(&db->index);
		/* A Get may have read the last page while it was half written. */
		forget(db, db->end / (uint64_t)db->page_bytes);
		code = remember_batch(db, w->bytes + sizeof h, h.bytes, db->end + sizeof h, error);
		db->end += w->used;
		pthread_rwlock_unlock(&db->index);
		atomic_fetch_add(&db->user_write_bytes, w->user_bytes);
		atomic_fetch_add(&db->wal_bytes, (int64_t)w->used);
		w->used = sizeof h;
		w->user_bytes = 0;
	}
	pthread_mutex_unlock(&db->writing);
	return code;
}

/* Nothing is left to do behind a commit. */
static int32_t engine_settle(statelab_db *db, int64_t wait_ms, statelab_settling *left, statelab_error *error) {
	(void)db, (void)wait_ms, (void)left, (void)error;
	return STATELAB_OK;
}

/* What the engine tells of itself. */

static size_t engine_stats(statelab_db *db, statelab_stat *into, size_t capacity) {
	pthread_mutex_lock(&db->cache);
	int64_t hits = db->hits, reads = db->reads, read_bytes = reads * db->page_bytes;
	pthread_mutex_unlock(&db->cache);
	const statelab_stat all[] = {
	    {"reads.data", reads},
	    {"read_bytes.data", read_bytes},
	    {"accesses.data", hits + reads},
	    {"cache_hits", hits},
	    {"cache_misses", reads},
	    {"user_write_bytes", atomic_load(&db->user_write_bytes)},
	    {"wal_bytes", atomic_load(&db->wal_bytes)},
	    /* Reads are whole pages: O_DIRECT rounds nothing. Told last, only if direct. */
	    {"direct_bytes", read_bytes},
	};
	size_t n = sizeof all / sizeof *all - (db->direct ? 0 : 1);
	if (n <= capacity) memcpy(into, all, n * sizeof *all);
	return n;
}

static size_t engine_memory(statelab_db *db, statelab_memory *into, size_t capacity) {
	pthread_rwlock_rdlock(&db->index);
	int64_t index = (int64_t)(db->slots * sizeof(entry)) + db->key_bytes;
	pthread_rwlock_unlock(&db->index);
	const statelab_memory all[] = {
	    {"block cache", "limit", db->cache_bytes},
	    {"filters and indexes outside the cache", "measured", index},
	};
	size_t n = sizeof all / sizeof *all;
	if (n <= capacity) memcpy(into, all, sizeof all);
	return n;
}

static size_t engine_effective(statelab_db *db, statelab_setting *into, size_t capacity) {
	const statelab_setting all[] = {
	    {"cache_bytes", db->cache_text},
	    {"handles", db->handles_text},
	    {"page_bytes", db->page_text},
	    {"direct", db->direct ? "true" : "false"},
	};
	size_t n = sizeof all / sizeof *all;
	if (n <= capacity) memcpy(into, all, sizeof all);
	return n;
}

static int32_t engine_shape(statelab_db *db, statelab_shape *shape, statelab_error *error) {
	(void)error;
	pthread_rwlock_rdlock(&db->index);
	*shape = (statelab_shape){.bytes = (int64_t)db->end, .files = 1};
	pthread_rwlock_unlock(&db->index);
	return STATELAB_OK;
}

static const statelab_engine functions = {
	.abi = STATELAB_ENGINE_ABI,
	.struct_bytes = sizeof(statelab_engine),
	.name = "hashlog",
	.version = "1",
	.licence = "Apache-2.0",
	.durability = "a kill: every commit; a power cut: what a sync returned for",
	.capabilities = "block_reads block_accesses direct",
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
