/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <string.h>

/* Before a pair: its sizes, the top bit of the first saying that the key is gone. */
#define HEAD_BYTES 8
#define REMOVED 0x80000000u

size_t record_bytes(const record *r) { return HEAD_BYTES + (size_t)r->key_bytes + r->value_bytes; }

uint8_t *record_write(uint8_t *to, const record *r) {
	uint32_t head[2] = {r->key_bytes | (r->removed ? REMOVED : 0), r->value_bytes};
	memcpy(to, head, HEAD_BYTES);
	to += HEAD_BYTES;
	if (r->key_bytes) memcpy(to, r->key, r->key_bytes);
	to += r->key_bytes;
	if (r->value_bytes) memcpy(to, r->value, r->value_bytes);
	return to + r->value_bytes;
}

const uint8_t *record_read(const uint8_t *from, const uint8_t *end, record *r) {
	uint32_t head[2];
	if ((size_t)(end - from) < HEAD_BYTES) return NULL;
	memcpy(head, from, HEAD_BYTES);
	from += HEAD_BYTES;
	r->removed = (head[0] & REMOVED) != 0;
	r->key_bytes = head[0] & ~REMOVED;
	r->value_bytes = head[1];
	if ((size_t)(end - from) < (size_t)r->key_bytes + r->value_bytes) return NULL;
	r->key = from;
	r->value = from + r->key_bytes;
	return r->value + r->value_bytes;
}

int compare_keys(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes) {
	size_t shared = a_bytes < b_bytes ? a_bytes : b_bytes;
	int order = shared ? memcmp(a, b, shared) : 0;
	if (order != 0) return order;
	return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

uint64_t checksum(const uint8_t *bytes, size_t n) {
	uint64_t sum = n * 0x9e3779b97f4a7c15u + 1, word;
	for (; n >= sizeof word; bytes += sizeof word, n -= sizeof word) {
		memcpy(&word, bytes, sizeof word);
		sum = (sum ^ word) * 0xff51afd7ed558ccdu;
		sum ^= sum >> 32;
	}
	for (; n > 0; bytes++, n--) {
		sum = (sum ^ *bytes) * 0xff51afd7ed558ccdu;
		sum ^= sum >> 32;
	}
	return sum;
}
