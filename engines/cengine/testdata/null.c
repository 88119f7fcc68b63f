/* null.c: an engine that does nothing but copy 110 bytes, to learn what the route
 * costs. sync makes as many Gets as the setting loop says: the same loop as the
 * benchmark's, wholly in C.
 *
 * The environment variable NATIVE_LIE makes it break the contract in one way. */
#include <stdlib.h>
#include <string.h>

#include "statelab_engine.h"

#define VALUE_BYTES 110

struct statelab_db {
	int64_t loop, asked;
};
struct statelab_reader {
	uint8_t value[VALUE_BYTES];
};
struct statelab_writer {
	int unused;
};

static int lies(const char *how) {
	const char *lie = getenv("NATIVE_LIE");
	return lie && strcmp(lie, how) == 0;
}

static int32_t check(const statelab_options *o, statelab_error *error) {
	if (lies("silent failure")) return STATELAB_FAILED;
	if (lies("unknown code")) return 77;
	if (lies("endless sentence")) {
		memset(error->text, 'a', sizeof error->text);
		return STATELAB_FAILED;
	}
	for (size_t i = 0; i < o->settings_count; i++) {
		if (strcmp(o->settings[i].name, "loop") != 0) {
			strcpy(error->text, "the only option is loop");
			return STATELAB_FAILED;
		}
	}
	return STATELAB_OK;
}

static int32_t open_(const statelab_options *o, statelab_db **opened, statelab_error *error) {
	(void)error;
	if (lies("no database")) return STATELAB_OK;
	*opened = calloc(1, sizeof **opened);
	if (o->settings_count) (*opened)->loop = atoll(o->settings[0].value);
	return STATELAB_OK;
}

static int32_t close_(statelab_db *db, statelab_error *error) {
	(void)error;
	free(db);
	return STATELAB_OK;
}

static int32_t reader_open(statelab_db *db, statelab_reader **opened, statelab_error *error) {
	(void)db, (void)error;
	if (lies("no reader")) return STATELAB_OK;
	*opened = calloc(1, sizeof **opened);
	return STATELAB_OK;
}

static void reader_close(statelab_reader *r) { free(r); }

static int32_t get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *value_bytes,
                   statelab_error *error) {
	(void)key, (void)key_bytes, (void)error;
	*value_bytes = VALUE_BYTES;
	if (capacity < VALUE_BYTES) return STATELAB_TOO_SMALL;
	memcpy(value, r->value, VALUE_BYTES);
	return STATELAB_OK;
}

static int32_t lying_get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *value_bytes,
                         statelab_error *error) {
	(void)r, (void)key, (void)key_bytes, (void)value, (void)error;
	if (lies("value beyond the buffer")) return *value_bytes = capacity + 1, STATELAB_OK;
	if (lies("too small but fits")) return *value_bytes = capacity, STATELAB_TOO_SMALL;
	if (lies("huge value")) return *value_bytes = (size_t)1 << 40, STATELAB_TOO_SMALL;
	if (lies("ever larger value")) return *value_bytes = capacity + 1, STATELAB_TOO_SMALL;
	return STATELAB_FAILED;
}

static int32_t writer_open(statelab_db *db, statelab_writer **opened, statelab_error *error) {
	(void)db, (void)error;
	*opened = calloc(1, sizeof **opened);
	return STATELAB_OK;
}

static void writer_close(statelab_writer *w) { free(w); }

static int32_t put(statelab_writer *w, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes, statelab_error *error) {
	(void)w, (void)key, (void)key_bytes, (void)value, (void)value_bytes, (void)error;
	return STATELAB_OK;
}

static int32_t remove_(statelab_writer *w, const uint8_t *key, size_t key_bytes, statelab_error *error) {
	(void)w, (void)key, (void)key_bytes, (void)error;
	return STATELAB_OK;
}

static int32_t commit(statelab_writer *w, statelab_error *error) {
	(void)w, (void)error;
	return STATELAB_OK;
}

static int32_t sync_(statelab_db *db, statelab_error *error) {
	statelab_reader r = {{0}};
	uint8_t key[32] = {0}, value[256];
	size_t value_bytes;
	/* Called through a pointer the compiler cannot see through, as statelab does. */
	int32_t (*volatile through)(statelab_reader *, const uint8_t *, size_t, uint8_t *, size_t, size_t *, statelab_error *) = get;
	for (int64_t i = 0; i < db->loop; i++) {
		memcpy(key, &i, sizeof i);
		if (through(&r, key, sizeof key, value, sizeof value, &value_bytes, error) != STATELAB_OK) return STATELAB_FAILED;
	}
	return STATELAB_OK;
}

static int32_t settle(statelab_db *db, int64_t wait_ms, statelab_settling *left, statelab_error *error) {
	(void)db, (void)wait_ms, (void)error;
	left->jobs = 1;
	return lies("never settled") ? STATELAB_WORKING : STATELAB_OK;
}

static size_t stats(statelab_db *db, statelab_stat *into, size_t capacity) {
	(void)capacity;
	size_t n = 0;
	db->asked++;
	into[n++] = (statelab_stat){"cache_misses", lies("negative counter") ? -3 : db->asked};
	into[n++] = (statelab_stat){"cache_hits", lies("falling counter") ? 100 - db->asked : db->asked};
	if (lies("unknown counter")) into[n++] = (statelab_stat){"reads.dta", 1};
	if (lies("lonely counter")) into[n++] = (statelab_stat){"reads.data", 1};
	if (lies("counter told twice")) into[n++] = (statelab_stat){"cache_hits", 1};
	return n;
}

static size_t memory(statelab_db *db, statelab_memory *into, size_t capacity) {
	(void)db, (void)capacity;
	if (!lies("guessed memory")) return 0;
	into[0] = (statelab_memory){"block cache", "guess", 1};
	return 1;
}

static size_t effective(statelab_db *db, statelab_setting *into, size_t capacity) {
	(void)db, (void)capacity;
	into[0] = (statelab_setting){"handles", "0"};
	into[1] = (statelab_setting){"cache_bytes", "0"};
	return lies("no effective cache") ? 1 : 2;
}

static int32_t shape(statelab_db *db, statelab_shape *s, statelab_error *error) {
	(void)db, (void)error;
	s->bytes = lies("negative shape") ? -1 : 0;
	s->files = 0;
	return STATELAB_OK;
}

const statelab_engine *statelab_engine_v1(void) {
	static statelab_engine e;
	e = (statelab_engine){
	    .abi = lies("other version") ? 2 : STATELAB_ENGINE_ABI,
	    .struct_bytes = lies("other size") ? 16 : sizeof e,
	    .name = "null",
	    .version = "1",
	    .licence = "Apache-2.0",
	    .durability = "none",
	    .capabilities = lies("capability") ? "volatile ingest" : lies("no reads") ? "volatile block_reads" : "volatile",
	    .check = check,
	    .open = open_,
	    .close = close_,
	    .reader_open = reader_open,
	    .reader_close = reader_close,
	    .get = lies("no get") ? NULL : getenv("NATIVE_LIE") ? lying_get : get,
	    .writer_open = writer_open,
	    .writer_close = writer_close,
	    .put = put,
	    .remove = remove_,
	    .commit = commit,
	    .sync = sync_,
	    .settle = settle,
	    .stats = stats,
	    .memory = memory,
	    .effective = effective,
	    .shape = shape,
	};
	return lies("no table") ? NULL : &e;
}
