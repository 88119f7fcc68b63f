/* cache.h: the block cache, least recently used first out, and the counters of
 * what it was asked for. Its locks are held for a copy, never for a read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CACHE_H
#define CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum block_type { DATA_BLOCK, INDEX_BLOCK, BLOCK_TYPES };

typedef struct cache cache;

typedef struct {
	int64_t hits[BLOCK_TYPES], misses[BLOCK_TYPES];
	int64_t reads[BLOCK_TYPES], read_bytes[BLOCK_TYPES];
	int64_t used_bytes;
} cache_counters;

/* cache_new returns NULL without memory. 0 bytes: a cache that admits nothing. */
cache *cache_new(int64_t bytes);
void cache_free(cache *c);

/* cache_get copies the block at offset and counts a hit, or counts a miss. */
bool cache_get(cache *c, enum block_type type, uint64_t offset, uint8_t *into, size_t bytes);
/* cache_put takes a copy of a block that was read after a miss, and counts the
 * read. It drops the copy where there is no memory. */
void cache_put(cache *c, enum block_type type, uint64_t offset, const uint8_t *block, size_t bytes);
/* cache_clear forgets all blocks, as those of another table. */
void cache_clear(cache *c);
void cache_count(cache *c, cache_counters *sum);

#endif
