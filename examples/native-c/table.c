/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A block begins with this; its records follow, then zeros. */
typedef struct {
	uint64_t checksum; /* of what follows this field, up to the last record */
	uint32_t used;     /* bytes, with this head */
	uint32_t unused;
} block_head;

/* Where a block is: the value of the pair that an index keeps of it. */
typedef struct {
	uint64_t offset, bytes;
} place;

typedef struct {
	char magic[16];
	place top;
	uint64_t top_count;
	uint64_t checksum; /* of all before it */
} footer;

#define MAGIC "sortedtable v1\n"

struct table {
	int file;
	char *path;
	uint64_t bytes;
	page_buffer top;
	record *tops; /* of the top index, for a binary search */
	size_t top_count;
};

static size_t whole_pages(size_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static bool page_buffer_grow(page_buffer *b, size_t bytes) {
	if (bytes <= b->capacity) return true;
	void *larger;
	if (posix_memalign(&larger, PAGE_BYTES, bytes) != 0) return false;
	free(b->bytes);
	b->bytes = larger;
	b->capacity = bytes;
	return true;
}

void page_buffer_free(page_buffer *b) {
	free(b->bytes);
	memset(b, 0, sizeof *b);
}

/* read_pages reads whole pages of the file. */
static int32_t read_pages(const table *t, place at, uint8_t *into, statelab_error *error) {
	for (size_t done = 0; done < at.bytes;) {
		ssize_t n = pread(t->file, into + done, at.bytes - done, (off_t)(at.offset + done));
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return fail_errno(error, "read %s at %llu", t->path, (unsigned long long)at.offset);
		if (n == 0) return fail(error, "read %s at %llu: the file ends early", t->path, (unsigned long long)at.offset);
		done += (size_t)n;
	}
	return STATELAB_OK;
}

/* read_block reads and checks a block and says where its records are. */
static int32_t read_block(const table *t, place at, page_buffer *b, statelab_error *error) {
	block_head head;
	if (at.bytes == 0 || at.bytes % PAGE_BYTES != 0 || at.offset % PAGE_BYTES != 0 || at.bytes > t->bytes || at.offset > t->bytes - at.bytes)
		return fail(error, "%s: a block of %llu bytes at %llu cannot be: the index is damaged", t->path, (unsigned long long)at.bytes,
		            (unsigned long long)at.offset);
	if (!page_buffer_grow(b, at.bytes)) return fail(error, "no memory for a block of %llu bytes", (unsigned long long)at.bytes);
	int32_t code = read_pages(t, at, b->bytes, error);
	if (code != STATELAB_OK) return code;
	memcpy(&head, b->bytes, sizeof head);
	if (head.used < sizeof head || head.used > at.bytes ||
	    head.checksum != checksum(b->bytes + sizeof head.checksum, head.used - sizeof head.checksum))
		return fail(error, "%s: the block at %llu is damaged: its checksum is wrong", t->path, (unsigned long long)at.offset);
	return STATELAB_OK;
}

static const uint8_t *records_of(const uint8_t *block, const uint8_t **end) {
	block_head head;
	memcpy(&head, block, sizeof head);
	*end = block + head.used;
	return block + sizeof head;
}

static place place_of(const record *r) {
	place at = {0, 0};
	if (r->value_bytes == sizeof at) memcpy(&at, r->value, sizeof at);
	return at; /* 0 bytes of another size: read_block refuses it */
}

static int32_t read_top(table *t, statelab_error *error) {
	page_buffer last = {0};
	footer f;
	place at = {t->bytes - PAGE_BYTES, PAGE_BYTES};
	if (t->bytes < PAGE_BYTES || t->bytes % PAGE_BYTES != 0) return fail(error, "%s has %llu bytes: it is cut off", t->path, (unsigned long long)t->bytes);
	if (!page_buffer_grow(&last, PAGE_BYTES)) return fail(error, "no memory to open %s", t->path);
	int32_t code = read_pages(t, at, last.bytes, error);
	if (code == STATELAB_OK) memcpy(&f, last.bytes, sizeof f);
	page_buffer_free(&last);
	if (code != STATELAB_OK) return code;
	if (memcmp(f.magic, MAGIC, sizeof f.magic) != 0 || f.checksum != checksum((uint8_t *)&f, offsetof(footer, checksum)))
		return fail(error, "%s: its footer is damaged", t->path);
	if (f.top_count == 0) return STATELAB_OK; /* an empty table */
	code = read_block(t, f.top, &t->top, error);
	if (code != STATELAB_OK) return code;
	/* A record has at least 8 bytes, which bounds the count before it is believed. */
	if (f.top_count > f.top.bytes / 8 || !(t->tops = malloc(f.top_count * sizeof *t->tops))) return fail(error, "no memory for the top index of %s", t->path);
	const uint8_t *end, *next = records_of(t->top.bytes, &end);
	for (; t->top_count < f.top_count; t->top_count++) {
		if (!(next = record_read(next, end, &t->tops[t->top_count]))) return fail(error, "%s: its top index is cut off", t->path);
	}
	return STATELAB_OK;
}

table *table_open(const char *path, bool direct, statelab_error *error) {
	struct stat info;
	table *t = calloc(1, sizeof *t);
	if (!t || !(t->path = strdup(path))) {
		free(t);
		fail(error, "no memory to open %s", path);
		return NULL;
	}
	t->file = open(path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
	if (t->file < 0 || fstat(t->file, &info) != 0) {
		fail_errno(error, direct && errno == EINVAL ? "open %s: this filesystem has no O_DIRECT" : "open %s", path);
		table_close(t);
		return NULL;
	}
	t->bytes = (uint64_t)info.st_size;
	if (read_top(t, error) != STATELAB_OK) {
		table_close(t);
		return NULL;
	}
	return t;
}

void table_close(table *t) {
	if (!t) return;
	if (t->file >= 0) close(t->file);
	page_buffer_free(&t->top);
	free(t->tops);
	free(t->path);
	free(t);
}

int64_t table_file_bytes(const table *t) { return (int64_t)t->bytes; }

int64_t table_memory_bytes(const table *t) { return (int64_t)(t->top.capacity + t->top_count * sizeof *t->tops); }

/* get_block takes a block from the cache, or reads it into the cache. */
static int32_t get_block(table *t, cache *c, enum block_type type, place at, page_buffer *b, statelab_error *error) {
	if (!page_buffer_grow(b, at.bytes)) return fail(error, "no memory for a block of %llu bytes", (unsigned long long)at.bytes);
	if (cache_get(c, type, at.offset, b->bytes, at.bytes)) return STATELAB_OK;
	int32_t code = read_block(t, at, b, error);
	if (code == STATELAB_OK) cache_put(c, type, at.offset, b->bytes, at.bytes);
	return code;
}

/* seek finds the first record of a block that is not before key. */
static bool seek(const uint8_t *block, const uint8_t *key, size_t key_bytes, record *r) {
	const uint8_t *end, *next = records_of(block, &end);
	while ((next = record_read(next, end, r))) {
		if (compare_keys(r->key, r->key_bytes, key, key_bytes) >= 0) return true;
	}
	return false;
}

int32_t table_find(table *t, cache *c, page_buffer *b, const uint8_t *key, size_t key_bytes, record *r, statelab_error *error) {
	size_t low = 0, high = t->top_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare_keys(t->tops[middle].key, t->tops[middle].key_bytes, key, key_bytes) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == t->top_count) return STATELAB_MISSING; /* behind the last key */
	int32_t code = get_block(t, c, INDEX_BLOCK, place_of(&t->tops[low]), b, error);
	if (code != STATELAB_OK) return code;
	if (!seek(b->bytes, key, key_bytes, r)) return fail(error, "%s: an index block ends before the key the top index promises", t->path);
	code = get_block(t, c, DATA_BLOCK, place_of(r), b, error);
	if (code != STATELAB_OK) return code;
	if (!seek(b->bytes, key, key_bytes, r) || compare_keys(r->key, r->key_bytes, key, key_bytes) != 0) return STATELAB_MISSING;
	return STATELAB_OK;
}

/* scan_block reads the next block of a scan and counts it. */
static int32_t scan_block(table_scan *s, place at, page_buffer *b, statelab_error *error) {
	s->reads++;
	s->read_bytes += (int64_t)at.bytes;
	return read_block(s->table, at, b, error);
}

int32_t table_scan_next(table_scan *s, record *r, statelab_error *error) {
	record where;
	for (;;) {
		if (s->data_at && (s->data_at = record_read(s->data_at, s->data_end, r))) return STATELAB_OK;
		if (s->index_at && (s->index_at = record_read(s->index_at, s->index_end, &where))) {
			int32_t code = scan_block(s, place_of(&where), &s->data, error);
			if (code != STATELAB_OK) return code;
			s->data_at = records_of(s->data.bytes, &s->data_end);
			continue;
		}
		if (!s->table || s->next_top == s->table->top_count) return STATELAB_MISSING;
		int32_t code = scan_block(s, place_of(&s->table->tops[s->next_top++]), &s->index, error);
		if (code != STATELAB_OK) return code;
		s->index_at = records_of(s->index.bytes, &s->index_end);
	}
}

void table_scan_free(table_scan *s) {
	page_buffer_free(&s->index);
	page_buffer_free(&s->data);
}

/* A builder collects the records of a block, behind room for its head, and knows
 * the last key. */
typedef struct {
	uint8_t *bytes;
	size_t used, capacity;
	const uint8_t *last_key;
	uint32_t last_key_bytes;
	uint64_t count;
} builder;

enum { DATA, INDEX, TOP, BUILDERS };

struct table_writer {
	int file;
	char *path;
	uint64_t offset;
	builder building[BUILDERS];
};

static bool builder_add(builder *b, const record *r) {
	size_t from = b->used ? b->used : sizeof(block_head), needed = from + record_bytes(r);
	if (needed > b->capacity) {
		size_t capacity = whole_pages(needed + needed / 2);
		uint8_t *larger = realloc(b->bytes, capacity);
		if (!larger) return false;
		b->bytes = larger;
		b->capacity = capacity;
	}
	record_write(b->bytes + from, r);
	b->last_key = b->bytes + needed - r->value_bytes - r->key_bytes;
	b->last_key_bytes = r->key_bytes;
	b->used = needed;
	b->count++;
	return true;
}

static int32_t write_all(table_writer *w, const void *bytes, size_t n, statelab_error *error) {
	for (const uint8_t *next = bytes; n > 0;) {
		ssize_t wrote = write(w->file, next, n);
		if (wrote < 0 && errno == EINTR) continue;
		if (wrote < 0) return fail_errno(error, "write %s", w->path);
		next += wrote;
		n -= (size_t)wrote;
		w->offset += (uint64_t)wrote;
	}
	return STATELAB_OK;
}

/* flush writes a block and empties its builder; at says where the block is. */
static int32_t flush(table_writer *w, builder *b, place *at, statelab_error *error) {
	block_head head = {0, (uint32_t)b->used, 0};
	size_t bytes = whole_pages(b->used);
	at->offset = w->offset;
	at->bytes = bytes;
	memset(b->bytes + b->used, 0, bytes - b->used);
	memcpy(b->bytes, &head, sizeof head);
	head.checksum = checksum(b->bytes + sizeof head.checksum, b->used - sizeof head.checksum);
	memcpy(b->bytes, &head, sizeof head);
	b->used = 0;
	return write_all(w, b->bytes, bytes, error);
}

/* add puts a record into a kind of block; one that is full is written first, and
 * noted one kind higher. */
static int32_t add(table_writer *w, int kind, const record *r, statelab_error *error) {
	builder *b = &w->building[kind];
	if (kind < TOP && b->used && b->used + record_bytes(r) > PAGE_BYTES) {
		place at;
		int32_t code = flush(w, b, &at, error);
		record note = {.key = b->last_key, .key_bytes = b->last_key_bytes, .value = (uint8_t *)&at, .value_bytes = sizeof at};
		if (code == STATELAB_OK) code = add(w, kind + 1, &note, error);
		if (code != STATELAB_OK) return code;
	}
	if (!builder_add(b, r)) return fail(error, "no memory for a block of %s", w->path);
	return STATELAB_OK;
}

table_writer *table_writer_new(const char *path, statelab_error *error) {
	table_writer *w = calloc(1, sizeof *w);
	if (!w || !(w->path = strdup(path))) {
		free(w);
		fail(error, "no memory to write %s", path);
		return NULL;
	}
	w->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (w->file < 0) {
		fail_errno(error, "create %s", path);
		table_writer_abandon(w);
		return NULL;
	}
	return w;
}

int32_t table_writer_add(table_writer *w, const record *r, statelab_error *error) { return add(w, DATA, r, error); }

/* finish writes what the builders still hold, lowest kind first, and the footer. */
static int32_t finish(table_writer *w, statelab_error *error) {
	uint8_t page[PAGE_BYTES] = {0};
	footer f = {.magic = MAGIC, .top_count = 0};
	for (int kind = DATA; kind < BUILDERS; kind++) {
		builder *b = &w->building[kind];
		place at;
		if (!b->used) break;
		int32_t code = flush(w, b, &at, error);
		if (code != STATELAB_OK) return code;
		if (kind == TOP) {
			f.top = at;
			f.top_count = b->count;
			break;
		}
		record note = {.key = b->last_key, .key_bytes = b->last_key_bytes, .value = (uint8_t *)&at, .value_bytes = sizeof at};
		if ((code = add(w, kind + 1, &note, error)) != STATELAB_OK) return code;
	}
	f.checksum = checksum((uint8_t *)&f, offsetof(footer, checksum));
	memcpy(page, &f, sizeof f);
	int32_t code = write_all(w, page, sizeof page, error);
	if (code == STATELAB_OK && fsync(w->file) != 0) code = fail_errno(error, "sync %s", w->path);
	return code;
}

int32_t table_writer_finish(table_writer *w, int64_t *file_bytes, statelab_error *error) {
	int32_t code = finish(w, error);
	*file_bytes = (int64_t)w->offset;
	table_writer_abandon(w);
	return code;
}

void table_writer_abandon(table_writer *w) {
	if (w->file >= 0) close(w->file);
	for (int kind = DATA; kind < BUILDERS; kind++) free(w->building[kind].bytes);
	free(w->path);
	free(w);
}
