/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int32_t fail(statelab_error *error, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return STATELAB_FAILED;
}

int32_t fail_errno(statelab_error *error, const char *format, ...) {
	int why = errno;
	char cause[128];
	va_list args;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	size_t said = strlen(error->text);
	/* The GNU strerror_r: thread-safe, and returns the text. */
	snprintf(error->text + said, sizeof error->text - said, ": %s", strerror_r(why, cause, sizeof cause));
	return STATELAB_FAILED;
}
