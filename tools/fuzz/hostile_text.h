// SPDX-License-Identifier: Apache-2.0
/* Models as text around one node of any operator: neighbors that run low, operands of the types
 * that its definition has, required attributes; and one thing that is not as it should be. */
#ifndef DEMI_HOSTILE_TEXT_H
#define DEMI_HOSTILE_TEXT_H

#include "ops.h"

/* Where the node stands. In a function its odd attribute is given by the call. */
typedef enum HostilePlace {
    HOSTILE_MAIN,
    HOSTILE_BRANCH,
    HOSTILE_FUNCTION,
    HOSTILE_PLACES
} HostilePlace;

typedef struct HostileNode {
    const OpSchema *schema;
    HostilePlace place;
    uint64_t style;    /* bits that choose where operands come from and what is left out */
    int untyped;       /* the operand that is a custom operator's output; -1: none */
    const char *odd;   /* the attribute that is odd; NULL: none */
    const char *value; /* of that: ": kind = value" as text has it; NULL: it is left out */
} HostileNode;

/* How many operands a node of that operator is given at most. */
unsigned hostile_text_operands(const OpSchema *schema);

/* The model; in `arena`. */
const char *hostile_text(const HostileNode *node, Arena *arena);

/* ": kind = value" of an attribute of kind `says` whose field for kind `holds` is filled
 * (ATTR_UNDEFINED: none). A kind that is UNDEFINED is one that no number stands for. */
const char *hostile_text_value(AttrType says, AttrType holds, Arena *arena);

#endif
