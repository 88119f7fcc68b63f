// Go cannot call a C function pointer: each call of the library has a trampoline
// here, which the compiler puts into cgo's own, so that a lookup is one crossing.
#ifndef STATELAB_STATES_CALLS_H
#define STATELAB_STATES_CALLS_H

#include "statelab_state.h"

// missing names the first member that a table lacks, or returns NULL.
static inline const char *missing(const statelab_layout *l) {
#define EACH(member) \
	if (!l->member) return #member;
	EACH(name) EACH(version) EACH(licence) EACH(root) EACH(durability) EACH(history) EACH(profiles)
	EACH(check) EACH(open) EACH(close) EACH(head) EACH(change) EACH(commit)
	EACH(reader_open) EACH(reader_close) EACH(account) EACH(slot) EACH(touched)
	EACH(settle) EACH(stats) EACH(memory) EACH(effective)
#undef EACH
	return NULL;
}

// A lookup is a reader with all that it answers, in C memory: a lookup then passes no
// Go pointer but those to the names.
typedef struct {
	const statelab_layout *layout;
	statelab_state_reader *reader;
	statelab_account account;
	statelab_slot slot;
	statelab_touched touched;
	statelab_error error;
} lookup;

static inline int32_t call_account(lookup *l, const statelab_hash *name) {
	return l->layout->account(l->reader, name, &l->account, &l->error);
}

static inline int32_t call_slot(lookup *l, const statelab_hash *name, const statelab_hash *key) {
	l->slot.value_bytes = -1; // so that an answer without a length is none
	return l->layout->slot(l->reader, name, key, &l->slot, &l->error);
}

static inline void call_touched(lookup *l) { l->layout->touched(l->reader, &l->touched); }

static inline int32_t call_reader_open(const statelab_layout *l, statelab_state *s, lookup *into) {
	into->layout = l;
	return l->reader_open(s, &into->reader, &into->error);
}
static inline void call_reader_close(lookup *l) { l->layout->reader_close(l->reader); }

static inline int32_t call_check(const statelab_layout *l, const statelab_state_options *o, statelab_error *error) {
	return l->check(o, error);
}
static inline int32_t call_open(const statelab_layout *l, const statelab_state_options *o, statelab_state **s, statelab_error *error) {
	return l->open(o, s, error);
}
static inline int32_t call_close(const statelab_layout *l, statelab_state *s, statelab_error *error) { return l->close(s, error); }

typedef struct {
	uint64_t block;
	statelab_hash root;
} head;

static inline head call_head(const statelab_layout *l, statelab_state *s) {
	head h = {0};
	l->head(s, &h.block, &h.root);
	return h;
}
static inline int32_t call_change(const statelab_layout *l, statelab_state *s, const statelab_hash *name, const statelab_account *account,
                                  const statelab_slot *slots, size_t slots_count, statelab_error *error) {
	return l->change(s, name, account, slots, slots_count, error);
}
static inline int32_t call_commit(const statelab_layout *l, statelab_state *s, statelab_hash *root, statelab_error *error) {
	return l->commit(s, root, error);
}
static inline int32_t call_settle(const statelab_layout *l, statelab_state *s, int64_t wait_ms, statelab_settling *left, statelab_error *error) {
	return l->settle(s, wait_ms, left, error);
}
static inline size_t call_stats(const statelab_layout *l, statelab_state *s, statelab_stat *into, size_t capacity) {
	return l->stats(s, into, capacity);
}
static inline size_t call_memory(const statelab_layout *l, statelab_state *s, statelab_memory *into, size_t capacity) {
	return l->memory(s, into, capacity);
}
static inline size_t call_effective(const statelab_layout *l, statelab_state *s, statelab_setting *into, size_t capacity) {
	return l->effective(s, into, capacity);
}

#endif
