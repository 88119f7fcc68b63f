/* record.h: key-value pairs as bytes, in the log and in blocks alike, and the
 * checksum over them. Numbers are in the byte order of the machine.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
	const uint8_t *key, *value;
	uint32_t key_bytes, value_bytes;
	bool removed; /* no value: the key is gone */
} record;

/* RECORD_MAX bounds a key plus its value. */
#define RECORD_MAX ((size_t)64 << 20)

/* record_bytes is how many bytes record_write writes. */
size_t record_bytes(const record *r);
uint8_t *record_write(uint8_t *to, const record *r);
/* record_read returns what is behind the record at from, or NULL where no whole
 * record lies before end. r points into the bytes. */
const uint8_t *record_read(const uint8_t *from, const uint8_t *end, record *r);

/* compare_keys orders as memcmp, a prefix first. */
int compare_keys(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes);

/* checksum finds torn writes and flipped bits; it is no defence against malice. */
uint64_t checksum(const uint8_t *bytes, size_t n);

#endif
