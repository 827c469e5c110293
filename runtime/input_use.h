// SPDX-License-Identifier: Apache-2.0
/* What a plan does with its inputs, as far as it limits which values they may have: an index stays
 * within its table, a mask lets everything through, a count is not negative. Commands that make
 * inputs (--random) draw them by it, so that any model runs on them.
 *
 * It is found from the operators that read an input, directly or behind operators that only move,
 * cast, shift or compare values; never from a run. The same model gives the same answer however it
 * was compiled: what is fused are products and normalizations, which end the search anyway.
 */
#ifndef DEMI_INPUT_USE_H
#define DEMI_INPUT_USE_H

#include "arena.h"
#include "demi_runtime.h"

typedef enum InputUseKind {
    INPUT_ANY,       /* nothing is known */
    INPUT_RANGE,     /* whole numbers from low to high */
    INPUT_FILL,      /* every element is `fill`: masks, counts, scales */
    INPUT_ASCENDING, /* 0, 1, 2, ... along the last axis: positions, axes; at most `high` */
    INPUT_RESHAPE, /* a shape to reshape to: the first size follows from the others, which are 1 */
    INPUT_PARTS,   /* sizes of parts: they add up to `high` */
} InputUseKind;

/* A bound of the kind "less than a size that the model leaves open" has that size's name. */
typedef struct InputUse {
    InputUseKind kind;
    int64_t low, high;    /* both inclusive */
    const char *high_dim; /* high is this symbolic size, less `less`; NULL: `high` it is */
    int64_t less;
    double fill;
    bool avoids; /* never `avoided`: a padding token */
    int64_t avoided;
} InputUse;

#define INPUT_USE_ANY                                                                              \
    { INPUT_ANY, INT64_MIN, INT64_MAX, NULL, 0, 0, false, 0 }

/* What is known of each input, [demi_plan_input_count], in `arena`. */
InputUse *input_uses(const DemiPlan *plan, Arena *arena);

/* The inputs that the step called `step` computes its operands from, the nearest and integers
 * first; writes at most `most` of their numbers and returns how many there are. */
size_t input_use_of_step(const DemiPlan *plan, const char *step, Arena *arena, size_t *inputs,
                         size_t most);

/* The plan behind the handle (demi_runtime.c). */
struct LoadedPlan;
const struct LoadedPlan *demi_plan_loaded(const DemiPlan *plan);

#endif
