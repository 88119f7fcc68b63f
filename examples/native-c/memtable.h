/* memtable.h: what was written since the last merge, by key.
 * Not safe for concurrent use: the engine's lock guards it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMTABLE_H
#define MEMTABLE_H

#include <stdbool.h>

#include "record.h"

typedef struct memtable memtable;

memtable *memtable_new(void); /* NULL without memory */
void memtable_free(memtable *m);
void memtable_clear(memtable *m);

/* memtable_put copies the record over an earlier one of its key; false without
 * memory. */
bool memtable_put(memtable *m, const record *r);
/* memtable_find gives the record of key, valid until the next put or clear. */
bool memtable_find(const memtable *m, const uint8_t *key, size_t key_bytes, record *r);

size_t memtable_count(const memtable *m);
size_t memtable_bytes(const memtable *m); /* of memory */

/* memtable_sorted returns memtable_count records in key order, for the caller to
 * free; NULL without memory. */
record *memtable_sorted(const memtable *m);

#endif
