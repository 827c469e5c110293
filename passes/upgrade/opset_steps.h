// SPDX-License-Identifier: Apache-2.0
/* The steps between the versions of the default domain's operators; the table is opset_steps.def.
 * A step is (operator, opset): from the version before that opset to the one that begins there. It
 * has no rows where only the allowed types grew. */
#ifndef DEMI_OPSET_STEPS_H
#define DEMI_OPSET_STEPS_H

#include <stddef.h>

#include "graph.h"
#include "ops.h"

typedef enum StepKind {
    STEP_SAME,
    STEP_NARROWER,
    STEP_DROP,
    STEP_ONLY_INT,
    STEP_RENAME,
    STEP_RENAME_VALUE,
    STEP_DEFAULT_INT,
    STEP_DEFAULT_FLOAT,
    STEP_DEFAULT_STRING,
    STEP_INTS_INPUT,
    STEP_FLOATS_INPUT,
    STEP_INT_INPUT,
    STEP_OPERATOR,
    STEP_CODE,
    STEP_REFUSE,
} StepKind;

typedef struct Upgrade Upgrade;

typedef struct OpsetStep {
    const char *op;
    int32_t to; /* first opset of the newer version */
    StepKind kind;
    const char *attr;    /* the attribute the row is about, or NULL */
    const char *text;    /* new name, word before, default, or why */
    const char *word;    /* RENAME_VALUE: the word after */
    int32_t input, rank; /* *_INPUT */
    int64_t integer;     /* ONLY_INT, DEFAULT_INT */
    float number;        /* DEFAULT_FLOAT */
    bool (*check)(Upgrade *upgrade, const Node *node, Err *err); /* CODE */
    void (*apply)(Upgrade *upgrade, Node *node);
} OpsetStep;

/* The rows of a step in the order of application, *count of them; NULL and 0 where there are none.
 * O(log rows). */
const OpsetStep *opset_step_rows(const char *op, int64_t to, size_t *count);

/* All rows, 0 <= index < opset_step_count(). */
size_t opset_step_count(void);
const OpsetStep *opset_step_at(size_t index);

/* True where a node valid by `older` means the same by `newer`, its types apart: the same operands
 * in number and in what may be left out (required ones may have become optional), and the same
 * attributes with the same types and defaults. */
bool opset_step_keeps_form(const OpSchema *older, const OpSchema *newer);

/* True where every type that an operand may have by `older` it may have by `newer`. */
bool opset_step_keeps_types(const OpSchema *older, const OpSchema *newer);

#endif
