/* map.c: a layout of state that keeps all of it in a sorted array, and every block in
 * a log that open plays back. Small, complete, and honest unless LIE says how not.
 *
 * settle makes as many lookups as the setting loop says: the benchmark's loop, wholly
 * in C. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "statelab_state.h"

enum {
	HONEST, NO_TABLE, OTHER_VERSION, OTHER_SIZE, NO_ACCOUNT, NO_PROFILE, ENDLESS_PROFILES, OTHER_RULE, SILENT_CHECK, UNKNOWN_CODE,
	NO_STATE, NOT_NEW, NEGATIVE_COUNTER, UNKNOWN_COUNTER, COUNTER_TWICE, GUESSED_MEMORY, NO_READER, NO_LENGTH, LONG_VALUE, NEGATIVE_VALUE,
	WORKING_LOOKUP, FAILING_LOOKUP, STANDING_BLOCK, OTHER_ROOT, ROOT_OF_NONE, FALLING_COUNTER, FALLING_TOUCHED, NEGATIVE_TOUCHED, NEVER_SETTLED
};
#ifndef LIE
#define LIE HONEST
#endif

/* A key is an account's name, then nothing or the key of a slot behind a 1. */
#define KEY_BYTES 65
#define VALUE_BYTES 72

typedef struct {
	uint8_t key[KEY_BYTES];
	int8_t value_bytes; /* -1: deleted */
	uint8_t value[VALUE_BYTES];
} entry;

typedef struct {
	entry *of;
	size_t count, room;
} entries;

/* What ends a block in the log: an entry without a key. */
typedef struct {
	uint64_t block, sum;
} mark;

struct statelab_state {
	pthread_rwlock_t lock; /* of what readers see */
	entries newest;
	uint64_t block;
	statelab_hash root;
	entries building;
	int log;
	int64_t loop, asked, writes, write_bytes;
};

struct statelab_state_reader {
	statelab_state *state;
	int64_t nodes;
};

static int32_t fail(statelab_error *error, const char *doing) {
	snprintf(error->text, sizeof error->text, "%s: %s", doing, strerror(errno));
	return STATELAB_FAILED;
}

static void key_of(uint8_t *key, const statelab_hash *name, const statelab_hash *slot) {
	memset(key, 0, KEY_BYTES);
	memcpy(key, name->bytes, 32);
	if (!slot) return;
	key[32] = 1;
	memcpy(key + 33, slot->bytes, 32);
}

static int push(entries *e, const entry *one) {
	if (e->count == e->room) {
		size_t room = e->room ? 2 * e->room : 64;
		entry *more = realloc(e->of, room * sizeof *more);
		if (!more) return 0;
		e->of = more, e->room = room;
	}
	e->of[e->count++] = *one;
	return 1;
}

/* first is where the first entry not below key stands. */
static size_t first(const entries *e, const uint8_t *key) {
	size_t low = 0, high = e->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (memcmp(e->of[middle].key, key, KEY_BYTES) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int by_key(const void *a, const void *b) { return memcmp(((const entry *)a)->key, ((const entry *)b)->key, KEY_BYTES); }

static uint64_t mixed(uint64_t sum, const void *bytes, size_t count) {
	for (size_t i = 0; i < count; i++) sum = (sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3; /* FNV-1a */
	return sum;
}

/* fold puts an entry into a root, or takes it out: the root is the exclusive or of all. */
static void fold(statelab_hash *root, const entry *e) {
	for (uint64_t part = 0; part < 4; part++) {
		uint64_t sum = mixed(0xcbf29ce484222325 + part, e, sizeof *e);
		for (int i = 0; i < 8; i++) root->bytes[8 * part + i] ^= (uint8_t)(sum >> 8 * i);
	}
}

/* merge makes the next block out of the newest one and the changes, whose keys differ. */
static int merge(const entries *old, entries *changes, entries *merged, statelab_hash *root) {
	size_t at = 0;
	if (changes->count) qsort(changes->of, changes->count, sizeof *changes->of, by_key);
	for (size_t i = 0; i < changes->count; i++) {
		const entry *c = &changes->of[i];
		for (; at < old->count && by_key(&old->of[at], c) < 0; at++)
			if (!push(merged, &old->of[at])) return 0;
		if (at < old->count && by_key(&old->of[at], c) == 0) fold(root, &old->of[at++]);
		if (c->value_bytes < 0) continue;
		fold(root, c);
		if (!push(merged, c)) return 0;
	}
	for (; at < old->count; at++)
		if (!push(merged, &old->of[at])) return 0;
	return 1;
}

/* advance shows readers the block that is being built. */
static int advance(statelab_state *s) {
	entries merged = {0};
	statelab_hash root = s->root;
	if (!merge(&s->newest, &s->building, &merged, &root)) {
		free(merged.of);
		return 0;
	}
	pthread_rwlock_wrlock(&s->lock);
	free(s->newest.of);
	s->newest = merged, s->root = root, s->block++;
	pthread_rwlock_unlock(&s->lock);
	s->building.count = 0;
	return 1;
}

static mark mark_of(const statelab_state *s) {
	mark m = {.block = s->block + 1};
	m.sum = mixed(m.block, s->building.of, s->building.count * sizeof(entry));
	return m;
}

static int is_mark(const entry *e) {
	static const uint8_t none[KEY_BYTES];
	return e->value_bytes == sizeof(mark) && memcmp(e->key, none, KEY_BYTES) == 0;
}

/* play plays the log back to its last whole block, and cuts off what is behind. */
static int32_t play(statelab_state *s, int read_only, statelab_error *error) {
	entry e;
	ssize_t got;
	off_t at = 0, whole = 0;
	while ((got = pread(s->log, &e, sizeof e, at)) == sizeof e) {
		at += got;
		if (!is_mark(&e)) {
			if (!push(&s->building, &e)) return fail(error, "play the log");
			continue;
		}
		mark want = mark_of(s);
		if (memcmp(e.value, &want, sizeof want) != 0) break;
		if (!advance(s)) return fail(error, "play the log");
		whole = at;
	}
	s->building.count = 0;
	if (got < 0 || (!read_only && ftruncate(s->log, whole) != 0)) return fail(error, "play the log");
	if (lseek(s->log, whole, SEEK_SET) < 0) return fail(error, "play the log");
	return STATELAB_OK;
}

static int32_t check(const statelab_state_options *o, statelab_error *error) {
	if (LIE == SILENT_CHECK) return STATELAB_FAILED;
	if (LIE == UNKNOWN_CODE) return 77;
	for (size_t i = 0; i < o->settings_count; i++) {
		if (strcmp(o->settings[i].name, "loop") == 0) continue;
		snprintf(error->text, sizeof error->text, "unknown option %.64s: write loop=1000", o->settings[i].name);
		return STATELAB_FAILED;
	}
	return STATELAB_OK;
}

static int32_t close_(statelab_state *s, statelab_error *error) {
	int32_t code = s->log >= 0 && close(s->log) != 0 ? fail(error, "close the log") : STATELAB_OK;
	free(s->newest.of);
	free(s->building.of);
	pthread_rwlock_destroy(&s->lock);
	free(s);
	return code;
}

static int32_t open_log(statelab_state *s, const statelab_state_options *o, statelab_error *error) {
	char path[4096];
	snprintf(path, sizeof path, "%s/log", o->directory);
	s->log = open(path, O_RDWR | O_CLOEXEC | (o->create ? O_CREAT | O_EXCL : 0), 0644);
	if (s->log < 0 && errno == ENOENT && !o->create) return fail(error, "open the log"), STATELAB_NOT_A_DATABASE;
	if (s->log < 0) return fail(error, "open the log");
	if (flock(s->log, (o->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) return fail(error, "lock the log"), STATELAB_LOCKED;
	return play(s, o->read_only, error);
}

static int32_t open_(const statelab_state_options *o, statelab_state **opened, statelab_error *error) {
	if (LIE == NO_STATE) return STATELAB_OK;
	statelab_state *s = calloc(1, sizeof *s);
	if (!s) return fail(error, "open");
	pthread_rwlock_init(&s->lock, NULL);
	int32_t code = open_log(s, o, error);
	if (code != STATELAB_OK) {
		statelab_error unused;
		close_(s, &unused);
		return code;
	}
	if (o->settings_count) s->loop = atoll(o->settings[0].value);
	*opened = s;
	return STATELAB_OK;
}

static void head(statelab_state *s, uint64_t *block, statelab_hash *root) {
	pthread_rwlock_rdlock(&s->lock);
	*block = LIE == NOT_NEW ? 7 : LIE == STANDING_BLOCK ? 0 : s->block;
	if (LIE != ROOT_OF_NONE || s->block) *root = s->root;
	if (LIE == OTHER_ROOT) root->bytes[0] ^= 1;
	pthread_rwlock_unlock(&s->lock);
}

static int32_t change(statelab_state *s, const statelab_hash *name, const statelab_account *account, const statelab_slot *slots,
                      size_t slots_count, statelab_error *error) {
	entry e = {.value_bytes = -1};
	key_of(e.key, name, NULL);
	if (!account) { /* with all its slots, which are behind it */
		for (size_t i = first(&s->newest, e.key); i < s->newest.count && memcmp(s->newest.of[i].key, name->bytes, 32) == 0; i++) {
			memcpy(e.key, s->newest.of[i].key, KEY_BYTES);
			if (!push(&s->building, &e)) return fail(error, "delete");
		}
		return STATELAB_OK;
	}
	e.value_bytes = VALUE_BYTES;
	memcpy(e.value, &account->nonce, 8);
	memcpy(e.value + 8, account->balance, 32);
	memcpy(e.value + 40, account->code.bytes, 32);
	if (!push(&s->building, &e)) return fail(error, "change");
	for (size_t i = 0; i < slots_count; i++) {
		entry of = {.value_bytes = slots[i].value_bytes ? (int8_t)slots[i].value_bytes : -1};
		key_of(of.key, name, &slots[i].key);
		memcpy(of.value, slots[i].value, (size_t)slots[i].value_bytes);
		if (!push(&s->building, &of)) return fail(error, "change");
	}
	return STATELAB_OK;
}

static int32_t commit(statelab_state *s, statelab_hash *root, statelab_error *error) {
	mark m = mark_of(s);
	entry end = {.value_bytes = sizeof m};
	memcpy(end.value, &m, sizeof m);
	if (!push(&s->building, &end)) return fail(error, "commit");
	const char *from = (const char *)s->building.of;
	for (size_t left = s->building.count * sizeof end; left;) {
		ssize_t wrote = write(s->log, from, left);
		if (wrote < 0) return fail(error, "write the log");
		from += wrote, left -= (size_t)wrote;
		s->writes++, s->write_bytes += wrote;
	}
	s->building.count--; /* the mark is the log's alone */
	if (!advance(s)) return fail(error, "commit");
	*root = s->root;
	return STATELAB_OK;
}

static int32_t reader_open(statelab_state *s, statelab_state_reader **opened, statelab_error *error) {
	if (LIE == NO_READER) return STATELAB_OK;
	statelab_state_reader *r = calloc(1, sizeof *r);
	if (!r) return fail(error, "open a reader");
	r->state = s;
	*opened = r;
	return STATELAB_OK;
}

static void reader_close(statelab_state_reader *r) { free(r); }

/* found copies the value of a key. */
static int found(statelab_state_reader *r, const uint8_t *key, entry *into) {
	const entries *e = &r->state->newest;
	pthread_rwlock_rdlock(&r->state->lock);
	size_t at = first(e, key);
	int is = at < e->count && memcmp(e->of[at].key, key, KEY_BYTES) == 0;
	if (is) *into = e->of[at];
	pthread_rwlock_unlock(&r->state->lock);
	r->nodes++;
	return is;
}

static int32_t account(statelab_state_reader *r, const statelab_hash *name, statelab_account *into, statelab_error *error) {
	if (LIE == WORKING_LOOKUP) return STATELAB_WORKING;
	if (LIE == FAILING_LOOKUP) return errno = EIO, fail(error, "read block 17");
	uint8_t key[KEY_BYTES];
	entry e;
	key_of(key, name, NULL);
	if (!found(r, key, &e)) return STATELAB_MISSING;
	memcpy(&into->nonce, e.value, 8);
	memcpy(into->balance, e.value + 8, 32);
	memcpy(into->code.bytes, e.value + 40, 32);
	return STATELAB_OK;
}

static int32_t slot(statelab_state_reader *r, const statelab_hash *name, const statelab_hash *of, statelab_slot *into, statelab_error *error) {
	(void)error;
	uint8_t key[KEY_BYTES];
	entry e;
	key_of(key, name, of);
	if (!found(r, key, &e)) return STATELAB_MISSING;
	memcpy(into->value, e.value, 32);
	if (LIE != NO_LENGTH) into->value_bytes = LIE == LONG_VALUE ? 33 : LIE == NEGATIVE_VALUE ? -4 : e.value_bytes;
	return STATELAB_OK;
}

static void touched(statelab_state_reader *r, statelab_touched *t) {
	t->nodes = LIE == NEGATIVE_TOUCHED ? -2 : LIE == FALLING_TOUCHED ? 100 - r->nodes : r->nodes;
	t->pages = -1;
}

static int32_t settle(statelab_state *s, int64_t wait_ms, statelab_settling *left, statelab_error *error) {
	(void)wait_ms;
	statelab_state_reader r = {.state = s};
	statelab_hash name = {{0}};
	statelab_account a;
	/* Called through a pointer the compiler cannot see through, as statelab does. */
	int32_t (*volatile through)(statelab_state_reader *, const statelab_hash *, statelab_account *, statelab_error *) = account;
	for (int64_t i = 0; i < s->loop; i++)
		if (through(&r, &name, &a, error) != STATELAB_OK) return STATELAB_FAILED;
	left->jobs = 1;
	return LIE == NEVER_SETTLED ? STATELAB_WORKING : STATELAB_OK;
}

static size_t stats(statelab_state *s, statelab_stat *into, size_t capacity) {
	(void)capacity;
	size_t n = 0;
	s->asked++;
	into[n++] = (statelab_stat){"writes", LIE == FALLING_COUNTER ? 100 - s->asked : s->writes};
	into[n++] = (statelab_stat){"write_bytes", LIE == NEGATIVE_COUNTER ? -3 : s->write_bytes};
	if (LIE == UNKNOWN_COUNTER) into[n++] = (statelab_stat){"raeds", 1};
	if (LIE == COUNTER_TWICE) into[n++] = (statelab_stat){"writes", 1};
	return n;
}

static size_t memory(statelab_state *s, statelab_memory *into, size_t capacity) {
	(void)capacity;
	into[0] = (statelab_memory){"all accounts and slots", LIE == GUESSED_MEMORY ? "guess" : "measured", (int64_t)(s->newest.room * sizeof(entry))};
	return 1;
}

static size_t effective(statelab_state *s, statelab_setting *into, size_t capacity) {
	(void)s, (void)capacity;
	into[0] = (statelab_setting){"log", "one write a block, no sync"};
	return 1;
}

static const statelab_profile profiles[] = {{"default", "all in memory, every block in a log"}, {NULL, NULL}};
static const statelab_profile no_profile[] = {{NULL, NULL}};
static const statelab_profile endless[64] = {[0 ... 63] = {"again", "and again"}};

const statelab_layout *statelab_state_v1(void) {
	static statelab_layout l;
	l = (statelab_layout){
	    .abi = LIE == OTHER_VERSION ? 2 : STATELAB_STATE_ABI,
	    .struct_bytes = LIE == OTHER_SIZE ? 16 : sizeof l,
	    .name = "map",
	    .version = "1",
	    .licence = "Apache-2.0",
	    .root = LIE == OTHER_RULE ? "secret" : LIE == ROOT_OF_NONE ? "none" : "own",
	    .durability = "a committed block survives a kill, not a power cut",
	    .history = "the newest block",
	    .profiles = LIE == NO_PROFILE ? no_profile : LIE == ENDLESS_PROFILES ? endless : profiles,
	    .check = check,
	    .open = open_,
	    .close = close_,
	    .head = head,
	    .change = change,
	    .commit = commit,
	    .reader_open = reader_open,
	    .reader_close = reader_close,
	    .account = LIE == NO_ACCOUNT ? NULL : account,
	    .slot = slot,
	    .touched = touched,
	    .settle = settle,
	    .stats = stats,
	    .memory = memory,
	    .effective = effective,
	};
	return LIE == NO_TABLE ? NULL : &l;
}
