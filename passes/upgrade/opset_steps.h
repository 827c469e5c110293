// SPDX-License-Identifier: Apache-2.0
/* The steps between the versions of the default domain's operators: the UPGRADE rows of operators/.
 * A step is (operator, opset): from the version before that opset to the one that begins there. It
 * has no rows where only the allowed types grew. */
#ifndef DEMI_OPSET_STEPS_H
#define DEMI_OPSET_STEPS_H

#include <stddef.h>

#include "graph.h"
#include "op_id.h"
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

/* The rows of a step in the order of application, *count of them; NULL and 0 where there are none. */
const OpsetStep *opset_step_rows(const char *op, int64_t to, size_t *count);

/* All rows of an operator, *count of them, sorted by version. */
const OpsetStep *opset_steps(OpId op, size_t *count);

/* True where a node valid by `older` means the same by `newer`, its types apart: the same operands
 * in number and in what may be left out (required ones may have become optional), and the same
 * attributes with the same types and defaults. */
bool opset_step_keeps_form(const OpSchema *older, const OpSchema *newer);

/* True where every type that an operand may have by `older` it may have by `newer`. */
bool opset_step_keeps_types(const OpSchema *older, const OpSchema *newer);

#endif
