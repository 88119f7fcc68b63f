// A program with RocksDB that knows nothing of Statelab: it writes a database of three column families, or makes Gets and tells what
// RocksDB's own counters say of them. Usage: [TRACES=PREFIX] [OPEN_FILES=N] [FILTERS=none] [BATCHES=N BATCH_KEYS=7..1000] [SEEKS=N] rocksgets LIBRARY write|read|mix DIR GETS CACHE-BYTES [KEYS]
//
// It has no headers of RocksDB: those of several versions are tried with it. Reading, it says when the library is loaded, waits for a byte before it opens
// the database, and for the end of its input before it ends. With mix it is a node that reads and writes until its input ends, with so many Gets a second.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

enum { families = 3 };

static long keys = 40000; // of a family

static const char *names[families] = {"default", "accounts", "slots"};

static size_t key_of(char *to, uint64_t n) {
	return sprintf(to, "%016llx", (unsigned long long)(n * 0x9e3779b97f4a7c15));
}

static void *options_of(int writes, int compacts, size_t cache_bytes) {
	void *o = CALL(void *, options_create), *t = CALL(void *, block_based_options_create);
	CALL(void, options_set_create_if_missing, o, writes);
	CALL(void, options_set_create_missing_column_families, o, writes);
	if (getenv("OPEN_FILES") != NULL)
		CALL(void, options_set_max_open_files, o, atoi(getenv("OPEN_FILES")));
	CALL(void, options_set_disable_auto_compactions, o, !compacts);
	CALL(void, options_set_write_buffer_size, o, (size_t)256 << 10);
	CALL(void, options_set_target_file_size_base, o, (uint64_t)256 << 10);
	CALL(void, options_set_max_bytes_for_level_base, o, (uint64_t)1 << 20);
	CALL(void, block_based_options_set_cache_index_and_filter_blocks, t, 1);
	void *filter = ((void *(*)(double))named("rocksdb_filterpolicy_create_bloom"))(10);
	if (getenv("FILTERS") == NULL)
		CALL(void, block_based_options_set_filter_policy, t, filter);
	CALL(void, block_based_options_set_block_cache, t, CALL(void *, cache_create_lru, cache_bytes));
	CALL(void, options_set_block_based_table_factory, o, t);
	return o;
}

// Every key, which compactions move to the last level, and a third of them again, which stay in several tables of level 0: the same levels on every machine.
static void put_all(void *db, void **handles) {
	void *w = CALL(void *, writeoptions_create), *f = CALL(void *, flushoptions_create);
	char key[32], value[100], *err = NULL;
	memset(value, 'v', sizeof value);
	for (int again = 0; again < 2; again++) {
		for (uint64_t n = 0; n < (uint64_t)(keys * families); n++) {
			if (again && n / families % 3 != 0)
				continue;
			snprintf(value, sizeof value, "%llu", (unsigned long long)n * 7919);
			CALL(void, put_cf, db, w, handles[n % families], key, key_of(key, n), value, sizeof value, &err);
			check(err);
		}
		for (int i = 0; i < families; i++) {
			CALL(void, flush_cf, db, f, handles[i], &err);
			check(err);
			if (!again)
				CALL(void, compact_range_cf, db, handles[i], NULL, (size_t)0, NULL, (size_t)0);
		}
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

// So many batches, each of 7 keys of all families, and of BATCH_KEYS of one by the other way in, which lacks two thirds of them.
static void get_batches(void *db, void **handles, long batches) {
	enum { many = 7, most = 1000 };
	int one = getenv("BATCH_KEYS") == NULL ? many : atoi(getenv("BATCH_KEYS"));
	void *r = CALL(void *, readoptions_create), *families_of[many];
	void (*batched)(void *, void *, void *, size_t, const char *const *, const size_t *, void **, char **, unsigned char) = named("rocksdb_batched_multi_get_cf");
	char text[most][32], *values[most], *errs[most];
	const char *asked[most];
	size_t lengths[most], found[many];
	for (long b = 0; b < batches; b++) {
		for (int i = 0; i < one; i++) {
			uint64_t n = (uint64_t)(b * one + i) % (uint64_t)keys * families + i % families;
			lengths[i] = key_of(text[i], n);
			asked[i] = text[i];
			if (i < many)
				families_of[i] = handles[i % families];
		}
		CALL(void, multi_get_cf, db, r, families_of, (size_t)many, asked, lengths, values, found, errs);
		for (int i = 0; i < many; i++) {
			check(errs[i]);
			free(values[i]);
		}
		batched(db, r, handles[0], (size_t)one, asked, lengths, (void **)values, errs, 0);
		for (int i = 0; i < one; i++) {
			check(errs[i]);
			if (values[i] != NULL)
				CALL(void, pinnableslice_destroy, values[i]);
		}
	}
}

// So many Seeks, each of an iterator of its own, which goes on to some blocks behind it.
static void seek_all(void *db, void **handles, long seeks) {
	enum { next = 100 };
	void *r = CALL(void *, readoptions_create);
	char key[32];
	for (long i = 0; i < seeks; i++) {
		void *at = CALL(void *, create_iterator_cf, db, r, handles[i % families]);
		size_t length = key_of(key, (uint64_t)i * 7919);
		CALL(void, iter_seek, at, key, length);
		for (int n = 0; n < next && CALL(unsigned char, iter_valid, at); n++)
			CALL(void, iter_next, at);
		CALL(void, iter_destroy, at);
	}
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

static uint64_t state = 1;

static double uniform(void) {
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 11) * 0x1p-53;
}

// Of which a few keys get most.
static uint64_t often(void) {
	double x = uniform();
	return (uint64_t)(x * x * x * keys * families);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

// Rounds of Gets, of which a tenth has no such key, each with a batch of writes, as a node does for each of its blocks. RocksDB counts what
// this thread asks its cache for, and reads.
static void mix_all(void *db, void **handles, double rate) {
	enum { gets = 200, puts = 60, only_counts = 2, cache_hits = 1, block_reads = 2 };
	void *r = CALL(void *, readoptions_create), *w = CALL(void *, writeoptions_create), *batch = CALL(void *, writebatch_create);
	void *counters = CALL(void *, perfcontext_create);
	CALL(void, set_perf_level, only_counts);
	char key[32], value[100], byte, *err = NULL;
	memset(value, 'v', sizeof value);
	fcntl(0, F_SETFL, O_NONBLOCK);
	long made = 0;
	for (double began = now(); read(0, &byte, 1) != 0;) {
		double wait = began + made / rate - now();
		if (wait > 0)
			usleep(wait * 1e6);
		for (int i = 0; i < gets; i++) {
			uint64_t n = often() + (uniform() < 0.1 ? keys * families : 0);
			size_t length = 0;
			free(CALL(char *, get_cf, db, r, handles[n % families], key, key_of(key, n), &length, &err));
			check(err);
		}
		made += gets;
		for (int i = 0; i < puts; i++) {
			uint64_t n = often();
			snprintf(value, sizeof value, "%llu", (unsigned long long)(n * 7919 + made));
			CALL(void, writebatch_put_cf, batch, handles[n % families], key, key_of(key, n), value, sizeof value);
		}
		CALL(void, write, db, w, batch, &err);
		check(err);
		CALL(void, writebatch_clear, batch);
	}
	uint64_t (*count)(void *, int) = named("rocksdb_perfcontext_metric");
	printf("gets %ld\naccesses %ld\nreads %ld\n", made, (long)(count(counters, cache_hits) + count(counters, block_reads)), (long)count(counters, block_reads));
}

static void tell(const char *when, void *options) {
	char *text = CALL(char *, options_statistics_get_string, options), *rest = text, *line;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (strstr(line, "COUNT :") != NULL && strstr(line, "P50") == NULL)
			printf("%s %s\n", when, line);
	free(text);
}

int main(int n, char **args) {
	if ((n != 6 && n != 7) || (library = dlopen(args[1], RTLD_NOW)) == NULL) {
		fprintf(stderr, "%s\n", n == 6 || n == 7 ? dlerror() : "rocksgets LIBRARY write|read|mix DIR GETS CACHE-BYTES [KEYS]");
		return 1;
	}
	puts("ready 0");
	fflush(stdout);
	if (n == 7)
		keys = atol(args[6]) / families;
	int writes = strcmp(args[2], "write") == 0, mixes = strcmp(args[2], "mix") == 0;
	char byte, *err = NULL;
	if (!writes && read(0, &byte, 1) != 1)
		return 1;
	void *options = options_of(writes, mixes, strtoull(args[5], NULL, 10)), *handles[families], *all[families] = {options, options, options};
	CALL(void, options_enable_statistics, options);
	void *db = CALL(void *, open_column_families, options, args[3], families, names, all, handles, &err);
	check(err);
	if (writes) {
		put_all(db, handles);
	} else if (mixes) {
		mix_all(db, handles, atof(args[4]));
	} else {
		const char *traces = getenv("TRACES");
		if (traces != NULL)
			trace(db, traces);
		tell("before", options);
		if (getenv("BATCHES") != NULL)
			get_batches(db, handles, atol(getenv("BATCHES")));
		if (getenv("SEEKS") != NULL)
			seek_all(db, handles, atol(getenv("SEEKS")));
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
