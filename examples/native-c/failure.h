/* failure.h: how every part of the engine says what went wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FAILURE_H
#define FAILURE_H

#include "statelab_engine.h"

/* fail leaves a sentence and returns STATELAB_FAILED. */
int32_t fail(statelab_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fail_errno is fail with errno's text at the end. */
int32_t fail_errno(statelab_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
