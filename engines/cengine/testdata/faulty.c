/* faulty.c: the example engine, but for its Gets, which go wrong in the way the
 * setting fault says once there have been as many as the setting after says. */
#define statelab_engine_v1 sound_engine_v1
#include "../../../examples/native-c/engine.c"
#undef statelab_engine_v1

static char fault[16];
static int64_t after;
static atomic_int_least64_t gets;

/* without_ours leaves the settings that are the sound engine's. */
static statelab_options without_ours(const statelab_options *o, statelab_setting *left) {
	statelab_options sound = *o;
	sound.settings = left;
	sound.settings_count = 0;
	for (size_t i = 0; i < o->settings_count; i++) {
		const statelab_setting *s = &o->settings[i];
		if (strcmp(s->name, "fault") == 0)
			snprintf(fault, sizeof fault, "%s", s->value);
		else if (strcmp(s->name, "after") == 0)
			after = atoll(s->value);
		else if (sound.settings_count < 8)
			left[sound.settings_count++] = *s;
	}
	return sound;
}

static int32_t faulty_check(const statelab_options *o, statelab_error *error) {
	statelab_setting left[8];
	statelab_options sound = without_ours(o, left);
	return engine_check(&sound, error);
}

static int32_t faulty_open(const statelab_options *o, statelab_db **db, statelab_error *error) {
	statelab_setting left[8];
	statelab_options sound = without_ours(o, left);
	return engine_open(&sound, db, error);
}

static int32_t faulty_get(statelab_reader *r, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity, size_t *value_bytes,
                          statelab_error *error) {
	if (atomic_fetch_add(&gets, 1) < after) {
		usleep(100); /* so that there is progress to tell before the fault */
	} else if (strcmp(fault, "hang") == 0) {
		for (;;) pause();
	} else if (strcmp(fault, "crash") == 0) {
		*(volatile int *)NULL = 1;
	} else if (strcmp(fault, "abort") == 0) {
		abort();
	} else if (strcmp(fault, "fail") == 0) {
		return fail(error, "read block 17 of table: Input/output error");
	} else if (strcmp(fault, "lose") == 0) {
		return STATELAB_MISSING;
	} else if (strcmp(fault, "leak") == 0) {
		static void *volatile lost; /* else the compiler sees that nobody needs it */
		lost = malloc(4096);
		if (lost) memset(lost, 1, 4096);
	} else if (strcmp(fault, "wrong") == 0) {
		int32_t code = engine_get(r, key, key_bytes, value, capacity, value_bytes, error);
		if (code == STATELAB_OK && *value_bytes) value[*value_bytes / 2] ^= 1;
		return code;
	}
	return engine_get(r, key, key_bytes, value, capacity, value_bytes, error);
}

const statelab_engine *statelab_engine_v1(void) {
	static statelab_engine e;
	e = functions;
	e.name = "faulty";
	e.check = faulty_check;
	e.open = faulty_open;
	e.get = faulty_get;
	return &e;
}
