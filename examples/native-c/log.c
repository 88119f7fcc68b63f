/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "sortedtable log\n"
#define MAGIC_BYTES 16

/* Before the records of a batch. */
typedef struct {
	uint64_t checksum; /* of what follows this field */
	uint64_t bytes;    /* with this head */
} batch_head;

int32_t log_batch_add(log_batch *b, const record *r, statelab_error *error) {
	if ((uint64_t)r->key_bytes + r->value_bytes > RECORD_MAX) return fail(error, "a pair of more than %zu bytes", RECORD_MAX);
	size_t from = b->used ? b->used : sizeof(batch_head), needed = from + record_bytes(r);
	if (needed > b->capacity) {
		uint8_t *larger = realloc(b->bytes, needed * 2);
		if (!larger) return fail(error, "no memory for a batch of %zu bytes", needed);
		b->bytes = larger;
		b->capacity = needed * 2;
	}
	record_write(b->bytes + from, r);
	b->used = needed;
	b->user_bytes += (int64_t)r->key_bytes + r->value_bytes;
	return STATELAB_OK;
}

void log_batch_clear(log_batch *b) {
	b->used = 0;
	b->user_bytes = 0;
}

void log_batch_free(log_batch *b) { free(b->bytes); }

int32_t log_batch_visit(const log_batch *b, log_visit visit, void *context, statelab_error *error) {
	const uint8_t *next = b->bytes + sizeof(batch_head), *end = b->bytes + b->used;
	record r;
	while (next < end) {
		if (!(next = record_read(next, end, &r))) return fail(error, "a batch of the log is damaged inside");
		int32_t code = visit(context, &r, error);
		if (code != STATELAB_OK) return code;
	}
	return STATELAB_OK;
}

int32_t log_create(log_file *l, const char *path, statelab_error *error) {
	l->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	if (l->file < 0) return fail_errno(error, "create %s", path);
	if (write(l->file, MAGIC, MAGIC_BYTES) != MAGIC_BYTES) return fail_errno(error, "write %s", path);
	l->end = MAGIC_BYTES;
	return log_sync(l, error);
}

/* replay visits the records of whole batches and finds where they end. */
static int32_t replay(log_file *l, uint8_t *all, uint64_t bytes, log_visit visit, void *context, statelab_error *error) {
	for (l->end = MAGIC_BYTES; bytes - l->end >= sizeof(batch_head);) {
		batch_head head;
		uint8_t *at = all + l->end;
		memcpy(&head, at, sizeof head);
		if (head.bytes < sizeof head || head.bytes > bytes - l->end ||
		    head.checksum != checksum(at + sizeof head.checksum, head.bytes - sizeof head.checksum))
			break;
		log_batch b = {.bytes = at, .used = head.bytes};
		int32_t code = log_batch_visit(&b, visit, context, error);
		if (code != STATELAB_OK) return code;
		l->end += head.bytes;
	}
	return STATELAB_OK;
}

int32_t log_open(log_file *l, const char *path, bool read_only, log_visit visit, void *context, statelab_error *error) {
	struct stat info;
	l->file = open(path, (read_only ? O_RDONLY : O_RDWR | O_APPEND) | O_CLOEXEC);
	if (l->file < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		fail(error, "%s is not there", path);
		return STATELAB_NOT_A_DATABASE;
	}
	if (l->file < 0 || fstat(l->file, &info) != 0) return fail_errno(error, "open %s", path);
	uint64_t bytes = (uint64_t)info.st_size;
	uint8_t *all = bytes < MAGIC_BYTES ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, l->file, 0);
	if (all == MAP_FAILED || memcmp(all, MAGIC, MAGIC_BYTES) != 0) {
		if (all != MAP_FAILED) munmap(all, bytes);
		fail(error, "%s does not begin as a log of this engine", path);
		return STATELAB_NOT_A_DATABASE;
	}
	int32_t code = replay(l, all, bytes, visit, context, error);
	munmap(all, bytes);
	if (code == STATELAB_OK && !read_only && l->end < bytes && ftruncate(l->file, (off_t)l->end) != 0)
		code = fail_errno(error, "cut half a batch off %s", path);
	return code;
}

int32_t log_append(log_file *l, log_batch *b, statelab_error *error) {
	batch_head head = {0, b->used};
	if (l->broken) return fail(error, "an earlier write to the log failed: open the database again");
	memcpy(b->bytes, &head, sizeof head);
	head.checksum = checksum(b->bytes + sizeof head.checksum, b->used - sizeof head.checksum);
	memcpy(b->bytes, &head, sizeof head);
	for (size_t done = 0; done < b->used;) {
		ssize_t n = write(l->file, b->bytes + done, b->used - done);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) {
			int32_t code = fail_errno(error, "write the log");
			l->broken = ftruncate(l->file, (off_t)l->end) != 0;
			return code;
		}
		done += (size_t)n;
	}
	l->end += b->used;
	return STATELAB_OK;
}

int32_t log_sync(log_file *l, statelab_error *error) {
	return fdatasync(l->file) == 0 ? STATELAB_OK : fail_errno(error, "sync the log");
}

int32_t log_clear(log_file *l, statelab_error *error) {
	if (ftruncate(l->file, MAGIC_BYTES) != 0) return fail_errno(error, "empty the log");
	l->end = MAGIC_BYTES;
	return log_sync(l, error);
}

void log_close(log_file *l) {
	if (l->file >= 0) close(l->file);
	l->file = -1;
}
