/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Shards keep threads out of each other's way. */
#define SHARDS 16
#define BUCKETS 4096 /* of a shard */

/* A node lies in a chain of its bucket and in the list by last use. */
typedef struct node {
	struct node *chained, *newer, *older;
	uint64_t offset;
	size_t bytes;
	uint8_t block[];
} node;

typedef struct {
	pthread_mutex_t mutex;
	node *buckets[BUCKETS];
	node *newest, *oldest;
	size_t room; /* bytes it may hold */
	cache_counters counted;
} shard;

struct cache {
	shard shards[SHARDS];
};

cache *cache_new(int64_t bytes) {
	cache *c = calloc(1, sizeof *c);
	if (!c) return NULL;
	for (int i = 0; i < SHARDS; i++) {
		pthread_mutex_init(&c->shards[i].mutex, NULL);
		c->shards[i].room = (size_t)bytes / SHARDS;
	}
	return c;
}

void cache_free(cache *c) {
	cache_clear(c);
	for (int i = 0; i < SHARDS; i++) pthread_mutex_destroy(&c->shards[i].mutex);
	free(c);
}

/* Neighbouring blocks go to different shards and buckets. */
static uint64_t spread(uint64_t offset) { return (offset >> 12) * 0x9e3779b97f4a7c15u; }
static shard *shard_of(cache *c, uint64_t offset) { return &c->shards[spread(offset) >> 60]; }
static node **bucket_of(shard *s, uint64_t offset) { return &s->buckets[spread(offset) >> 32 & (BUCKETS - 1)]; }

static void unlist(shard *s, node *n) {
	*(n->newer ? &n->newer->older : &s->newest) = n->older;
	*(n->older ? &n->older->newer : &s->oldest) = n->newer;
}

static void list_newest(shard *s, node *n) {
	n->newer = NULL;
	n->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = n;
	s->newest = n;
}

static void drop(shard *s, node *n) {
	node **link = bucket_of(s, n->offset);
	while (*link != n) link = &(*link)->chained;
	*link = n->chained;
	unlist(s, n);
	s->counted.used_bytes -= (int64_t)n->bytes;
	free(n);
}

static node *find(shard *s, uint64_t offset) {
	node *n = *bucket_of(s, offset);
	while (n && n->offset != offset) n = n->chained;
	return n;
}

bool cache_get(cache *c, enum block_type type, uint64_t offset, uint8_t *into, size_t bytes) {
	shard *s = shard_of(c, offset);
	pthread_mutex_lock(&s->mutex);
	node *n = find(s, offset);
	if (n) {
		memcpy(into, n->block, bytes);
		unlist(s, n);
		list_newest(s, n);
		s->counted.hits[type]++;
	} else {
		s->counted.misses[type]++;
	}
	pthread_mutex_unlock(&s->mutex);
	return n != NULL;
}

void cache_put(cache *c, enum block_type type, uint64_t offset, const uint8_t *block, size_t bytes) {
	shard *s = shard_of(c, offset);
	pthread_mutex_lock(&s->mutex);
	s->counted.reads[type]++;
	s->counted.read_bytes[type] += (int64_t)bytes;
	/* Another thread may have missed and put the same block meanwhile. */
	if (bytes <= s->room && !find(s, offset)) {
		while ((size_t)s->counted.used_bytes + bytes > s->room) drop(s, s->oldest);
		node *n = malloc(sizeof *n + bytes);
		if (n) {
			node **bucket = bucket_of(s, offset);
			n->offset = offset;
			n->bytes = bytes;
			memcpy(n->block, block, bytes);
			n->chained = *bucket;
			*bucket = n;
			list_newest(s, n);
			s->counted.used_bytes += (int64_t)bytes;
		}
	}
	pthread_mutex_unlock(&s->mutex);
}

void cache_clear(cache *c) {
	for (int i = 0; i < SHARDS; i++) {
		shard *s = &c->shards[i];
		pthread_mutex_lock(&s->mutex);
		while (s->oldest) drop(s, s->oldest);
		pthread_mutex_unlock(&s->mutex);
	}
}

void cache_count(cache *c, cache_counters *sum) {
	memset(sum, 0, sizeof *sum);
	for (int i = 0; i < SHARDS; i++) {
		shard *s = &c->shards[i];
		pthread_mutex_lock(&s->mutex);
		for (int t = 0; t < BLOCK_TYPES; t++) {
			sum->hits[t] += s->counted.hits[t];
			sum->misses[t] += s->counted.misses[t];
			sum->reads[t] += s->counted.reads[t];
			sum->read_bytes[t] += s->counted.read_bytes[t];
		}
		sum->used_bytes += s->counted.used_bytes;
		pthread_mutex_unlock(&s->mutex);
	}
}
