//go:build cgo

#define _GNU_SOURCE
#include "capi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct rocks_functions rocks_functions;

static void *library;

static char *missing(const char *path, const char *name) {
	char *text = NULL, *version = rocks_version();
	if (asprintf(&text, "%s, RocksDB %s, exports no %s", path, version ? version : "of unknown version", name) < 0)
		text = NULL;
	free(version);
	dlclose(library);
	library = NULL;
	return text ? text : strdup(name);
}

char *rocks_load(const char *path) {
	if (library != NULL)
		return NULL;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return strdup(dlerror());
#define RESOLVE(returned, name, parameters, arguments) \
	*(void **)&rocks_functions.name = dlsym(library, "rocksdb_" #name);
#define REQUIRE(returned, name, parameters, arguments) \
	RESOLVE(returned, name, parameters, arguments) \
	if (rocks_functions.name == NULL) \
		return missing(path, "rocksdb_" #name);
	ROCKSDB_REQUIRED(REQUIRE)
	ROCKSDB_OPTIONAL(RESOLVE)
	return NULL;
}

// The C interface tells no version, so we call rocksdb::GetRocksVersionAsString.
// It returns a std::string, which libstdc++ lays out like this; a version is short
// enough to lie in it.
struct short_string {
	char *text;
	size_t length;
	char here[16];
};

char *rocks_version(void) {
	struct short_string (*version)(bool with_patch);
	*(void **)&version = dlsym(library, "_ZN7rocksdb23GetRocksVersionAsStringB5cxx11Eb");
	if (version == NULL)
		return NULL;
	struct short_string s = version(true);
	return s.length < sizeof s.here ? strndup(s.here, s.length) : NULL;
}

rocksdb_cache_t *rocks_create_hyper_clock(size_t bytes, size_t entry_bytes) {
	return rocks_functions.cache_create_hyper_clock ? rocks_functions.cache_create_hyper_clock(bytes, entry_bytes) : NULL;
}

rocksdb_bool rocks_read_latest(rocksdb_readoptions_t *o) {
	static const char latest[8] = {-1, -1, -1, -1, -1, -1, -1, -1}; // o keeps the address
	if (rocks_functions.readoptions_set_timestamp == NULL)
		return 0;
	rocks_functions.readoptions_set_timestamp(o, latest, sizeof latest);
	return 1;
}

static char *refuse_full(void *state, const char *key, size_t n, const char *old, size_t m, const char *const *operands, const size_t *sizes, int count,
	rocksdb_bool *success, size_t *length) {
	*success = *length = 0;
	return NULL;
}

static char *refuse_partial(void *state, const char *key, size_t n, const char *const *operands, const size_t *sizes, int count, rocksdb_bool *success,
	size_t *length) {
	*success = *length = 0;
	return NULL;
}

static const char *name_of(void *state) {
	return state;
}

void rocks_refuse_merges(rocksdb_options_t *o, const char *name) {
	rocks_options_set_merge_operator(o, rocks_mergeoperator_create(strdup(name), free, refuse_full, refuse_partial, NULL, name_of));
}

void rocks_one_folder(rocksdb_options_t *o, const char *dir) {
	enum { most = 4 }; // RocksDB has two bits for the number
	const rocksdb_dbpath_t *all[most];
	rocksdb_dbpath_t *one = rocks_dbpath_create(dir, UINT64_MAX);
	for (int i = 0; i < most; i++)
		all[i] = one;
	rocks_options_set_db_paths(o, all, most);
	rocks_dbpath_destroy(one);
}

static int64_t get_pinned(rocks_reader *r, const char *key, size_t n, char *buffer, size_t room) {
	rocksdb_pinnableslice_t *slice = rocks_get_pinned_cf(r->db, r->options, r->family, key, n, &r->err);
	if (slice == NULL)
		return r->err ? rocks_failed : rocks_missing;
	size_t length = 0;
	const char *value = rocks_pinnableslice_value(slice, &length);
	if (length > 0 && length <= room)
		memcpy(buffer, value, length);
	rocks_pinnableslice_destroy(slice);
	return length;
}

int64_t rocks_get(rocks_reader *r, const char *key, size_t n, char *buffer, size_t room) {
	if (rocks_functions.get_into_buffer_cf == NULL)
		return get_pinned(r, key, n, buffer, room);
	size_t length = 0;
	rocksdb_bool found = 0;
	rocks_functions.get_into_buffer_cf(r->db, r->options, r->family, key, n, buffer, room, &length, &found, &r->err);
	if (r->err != NULL)
		return rocks_failed;
	return found ? (int64_t)length : rocks_missing;
}

int64_t rocks_get_all(rocks_reader *r, const char *keys, size_t n, size_t count, char *buffer, size_t room) {
	int64_t found = 0;
	for (size_t i = 0; i < count; i++) {
		int64_t length = rocks_get(r, keys + i * n, n, buffer, room);
		if (length == rocks_failed)
			return rocks_failed;
		found += length != rocks_missing;
	}
	return found;
}

rocksdb_bool rocks_can_get_many(void) {
	return rocks_functions.batched_multi_get_cf != NULL;
}

static bool grow(void *array, size_t count, size_t size) {
	void **at = array, *grown = realloc(*at, count * size);
	if (grown != NULL)
		*at = grown;
	return grown != NULL;
}

rocksdb_bool rocks_many_room(rocks_many *m, size_t count) {
	if (count <= m->room)
		return 1;
	if (!grow(&m->keys, count, sizeof *m->keys) || !grow(&m->sizes, count, sizeof *m->sizes) || !grow(&m->values, count, sizeof *m->values) ||
	    !grow(&m->lengths, count, sizeof *m->lengths) || !grow(&m->slices, count, sizeof *m->slices) || !grow(&m->errs, count, sizeof *m->errs))
		return 0;
	m->room = count;
	return 1;
}

int64_t rocks_get_many(rocks_reader *r, rocks_many *m, size_t count, rocksdb_bool sorted) {
	if (m->options == NULL) {
		m->options = rocks_readoptions_create();
		if (rocks_functions.readoptions_set_async_io != NULL)
			rocks_functions.readoptions_set_async_io(m->options, 1);
	}
	rocks_functions.batched_multi_get_cf(r->db, m->options, r->family, count, m->keys, m->sizes, m->slices, m->errs, sorted);
	int64_t found = 0;
	for (size_t i = 0; i < count; i++) {
		m->values[i] = NULL;
		if (m->slices[i] != NULL) {
			m->values[i] = rocks_pinnableslice_value(m->slices[i], &m->lengths[i]);
			found++;
		}
		if (m->errs[i] == NULL)
			continue;
		if (r->err == NULL)
			r->err = m->errs[i]; // the first tells enough
		else
			free(m->errs[i]);
	}
	return r->err == NULL ? found : rocks_failed;
}

void rocks_many_release(rocks_many *m, size_t count) {
	for (size_t i = 0; i < count; i++)
		if (m->slices[i] != NULL)
			rocks_pinnableslice_destroy(m->slices[i]);
}

void rocks_many_free(rocks_many *m) {
	if (m->options != NULL)
		rocks_readoptions_destroy(m->options);
	free(m->keys);
	free(m->sizes);
	free(m->values);
	free(m->lengths);
	free(m->slices);
	free(m->errs);
	free(m);
}
