// SPDX-License-Identifier: Apache-2.0
/* Facts of operators that input_use.h rests on: what they ask of an operand, and which of them hand
 * values on. All are of ai.onnx. */
#ifndef DEMI_INPUT_USE_ROWS_H
#define DEMI_INPUT_USE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum InputFact {
    INPUT_FACT_INDEX,       /* into operand 0 along `axis`; number: where the attribute is absent */
    INPUT_FACT_COORDINATES, /* into the leading sizes of operand 0, after batch_dims */
    INPUT_FACT_POSITION,    /* into the table that operand 1 is, in order */
    INPUT_FACT_DEPTH,       /* below operand 1 */
    INPUT_FACT_FILL,        /* number serves whatever the rest is */
    INPUT_FACT_DIVISOR,     /* not 0, of integers */
    INPUT_FACT_CONDITION, /* of a branch: either will do, but of what is compared with a constant */
    INPUT_FACT_ASCENDING, /* axes */
    INPUT_FACT_RESHAPE,   /* a shape */
    INPUT_FACT_LENGTHS,   /* at most what operand 0 has along its time axis */
    INPUT_FACT_PARTS,     /* sizes that add up to what operand 0 has along `axis` */
} InputFact;

typedef struct InputRow {
    const char *op;
    uint32_t operand;
    InputFact fact;
    double number;
} InputRow;

/* The rows of an operator, which follow each other. */
const InputRow *input_use_rows(const char *op, size_t *count);

/* Do elements of operand i come out as they are, if in other places or of another type? */
bool input_use_moves(const char *op, uint32_t operand);

/* Is what comes out of it proportional to what goes in, or a sum with that? */
bool input_use_scales(const char *op);

/* Operators that hand on what is asked of their result in a way of their own. */
typedef enum InputGroup {
    INPUT_GROUP_NONE,
    INPUT_GROUP_SUM,
    INPUT_GROUP_PRODUCT,
    INPUT_GROUP_COMPARISON,
    INPUT_GROUP_CHOICE,
    INPUT_GROUP_LOGIC,
} InputGroup;
InputGroup input_use_group(const char *op);

#endif
