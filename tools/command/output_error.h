// SPDX-License-Identifier: Apache-2.0
/* How far one run's outputs are from another's, and how far they may be: what compare and check
 * share. Outputs belong together by name, else by position where both runs have as many. */
#ifndef DEMI_OUTPUT_ERROR_H
#define DEMI_OUTPUT_ERROR_H

#include "json_write.h"
#include "session.h"
#include "value_compare.h"

typedef struct Limit {
    double error; /* largest difference by the largest magnitude of the reference */
    double least; /* differences up to it are fine all the same */
} Limit;

/* From --max-error and --atol; what is fine otherwise depends on whether one of both runs has
 * 16-bit values (`low`). ERR_USAGE where a word is not a number. */
bool limit_find(const Parsed *parsed, bool low, Limit *limit, Err *err);
bool limit_beyond(const Limit *limit, const ValueDiff *diff);

/* The reference: a session that has run, or a folder of NAME.npy or output_N.pb. */
typedef struct OutputReference {
    const char *name;       /* for messages: its path */
    const Session *session; /* NULL: a folder, `name` */
    const DemiData *values; /* [session->output_count]: of an earlier run; NULL: of the last one */
} OutputReference;

typedef struct OutputError {
    const char *output;
    ValueDiff diff;
} OutputError;
typedef VEC(OutputError) OutputErrors;

/* Appends a row for each output of `session`, which has run, that the reference has too. ERR_USAGE
 * where it has none of them. */
bool output_errors(Arena *arena, const OutputReference *reference, const Session *session,
                   OutputErrors *rows, Err *err);

/* Is a the worse of two differences? What can't be compared first, then NaN and Inf. */
bool output_error_is_worse(const ValueDiff *a, const ValueDiff *b);

/* What is wrong with a value that is beyond its limit, as a phrase. */
const char *output_error_text(Arena *arena, const ValueDiff *diff);

/* The fields of a difference, into an open object; `limit` for "beyond". */
void output_error_json(JsonWriter *json, const ValueDiff *diff, const Limit *limit);

#endif
