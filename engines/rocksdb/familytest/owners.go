//go:build cgo

package familytest

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED(returned, name, ...) returned (*name)(__VA_ARGS__) = dlsym(library, "rocksdb_" #name)

enum { paths, merges, times, ranges, marked };

static char *last(void *state, const char *key, size_t n, const char *old, size_t m,
	const char *const *operands, const size_t *sizes, int count, unsigned char *success,
	size_t *length) {
	*success = 1;
	*length = sizes[count - 1];
	return memcpy(malloc(*length), operands[count - 1], *length);
}

static char *no_part(void *state, const char *key, size_t n, const char *const *operands,
	const size_t *sizes, int count, unsigned char *success, size_t *length) {
	*success = 0;
	return NULL;
}

static const char *last_name(void *state) { return "familytest.Last"; }

static void nothing(void *state) {}

// write_keys writes keys in no order, in two flushes, each with a value that begins with the key.
// Of paths, tables that compactions write are in the folder further. Of merges, every hundredth key
// is left with a merge, in the log, by an operator that RocksDB does not have. Of times, each key
// has the values of times 1 and 2, "1" or "2" behind the key. Of ranges, tables of three ages and
// the log, which is written over an older one, have values, merges and deletions of ranges that
// overlap. Of marked, the second half of the tables deletes so many keys that RocksDB's own
// collector marks them for compaction.
static char *write_keys(const char *path, int kind, const char *dir, const char *further,
	int keys) {
	char *err = NULL;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return strdup(dlerror());
	NAMED(void *, options_create, void);
	NAMED(void, get_options_from_string, void *, const char *, void *, char **);
	NAMED(void, options_set_db_paths, void *, void **, size_t);
	NAMED(void *, dbpath_create, const char *, uint64_t);
	NAMED(void, options_set_merge_operator, void *, void *);
	NAMED(void *, mergeoperator_create, void *, void (*)(void *), void *, void *, void *,
		const char *(*)(void *));
	NAMED(void *, open, void *, const char *, char **);
	NAMED(void, put, void *, void *, const char *, size_t, const char *, size_t, char **);
	NAMED(void, put_with_ts, void *, void *, const char *, size_t, const char *, size_t,
		const char *, size_t, char **);
	NAMED(void, merge, void *, void *, const char *, size_t, const char *, size_t, char **);
	NAMED(void, flush, void *, void *, char **);
	NAMED(void *, wait_for_compact_options_create, void);
	NAMED(void, wait_for_compact, void *, void *, char **);
	NAMED(void *, writeoptions_create, void);
	NAMED(void *, flushoptions_create, void);
	NAMED(void, close, void *);
	NAMED(void *, writebatch_create, void);
	NAMED(void, writebatch_clear, void *);
	NAMED(void, writebatch_delete_range, void *, const char *, size_t, const char *, size_t);
	NAMED(void, write, void *, void *, void *, char **);
	NAMED(void, compact_range, void *, const char *, size_t, const char *, size_t);
	NAMED(const void *, create_snapshot, void *);
	NAMED(void, release_snapshot, void *, const void *);
	NAMED(void, delete, void *, void *, const char *, size_t, char **);
	NAMED(void, options_add_compact_on_deletion_collector_factory, void *, size_t, size_t);
	void *o = options_create(), *w = writeoptions_create(), *f = flushoptions_create();
	void *batch = writebatch_create();
	const char *texts[] = {
		"level0_file_num_compaction_trigger=2;target_file_size_base=65536",
		"disable_auto_compactions=true",
		"comparator=leveldb.BytewiseComparator.u64ts",
		"disable_auto_compactions=true;merge_operator=stringappend;recycle_log_file_num=2;"
		"target_file_size_base=65536;"
		"block_based_table_factory={cache_index_and_filter_blocks=true;"
		"filter_policy=bloomfilter:10:false;block_size=1024}",
		"disable_auto_compactions=true;"
		"block_based_table_factory={cache_index_and_filter_blocks=true;"
		"filter_policy=bloomfilter:10:false}",
	};
	get_options_from_string(options_create(), texts[kind], o, &err);
	if (err != NULL)
		return err;
	NAMED(void, options_set_create_if_missing, void *, unsigned char);
	options_set_create_if_missing(o, 1);
	if (kind == paths) {
		void *both[] = {dbpath_create(dir, 256 << 10), dbpath_create(further, 1 << 30)};
		options_set_db_paths(o, both, 2);
	}
	if (kind == merges)
		options_set_merge_operator(o,
			mergeoperator_create(NULL, nothing, last, no_part, NULL, last_name));
	if (kind == marked)
		options_add_compact_on_deletion_collector_factory(o, 100, 50);
	void *db = open(o, dir, &err);
	for (int round = 0; kind == ranges && round < 5 && err == NULL; round++) {
		char key[16], end[16];
		const void *kept = create_snapshot(db); // so that compactions keep the deletions
		for (int i = round; i < keys && err == NULL; i += 1 + round * round * 10) {
			snprintf(key, sizeof key, "key%012d", (int)((uint64_t)i * 7919 % keys));
			put(db, w, key, 15, texts[kind], 100, &err);
		}
		for (int i = 0; i < keys && err == NULL && round > 0; i += 300 + round) {
			snprintf(key, sizeof key, "key%012d", i);
			snprintf(end, sizeof end, "key%012d", i + 40 * round);
			writebatch_clear(batch);
			writebatch_delete_range(batch, key, 15, end, 15);
			write(db, w, batch, &err);
			for (int at = i; at < i + 400 && err == NULL; at += 13) {
				snprintf(key, sizeof key, "key%012d", at);
				merge(db, w, key, 15, "merged", 6, &err);
			}
		}
		if (err == NULL && round < 4)
			flush(db, f, &err);
		if (err == NULL && round < 2)
			compact_range(db, NULL, 0, NULL, 0);
		release_snapshot(db, kept);
	}
	for (int round = 0; kind != ranges && round < 2 && err == NULL; round++) {
		for (int i = 0; i < keys && err == NULL; i++) {
			if (kind != times && i % 2 != round)
				continue;
			char key[16], value[100];
			snprintf(key, sizeof key, "key%012d", (int)((uint64_t)i * 7919 % keys));
			for (size_t at = 0; at < sizeof value; at++)
				value[at] = rand();
			snprintf(value, 17, "%s%d", key, round + 1);
			char time[8] = {round + 1};
			if (kind == marked && round == 1 && i % 4 == 1)
				snprintf(key, sizeof key, "key%012d", (int)((uint64_t)(i - 1) * 7919 % keys));
			if (kind == marked && round == 1 && i % 4 == 1)
				delete(db, w, key, 15, &err);
			else if (kind == times)
				put_with_ts(db, w, key, 15, time, sizeof time, value, sizeof value, &err);
			else
				put(db, w, key, 15, value, sizeof value, &err);
		}
		if (err == NULL)
			flush(db, f, &err);
		if (kind == marked && round == 0 && err == NULL)
			compact_range(db, NULL, 0, NULL, 0);
	}
	for (int i = 0; kind == merges && i < keys && err == NULL; i += 100) {
		char key[16];
		snprintf(key, sizeof key, "key%012d", i);
		merge(db, w, key, 15, "merged", 6, &err);
	}
	if (err == NULL && wait_for_compact != NULL) // of newer versions
		wait_for_compact(db, wait_for_compact_options_create(), &err);
	if (db != NULL)
		close(db);
	return err;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/statelab/statelab/engines/rocksdb"
)

// WritePaths writes keys to dir with tables in the folder further, as with RocksDB's option
// db_paths.
func WritePaths(dir, further string, keys int) error {
	return writeKeys(C.paths, dir, further, keys)
}

// WriteMerged writes keys, every hundredth of which has a merge that code of this package has to
// apply.
func WriteMerged(dir string, keys int) error { return writeKeys(C.merges, dir, dir, keys) }

// WriteTimes writes keys that end with a time. The newest value of each begins with the key and a
// 2.
func WriteTimes(dir string, keys int) error { return writeKeys(C.times, dir, dir, keys) }

// WriteRanges writes keys, merges that RocksDB itself can apply, and deletions of ranges.
func WriteRanges(dir string, keys int) error { return writeKeys(C.ranges, dir, dir, keys) }

// WriteMarked writes keys in tables some of which are marked for compaction.
func WriteMarked(dir string, keys int) error { return writeKeys(C.marked, dir, dir, keys) }

// PlainKey is key number i of these.
func PlainKey(i int) []byte { return fmt.Appendf(nil, "key%012d", i) }

func writeKeys(kind C.int, dir, further string, keys int) error {
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(further, 0o755)); err != nil {
		return err
	}

	library, at, beyond := C.CString(os.Getenv(rocksdb.LibraryVariable)), C.CString(dir),
		C.CString(further)
	defer C.free(unsafe.Pointer(library))
	defer C.free(unsafe.Pointer(at))
	defer C.free(unsafe.Pointer(beyond))
	message := C.write_keys(library, kind, at, beyond, C.int(keys))
	defer C.free(unsafe.Pointer(message))
	if message != nil {
		return errors.New(C.GoString(message))
	}

	return nil
}
