// SPDX-License-Identifier: Apache-2.0
/* How functions of demi.h are entered and left. Each puts its arguments into a structure and calls
 * call_run with a body. That is the one place where running out of memory (or a cancelled pipeline)
 * arrives, scratch memory ends, and the inner Err becomes the caller's DemiError. The Call lies in
 * the public function's frame, not in call_run's, so that what a body wrote before a jump is still
 * defined after it. */
#ifndef DEMI_CALL_H
#define DEMI_CALL_H

#include "arena.h"
#include "demi.h"
#include "err.h"

/* Starts as {0}. */
typedef struct Call {
    MemTrap trap;
    Arena scratch; /* ends with call_run */
    Err err;
    bool cancelled;
} Call;

typedef void (*CallBody)(Call *call, void *args);

/* Runs body(call, args), which reports through call->err; not where that is set already. */
DemiStatus call_run(Call *call, CallBody body, void *args, DemiError *error);

/* Copies options of the caller's, whose header may be older (shorter: the rest keeps its defaults)
 * or newer (longer: what this library does not know must be zero). `known` holds the defaults. */
void options_copy(Call *call, void *known, size_t known_size, const void *given);

#endif
