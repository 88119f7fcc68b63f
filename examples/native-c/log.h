/* log.h: batches in the order of their commits, each with a checksum, so that one
 * that was cut off by a crash is recognised and dropped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_H
#define LOG_H

#include "failure.h"
#include "record.h"

/* A log_batch collects records in the form the log keeps them in. */
typedef struct {
	uint8_t *bytes;
	size_t used, capacity;
	int64_t user_bytes; /* of keys and values */
} log_batch;
int32_t log_batch_add(log_batch *b, const record *r, statelab_error *error);
void log_batch_clear(log_batch *b);
void log_batch_free(log_batch *b);

typedef int32_t (*log_visit)(void *context, const record *r, statelab_error *error);
int32_t log_batch_visit(const log_batch *b, log_visit visit, void *context, statelab_error *error);

typedef struct {
	int file;
	uint64_t end; /* of the last whole batch */
	bool broken;  /* half a batch lies at the end and could not be cut off */
} log_file;

int32_t log_create(log_file *l, const char *path, statelab_error *error);
/* log_open visits all records. What is cut off at the end is dropped, unless
 * read_only. NOT_A_DATABASE where path is no log. */
int32_t log_open(log_file *l, const char *path, bool read_only, log_visit visit, void *context, statelab_error *error);
int32_t log_append(log_file *l, log_batch *b, statelab_error *error);
int32_t log_sync(log_file *l, statelab_error *error);
int32_t log_clear(log_file *l, statelab_error *error); /* durably */
void log_close(log_file *l);

#endif
