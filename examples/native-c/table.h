/* table.h: an immutable file of pairs in key order.
 *
 *   data blocks    pairs, packed until 4 KiB are full
 *   index blocks   a pair per data block: its last key, where it is
 *   top index      a pair per index block, likewise; kept in memory
 *   footer         where the top index is
 *
 * Blocks begin and end at multiples of 4 KiB, so that they can be read with
 * O_DIRECT, and carry a checksum. A lookup reads an index block and a data block.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TABLE_H
#define TABLE_H

#include "cache.h"
#include "failure.h"
#include "record.h"

#define PAGE_BYTES 4096

typedef struct table table;

/* table_open returns NULL with a sentence where path holds no whole table. */
table *table_open(const char *path, bool direct, statelab_error *error);
void table_close(table *t);
int64_t table_file_bytes(const table *t);
int64_t table_memory_bytes(const table *t);

/* A page_buffer grows to the block it is to hold; aligned for O_DIRECT. One for
 * each reader. */
typedef struct {
	uint8_t *bytes;
	size_t capacity;
} page_buffer;
void page_buffer_free(page_buffer *b);

/* table_find gives the record of key; its bytes are in b. OK, MISSING or FAILED. */
int32_t table_find(table *t, cache *c, page_buffer *b, const uint8_t *key, size_t key_bytes, record *r, statelab_error *error);

/* A table_scan walks all pairs in order, past the cache. */
typedef struct {
	table *table;
	size_t next_top;
	page_buffer index, data;
	const uint8_t *index_at, *index_end, *data_at, *data_end;
	int64_t reads, read_bytes;
} table_scan;
/* table_scan_next: OK with a record that is valid until the next call, MISSING at
 * the end, or FAILED. */
int32_t table_scan_next(table_scan *s, record *r, statelab_error *error);
void table_scan_free(table_scan *s);

/* A table_writer makes a table of pairs that come in order. */
typedef struct table_writer table_writer;
table_writer *table_writer_new(const char *path, statelab_error *error);
int32_t table_writer_add(table_writer *w, const record *r, statelab_error *error);
/* table_writer_finish makes the file durable, tells its size and frees w, also on
 * failure; table_writer_abandon only frees it. */
int32_t table_writer_finish(table_writer *w, int64_t *file_bytes, statelab_error *error);
void table_writer_abandon(table_writer *w);

#endif
