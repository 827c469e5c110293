// SPDX-License-Identifier: Apache-2.0
/* How far one run's outputs are from another's, and how far they may be: what compare and check
 * share. Outputs belong together by name, else by position where both runs have as many. */
#ifndef DEMI_OUTPUT_ERROR_H
#define DEMI_OUTPUT_ERROR_H

#include "session.h"
#include "value_compare.h"

/* What both runs have of values that are less than float32. */
typedef struct ValueKinds {
    bool low;       /* one of both has 16-bit values */
    bool quantized; /* it alone has values that were quantized */
} ValueKinds;

/* The limit with numbers where it leaves them to that. */
void limit_settle(DemiLimit *limit, ValueKinds kinds);

/* True of a step that makes quantized values float. */
bool step_dequantizes(const DemiStep *step);

/* The reference: a session that has run, or a folder of NAME.npy or output_N.pb. */
typedef struct OutputReference {
    const char *name;       /* for messages: its path */
    const Session *session; /* NULL: a folder, `name` */
    const DemiData *values; /* [session->output_count]: of an earlier run; NULL: of the last one */
} OutputReference;

typedef VEC(DemiOutputError) OutputErrors;

/* Appends a row for each output of `session`, which has run, that the reference has too. ERR_USAGE
 * where it has none of them. */
bool output_errors(Arena *arena, const OutputReference *reference, const Session *session,
                   OutputErrors *rows, Err *err);

/* Is a the worse of two differences? What can't be compared first, then NaN and Inf. */
bool output_error_is_worse(const DemiDistance *a, const DemiDistance *b);

#endif
