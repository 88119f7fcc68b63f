/* extra_read_engine.c: the example engine with a slower lookup. Each Get that finds its key reads one page
 * of the log more, past the cache: what a lost filter or a block too many on the way costs.
 * SPDX-License-Identifier: Apache-2.0 */
#define statelab_engine_v1 sound_engine_v1
#include "../../../examples/native-c/engine.c"
#undef statelab_engine_v1

static int32_t slower_get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *value_bytes,
		statelab_error *error) {
	int32_t code = engine_get(r, key, key_bytes, value, capacity, value_bytes, error);
	if (code != STATELAB_OK) return code;
	statelab_db *db = r->db;
	pthread_rwlock_rdlock(&db->index);
	uint64_t page = find(db, key, key_bytes)->offset / (uint64_t)db->page_bytes;
	pthread_rwlock_unlock(&db->index);
	ssize_t got = pread(db->file, r->page, (size_t)db->page_bytes, (off_t)(page * (uint64_t)db->page_bytes));
	if (got <= 0) return fail(error, "read page %llu of the log again: %s", (unsigned long long)page, strerror(errno));
	pthread_mutex_lock(&db->cache);
	db->reads++;
	pthread_mutex_unlock(&db->cache);
	return code;
}

const statelab_engine *statelab_engine_v1(void) {
	static statelab_engine e;
	e = functions;
	e.get = slower_get;
	return &e;
}
