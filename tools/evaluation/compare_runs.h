// SPDX-License-Identifier: Apache-2.0
/* Two runs value by value: every value of the second is held against that of the same name in the
 * reference, which is a run of another model, or files of values. Where the reference is a run, the
 * second is given its picks (picks.h), so that rows belong together behind them.
 *
 * A name may be given several times, in bodies of loops: then the first is held against the first.
 */
#ifndef DEMI_COMPARE_RUNS_H
#define DEMI_COMPARE_RUNS_H

#include "op_record.h"
#include "output_error.h"
#include "picks.h"
#include "session.h"
#include "sym.h"

/* A value of the run that the reference has too. */
typedef struct ComparedValue {
    uint32_t name;
    size_t step; /* index in `steps` */
    int32_t dtype, dtype_reference;
    const char *type; /* of the run's */
    DemiDistance diff;
} ComparedValue;

typedef struct ComparedStep {
    const char *name, *op_type;
    const OpRecord *record; /* of its operator; NULL where there is none */
    uint32_t depth;
    const uint32_t *inputs, *outputs; /* names */
    size_t input_count, output_count;
    size_t first, count; /* in `values` */
    size_t blamed; /* the step itself; of a Cast of what is not compared, the one that made that */
    bool low;      /* it reads or makes 16-bit floats, and is not a Cast */
    bool bad; /* a value of its is beyond the tolerance, or follows from one and is not compared */
    bool origin;                /* that began here: nothing it read was bad */
    double error, error_before; /* the largest of what it makes, by scale; of what it reads */
    double distance;            /* the largest of what it makes, as it is */
    size_t from; /* 1 + the step that made the operand with the largest distance; 0: none */
} ComparedStep;

typedef struct ReferenceValue {
    DemiData value;
    size_t next; /* 1 + index of the next of that name; 0: none */
} ReferenceValue;

typedef struct Comparison {
    Arena *arena;
    Workers *workers;
    SymTable names;
    const char *folder; /* of files as reference; else `reference` */
    VEC(ReferenceValue) reference;
    uint64_t kept;                /* bytes of it */
    VEC(size_t) first_of;         /* by name: 1 + index in `reference` */
    VEC(size_t) last_of, next_of; /* next_of: the next to be held against */
    VEC(int32_t) dtypes;          /* by name: of the 16-bit value that a Cast made it of; else 0 */
    Picks picks;
    VEC(ComparedStep) steps; /* of the last comparison_run */
    VEC(ComparedValue) values;
    PickRows picked;                     /* that differ */
    bool low;                            /* one of them has 16-bit values */
    bool quantized_reference, quantized; /* values of it, or of the last run, are quantized */
    int32_t low_type;                    /* of the last run; 0 where it has none */
    Session *session;                    /* within a run */
    Err err;                             /* of reading a file within the run */
} Comparison;

void comparison_init(Comparison *comparison, Arena *arena, unsigned threads);

/* Runs the reference, whose inputs are bound, and keeps its values. */
bool comparison_reference(Comparison *comparison, Session *session, Err *err);
/* Runs another one, bound too, and compares; what an earlier one has shown is forgotten. */
bool comparison_run(Comparison *comparison, Session *session, Err *err);

/* Marks steps as bad where a value is beyond the limit. */
void comparison_judge(Comparison *comparison, const DemiLimit *limit);

/* What was compared under that name last; NULL where nothing was. */
const DemiDistance *comparison_output(const Comparison *comparison, const char *name);

#endif
