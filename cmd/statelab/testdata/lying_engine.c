/* lying_engine.c: the example engine, but for one Get of a process: the one that
 * STATELAB_LIE names ("KIND:N": the first that can, from the Nth on) answers wrongly.
 * Every other answer is right. The file STATELAB_LIE_TOLD appears with the lie.
 *
 * flip     one bit of the value is wrong
 * shorter  the last byte is missing
 * other    the value of the key asked for before
 * missing  the key is said to be absent
 * invent   a key that is absent is said to be there
 * stale    the value that an acknowledged commit replaced
 * SPDX-License-Identifier: Apache-2.0 */
#define statelab_engine_v1 sound_engine_v1
#include "../../../examples/native-c/engine.c"
#undef statelab_engine_v1

enum { KEY = 64, VALUE = 512, SLOTS = 1 << 14 };

/* replaced is a key with the value that it had before a commit. */
typedef struct {
	uint8_t key[KEY], value[VALUE];
	size_t key_bytes, value_bytes;
	int64_t commit;
} replaced;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static replaced old[SLOTS];
static int64_t gets, commits;
static uint8_t last[VALUE];
static size_t last_bytes;
static bool lied;

static replaced *slot_of(const uint8_t *key, size_t key_bytes) {
	uint64_t sum = 0xcbf29ce484222325;
	for (size_t i = 0; i < key_bytes; i++) sum = (sum ^ key[i]) * 0x100000001b3;
	return &old[(sum ^ sum >> 32) % SLOTS];
}

static bool is(const char *kind, int64_t *at) {
	const char *lie = getenv("STATELAB_LIE");
	size_t n = strlen(kind);
	if (!lie || strncmp(lie, kind, n) != 0 || lie[n] != ':') return false;
	*at = atoll(lie + n + 1);
	return true;
}

/* lie_to changes a right answer, if it can be wrong in the way that is asked for. */
static bool lie_to(const uint8_t *key, size_t key_bytes, int32_t *code, uint8_t *value, size_t capacity, size_t *bytes) {
	int64_t at;
	bool found = *code == STATELAB_OK && *bytes > 0;
	if (is("flip", &at) && found && gets >= at) {
		value[(size_t)at % *bytes] ^= (uint8_t)(1 << at % 8);
	} else if (is("shorter", &at) && found && gets >= at) {
		--*bytes;
	} else if (is("other", &at) && found && gets >= at && last_bytes && last_bytes <= capacity &&
	           (last_bytes != *bytes || memcmp(last, value, last_bytes) != 0)) {
		memcpy(value, last, last_bytes);
		*bytes = last_bytes;
	} else if (is("missing", &at) && found && gets >= at) {
		*code = STATELAB_MISSING;
	} else if (is("invent", &at) && *code == STATELAB_MISSING && gets >= at && last_bytes && last_bytes <= capacity) {
		memcpy(value, last, last_bytes);
		*bytes = last_bytes;
		*code = STATELAB_OK;
	} else if (is("stale", &at) && found && gets >= at) {
		/* Not of the newest commit: nobody knows of that yet. */
		const replaced *r = slot_of(key, key_bytes);
		if (!r->key_bytes || r->key_bytes != key_bytes || memcmp(r->key, key, key_bytes) != 0 || r->commit >= commits || r->value_bytes > capacity)
			return false;
		memcpy(value, r->value, r->value_bytes);
		*bytes = r->value_bytes;
	} else {
		return false;
	}
	return true;
}

static int32_t lying_get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *bytes,
                         statelab_error *error) {
	int32_t code = engine_get(r, key, key_bytes, value, capacity, bytes, error);
	pthread_mutex_lock(&lock);
	if (!lied && (lied = lie_to(key, key_bytes, &code, value, capacity, bytes))) {
		FILE *told = fopen(getenv("STATELAB_LIE_TOLD"), "w");
		if (told) fclose(told);
	}
	gets++;
	if (code == STATELAB_OK && *bytes <= sizeof last) {
		memcpy(last, value, *bytes);
		last_bytes = *bytes;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static int32_t lying_put(statelab_writer *w, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes, statelab_error *error) {
	int64_t at;
	if (is("stale", &at) && key_bytes <= KEY) {
		statelab_reader *r;
		int32_t code = engine_reader_open(w->db, &r, error);
		if (code != STATELAB_OK) return code;
		replaced now = {.key_bytes = key_bytes};
		memcpy(now.key, key, key_bytes);
		if (engine_get(r, key, key_bytes, now.value, sizeof now.value, &now.value_bytes, error) == STATELAB_OK &&
		    (now.value_bytes != value_bytes || memcmp(now.value, value, value_bytes) != 0)) {
			pthread_mutex_lock(&lock);
			now.commit = commits + 1;
			*slot_of(key, key_bytes) = now;
			pthread_mutex_unlock(&lock);
		}
		engine_reader_close(r);
	}
	return engine_put(w, key, key_bytes, value, value_bytes, error);
}

static int32_t lying_commit(statelab_writer *w, statelab_error *error) {
	int32_t code = engine_commit(w, error);
	pthread_mutex_lock(&lock);
	commits++;
	pthread_mutex_unlock(&lock);
	return code;
}

const statelab_engine *statelab_engine_v1(void) {
	static statelab_engine e;
	e = functions;
	e.name = "liar";
	e.get = lying_get;
	e.put = lying_put;
	e.commit = lying_commit;
	return &e;
}
