// Go cannot call a C function pointer: each call of the library has a trampoline
// here, which the compiler puts into cgo's own, so that a Get is one crossing.
#ifndef STATELAB_NATIVE_CALLS_H
#define STATELAB_NATIVE_CALLS_H

#include <stdlib.h>

#include "statelab_engine.h"

// complete names the first function that a table lacks, or returns NULL.
static inline const char *incomplete(const statelab_engine *e) {
#define REQUIRE(member) \
	if (!e->member) return #member
	REQUIRE(name);
	REQUIRE(version);
	REQUIRE(licence);
	REQUIRE(durability);
	REQUIRE(capabilities);
	REQUIRE(check);
	REQUIRE(open);
	REQUIRE(close);
	REQUIRE(reader_open);
	REQUIRE(reader_close);
	REQUIRE(get);
	REQUIRE(writer_open);
	REQUIRE(writer_close);
	REQUIRE(put);
	REQUIRE(remove);
	REQUIRE(commit);
	REQUIRE(sync);
	REQUIRE(settle);
	REQUIRE(stats);
	REQUIRE(memory);
	REQUIRE(effective);
	REQUIRE(shape);
#undef REQUIRE
	return NULL;
}

// A lookup is a reader with all that a Get answers, in C memory: a Get then passes
// no Go pointer but those to key and value.
typedef struct {
	int32_t (*get)(statelab_reader *, const uint8_t *, size_t, uint8_t *, size_t, size_t *, statelab_error *);
	statelab_reader *reader;
	size_t value_bytes;
	statelab_error error;
} lookup;

static inline int32_t call_get(lookup *l, const uint8_t *key, size_t key_bytes, uint8_t *value, size_t capacity) {
	return l->get(l->reader, key, key_bytes, value, capacity, &l->value_bytes, &l->error);
}

// A batch is a writer with its error, in C memory for the same reason.
typedef struct {
	const statelab_engine *engine;
	statelab_writer *writer;
	statelab_error error;
} batch;

static inline int32_t call_put(batch *b, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes) {
	return b->engine->put(b->writer, key, key_bytes, value, value_bytes, &b->error);
}

static inline int32_t call_remove(batch *b, const uint8_t *key, size_t key_bytes) {
	return b->engine->remove(b->writer, key, key_bytes, &b->error);
}

static inline int32_t call_commit(batch *b) { return b->engine->commit(b->writer, &b->error); }

static inline int32_t call_check(const statelab_engine *e, const statelab_options *o, statelab_error *error) {
	return e->check(o, error);
}

static inline int32_t call_open(const statelab_engine *e, const statelab_options *o, statelab_db **db, statelab_error *error) {
	return e->open(o, db, error);
}

static inline int32_t call_close(const statelab_engine *e, statelab_db *db, statelab_error *error) { return e->close(db, error); }

static inline int32_t call_reader_open(const statelab_engine *e, statelab_db *db, lookup *l) {
	l->get = e->get;
	return e->reader_open(db, &l->reader, &l->error);
}

static inline void call_reader_close(const statelab_engine *e, lookup *l) { e->reader_close(l->reader); }

static inline int32_t call_writer_open(const statelab_engine *e, statelab_db *db, batch *b) {
	b->engine = e;
	return e->writer_open(db, &b->writer, &b->error);
}

static inline void call_writer_close(const statelab_engine *e, batch *b) { e->writer_close(b->writer); }

static inline int32_t call_sync(const statelab_engine *e, statelab_db *db, statelab_error *error) { return e->sync(db, error); }

static inline int32_t call_settle(const statelab_engine *e, statelab_db *db, int64_t wait_ms, statelab_settling *left, statelab_error *error) {
	return e->settle(db, wait_ms, left, error);
}

static inline size_t call_stats(const statelab_engine *e, statelab_db *db, statelab_stat *into, size_t capacity) {
	return e->stats(db, into, capacity);
}

static inline size_t call_memory(const statelab_engine *e, statelab_db *db, statelab_memory *into, size_t capacity) {
	return e->memory(db, into, capacity);
}

static inline size_t call_effective(const statelab_engine *e, statelab_db *db, statelab_setting *into, size_t capacity) {
	return e->effective(db, into, capacity);
}

static inline int32_t call_shape(const statelab_engine *e, statelab_db *db, statelab_shape *into, statelab_error *error) {
	return e->shape(db, into, error);
}

#endif
