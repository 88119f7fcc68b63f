// A program with RocksDB that knows nothing of Statelab: it writes a database of three column families, or makes Gets and tells what
// RocksDB's own counters say of them. Usage: [TRACES=PREFIX] rocksgets LIBRARY write|read DIR GETS CACHE-BYTES
//
// It has no headers of RocksDB: those of several versions are tried with it. Reading, it says when the library is loaded, waits for a byte before it opens
// the database, and for the end of its input before it ends.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

static void *named(const char *name) {
	void *f = dlsym(library, name);
	if (f == NULL) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return f;
}

#define CALL(returned, name, ...) ((returned(*)())named("rocksdb_" #name))(__VA_ARGS__)

static void check(const char *err) {
	if (err != NULL) {
		fprintf(stderr, "%s\n", err);
		exit(1);
	}
}

enum { families = 3, keys = 40000 };

static const char *names[families] = {"default", "accounts", "slots"};

static size_t key_of(char *to, uint64_t n) {
	return sprintf(to, "%016llx", (unsigned long long)(n * 0x9e3779b97f4a7c15));
}

static void *options_of(int writes, size_t cache_bytes) {
	void *o = CALL(void *, options_create), *t = CALL(void *, block_based_options_create);
	CALL(void, options_set_create_if_missing, o, writes);
	CALL(void, options_set_create_missing_column_families, o, writes);
	CALL(void, options_set_disable_auto_compactions, o, !writes);
	CALL(void, options_set_write_buffer_size, o, (size_t)256 << 10);
	CALL(void, options_set_target_file_size_base, o, (uint64_t)256 << 10);
	CALL(void, options_set_max_bytes_for_level_base, o, (uint64_t)1 << 20);
	CALL(void, block_based_options_set_cache_index_and_filter_blocks, t, 1);
	void *filter = ((void *(*)(double))named("rocksdb_filterpolicy_create_bloom"))(10);
	CALL(void, block_based_options_set_filter_policy, t, filter);
	CALL(void, block_based_options_set_block_cache, t, CALL(void *, cache_create_lru, cache_bytes));
	CALL(void, options_set_block_based_table_factory, o, t);
	return o;
}

static void put_all(void *db, void **handles) {
	void *w = CALL(void *, writeoptions_create), *f = CALL(void *, flushoptions_create);
	char key[32], value[100], *err = NULL;
	memset(value, 'v', sizeof value);
	for (uint64_t n = 0; n < (uint64_t)keys * families; n++) {
		snprintf(value, sizeof value, "%llu", (unsigned long long)n * 7919);
		CALL(void, put_cf, db, w, handles[n % families], key, key_of(key, n), value, sizeof value, &err);
		check(err);
	}
	for (int i = 0; i < families; i++) {
		CALL(void, flush_cf, db, f, handles[i], &err);
		check(err);
	}
}

// A fifth of the Gets are of absent keys; the families are asked 1 : 2 : 3.
static long get_all(void *db, void **handles, long gets) {
	static const int of[] = {0, 1, 1, 2, 2, 2};
	void *r = CALL(void *, readoptions_create);
	char key[32], *err = NULL;
	long found = 0;
	uint64_t random = 1;
	for (long i = 0; i < gets; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		int family = of[(random >> 33) % 6];
		uint64_t n = (random >> 20) % ((uint64_t)keys / 4 * 5) * families + family;
		size_t length = 0;
		char *value = CALL(char *, get_cf, db, r, handles[family], key, key_of(key, n), &length, &err);
		check(err);
		found += value != NULL;
		free(value);
	}
	return found;
}

// RocksDB's own traces of the Gets: of its cache and of its files.
static void trace(void *db, const char *prefix) {
	void *o = CALL(void *, trace_options_create);
	char path[4096], *err = NULL;
	snprintf(path, sizeof path, "%s.blocks", prefix);
	CALL(void, start_block_cache_trace, db, NULL, NULL, o, path, &err);
	check(err);
	snprintf(path, sizeof path, "%s.io", prefix);
	CALL(void, start_io_trace, db, NULL, NULL, o, path, &err);
	check(err);
}

static void end_traces(void *db) {
	char *err = NULL;
	CALL(void, end_block_cache_trace, db, &err);
	check(err);
	CALL(void, end_io_trace, db, &err);
	check(err);
}

static void tell(const char *when, void *options) {
	char *text = CALL(char *, options_statistics_get_string, options), *rest = text, *line;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (strstr(line, "COUNT :") != NULL && strstr(line, "P50") == NULL)
			printf("%s %s\n", when, line);
	free(text);
}

int main(int n, char **args) {
	if (n != 6 || (library = dlopen(args[1], RTLD_NOW)) == NULL) {
		fprintf(stderr, "%s\n", n == 6 ? dlerror() : "rocksgets LIBRARY write|read DIR GETS CACHE-BYTES");
		return 1;
	}
	puts("ready 0");
	fflush(stdout);
	int writes = strcmp(args[2], "write") == 0;
	char byte, *err = NULL;
	if (!writes && read(0, &byte, 1) != 1)
		return 1;
	void *options = options_of(writes, strtoull(args[5], NULL, 10)), *handles[families], *all[families] = {options, options, options};
	CALL(void, options_enable_statistics, options);
	void *db = CALL(void *, open_column_families, options, args[3], families, names, all, handles, &err);
	check(err);
	if (writes) {
		put_all(db, handles);
	} else {
		const char *traces = getenv("TRACES");
		if (traces != NULL)
			trace(db, traces);
		tell("before", options);
		printf("found %ld\n", get_all(db, handles, atol(args[4])));
		tell("after", options);
		if (traces != NULL)
			end_traces(db);
		fflush(stdout);
		while (read(0, &byte, 1) == 1) {
		}
	}
	for (int i = 0; i < families; i++)
		CALL(void, column_family_handle_destroy, handles[i]);
	CALL(void, close, db);
	return 0;
}
