/* lying_state.c: the layout of map.c, but for one lookup of a process: the one that
 * STATELAB_LIE names ("KIND:N") answers wrongly (flip, missing). The file
 * STATELAB_LIE_TOLD appears with the lie.
 * SPDX-License-Identifier: Apache-2.0 */
#define statelab_state_v1 sound_state_v1
#include "../../../layouts/clayout/testdata/map.c"
#undef statelab_state_v1

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static long long lookups;
static int lied;

/* now says whether this answer is to be the lie. */
static int now(const char *kind) {
	const char *lie = getenv("STATELAB_LIE");
	size_t n = strlen(kind);
	pthread_mutex_lock(&counting);
	int it_is = !lied && lie && strncmp(lie, kind, n) == 0 && lie[n] == ':' && lookups >= atoll(lie + n + 1);
	if (it_is) {
		lied = 1;
		FILE *told = fopen(getenv("STATELAB_LIE_TOLD"), "w");
		if (told) fclose(told);
	}
	pthread_mutex_unlock(&counting);
	return it_is;
}

static void counted(void) {
	pthread_mutex_lock(&counting);
	lookups++;
	pthread_mutex_unlock(&counting);
}

static int32_t lying_account(statelab_state_reader *r, const statelab_hash *name, statelab_account *into, statelab_error *error) {
	int32_t code = account(r, name, into, error);
	if (code == STATELAB_OK && now("flip"))
		into->nonce ^= 1;
	else if (code == STATELAB_OK && now("missing"))
		code = STATELAB_MISSING;
	counted();
	return code;
}

static int32_t lying_slot(statelab_state_reader *r, const statelab_hash *name, const statelab_hash *of, statelab_slot *into, statelab_error *error) {
	int32_t code = slot(r, name, of, into, error);
	if (code == STATELAB_OK && into->value_bytes > 0 && now("flip"))
		into->value[0] ^= 0x10;
	else if (code == STATELAB_OK && now("missing"))
		code = STATELAB_MISSING;
	counted();
	return code;
}

const statelab_layout *statelab_state_v1(void) {
	static statelab_layout l;
	l = *sound_state_v1();
	l.name = "liar";
	l.account = lying_account;
	l.slot = lying_slot;
	return &l;
}
