//go:build cgo

package rocksdb

/*
#include "capi.h"

static rocksdb_bool can_trace(void) { return rocks_functions.start_block_cache_trace != NULL; }

static void start_trace(rocksdb_t *db, const char *path, char **err) {
	rocks_functions.start_block_cache_trace(db, NULL, NULL, NULL, path, err);
}

static void end_trace(rocksdb_t *db, char **err) { rocks_functions.end_block_cache_trace(db, err); }
*/
import "C"

import "unsafe"

// traceAccesses makes RocksDB write each access to its block cache to a file, until stop is called;
// nil where the loaded library has no tracer.
func (d *db) traceAccesses(path string) (stop func() error, err error) {
	if C.can_trace() == 0 {
		return nil, nil
	}

	to := C.CString(path)
	defer C.free(unsafe.Pointer(to))
	var message *C.char
	C.start_trace(d.rocks, to, &message)
	return func() error {
		var message *C.char
		C.end_trace(d.rocks, &message)
		return errFromC(message)
	}, errFromC(message)
}
