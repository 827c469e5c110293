// SPDX-License-Identifier: Apache-2.0
/* Two runs value by value: every value of the second is held against that of the same name in the
 * reference, which is a run of another model, or files of values.
 *
 * A name may be given several times, in bodies of loops: then the first is held against the first.
 */
#ifndef DEMI_COMPARE_RUNS_H
#define DEMI_COMPARE_RUNS_H

#include "output_error.h"
#include "session.h"
#include "sym.h"

/* A value of the run that the reference has too. */
typedef struct ComparedValue {
    uint32_t name;
    size_t step; /* index in `steps` */
    int32_t dtype, dtype_reference;
    const char *type; /* of the run's */
    ValueDiff diff;
} ComparedValue;

typedef struct ComparedStep {
    const char *name, *op_type;
    uint32_t depth;
    const uint32_t *inputs, *outputs; /* names */
    size_t input_count, output_count;
    size_t first, count; /* in `values` */
    size_t blamed; /* the step itself; of a Cast of what is not compared, the one that made that */
    bool bad; /* a value of its is beyond the tolerance, or follows from one and is not compared */
    bool origin; /* that began here: nothing it read was bad */
} ComparedStep;

typedef struct ReferenceValue {
    DemiData value;
    size_t next; /* 1 + index of the next of that name; 0: none */
} ReferenceValue;

typedef struct Comparison {
    Arena *arena;
    SymTable names;
    const char *folder; /* of files as reference; else `reference` */
    VEC(ReferenceValue) reference;
    VEC(size_t) first_of; /* by name: 1 + index in `reference` of the next to be held against */
    VEC(size_t) last_of;
    VEC(ComparedStep) steps;
    VEC(ComparedValue) values;
    bool low; /* one of them has 16-bit values */
    Err err;  /* of reading a file within the run */
} Comparison;

void comparison_init(Comparison *comparison, Arena *arena);

/* Runs the reference and keeps its values. */
bool comparison_reference(Comparison *comparison, Session *session, Err *err);
/* Runs the other one and compares. */
bool comparison_run(Comparison *comparison, Session *session, Err *err);

/* Marks steps as bad where a value is beyond the limit. */
void comparison_judge(Comparison *comparison, const Limit *limit);

#endif
