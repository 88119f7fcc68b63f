/* SPDX-License-Identifier: Apache-2.0 */
#include "memtable.h"

#include <stdlib.h>
#include <string.h>

typedef struct node {
	struct node *chained;
	record pair; /* points into bytes */
	uint8_t bytes[];
} node;

struct memtable {
	node **buckets;
	size_t bucket_count; /* a power of two */
	size_t count, bytes;
};

#define FIRST_BUCKETS 1024
#define ALLOCATION_BYTES 16 /* what malloc adds */

memtable *memtable_new(void) {
	memtable *m = calloc(1, sizeof *m);
	if (!m) return NULL;
	m->bucket_count = FIRST_BUCKETS;
	m->buckets = calloc(m->bucket_count, sizeof *m->buckets);
	if (!m->buckets) {
		free(m);
		return NULL;
	}
	return m;
}

void memtable_free(memtable *m) {
	memtable_clear(m);
	free(m->buckets);
	free(m);
}

void memtable_clear(memtable *m) {
	for (size_t i = 0; i < m->bucket_count; i++) {
		while (m->buckets[i]) {
			node *n = m->buckets[i];
			m->buckets[i] = n->chained;
			free(n);
		}
	}
	m->count = m->bytes = 0;
}

static node **link_of(const memtable *m, const uint8_t *key, size_t key_bytes) {
	node **link = &m->buckets[checksum(key, key_bytes) & (m->bucket_count - 1)];
	while (*link && compare_keys((*link)->pair.key, (*link)->pair.key_bytes, key, key_bytes) != 0) link = &(*link)->chained;
	return link;
}

static size_t node_bytes(const record *r) { return sizeof(node) + ALLOCATION_BYTES + r->key_bytes + r->value_bytes; }

/* grow doubles the buckets; without memory the chains get longer instead. */
static void grow(memtable *m) {
	memtable wider = *m;
	wider.bucket_count *= 2;
	wider.buckets = calloc(wider.bucket_count, sizeof *wider.buckets);
	if (!wider.buckets) return;
	for (size_t i = 0; i < m->bucket_count; i++) {
		while (m->buckets[i]) {
			node *n = m->buckets[i];
			m->buckets[i] = n->chained;
			node **link = link_of(&wider, n->pair.key, n->pair.key_bytes);
			n->chained = NULL;
			*link = n;
		}
	}
	free(m->buckets);
	*m = wider;
}

bool memtable_put(memtable *m, const record *r) {
	node *n = malloc(sizeof *n + r->key_bytes + r->value_bytes);
	if (!n) return false;
	n->pair = *r;
	if (r->key_bytes) memcpy(n->bytes, r->key, r->key_bytes);
	if (r->value_bytes) memcpy(n->bytes + r->key_bytes, r->value, r->value_bytes);
	n->pair.key = n->bytes;
	n->pair.value = n->bytes + r->key_bytes;
	if (m->count >= m->bucket_count) grow(m);
	node **link = link_of(m, r->key, r->key_bytes), *old = *link;
	n->chained = old ? old->chained : NULL;
	*link = n;
	m->bytes += node_bytes(r);
	m->count++;
	if (old) {
		m->bytes -= node_bytes(&old->pair);
		m->count--;
		free(old);
	}
	return true;
}

bool memtable_find(const memtable *m, const uint8_t *key, size_t key_bytes, record *r) {
	if (m->count == 0) return false;
	node *n = *link_of(m, key, key_bytes);
	if (n) *r = n->pair;
	return n != NULL;
}

size_t memtable_count(const memtable *m) { return m->count; }

size_t memtable_bytes(const memtable *m) { return m->bytes + m->bucket_count * sizeof *m->buckets; }

static int by_key(const void *a, const void *b) {
	const record *x = a, *y = b;
	return compare_keys(x->key, x->key_bytes, y->key, y->key_bytes);
}

record *memtable_sorted(const memtable *m) {
	record *sorted = malloc((m->count + 1) * sizeof *sorted);
	size_t n = 0;
	if (!sorted) return NULL;
	for (size_t i = 0; i < m->bucket_count; i++) {
		for (node *each = m->buckets[i]; each; each = each->chained) sorted[n++] = each->pair;
	}
	qsort(sorted, n, sizeof *sorted, by_key);
	return sorted;
}
