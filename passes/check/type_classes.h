// SPDX-License-Identifier: Apache-2.0
/* Which values of a model have one element type, whatever that is, and what is known of it.
 *
 * Operands that share a type variable, a subgraph's formals and what its node reads and gives, a
 * function's formals and what its calls pass: all of a class have the same element type in every
 * valid model of these nodes. Casts that demi inserted count as if they were not there. What was
 * float before demi came, or is 16 bit of the author's own, is told by graph inputs and outputs,
 * attributes, custom operators and fixed operands; demi's marks (demi.was, demi.inserted) say which
 * 16-bit types are its own. */
#ifndef DEMI_TYPE_CLASSES_H
#define DEMI_TYPE_CLASSES_H

#include "graph.h"

enum {
    TYPE_SAID_FLOAT = 1, /* something of the class is float once demi's changes are taken back */
    TYPE_SAID_LOW = 2,   /* something is 16 bit by the author's own word */
};

typedef struct TypeClasses {
    uint32_t *parent; /* [value_count]: union-find by value id */
    uint8_t *said;    /* [value_count]: of roots: what is known, TYPE_SAID_ flags */
} TypeClasses;

/* In `scratch`. Types must be exact; values made later have no class. */
TypeClasses type_classes_build(const Model *model, Arena *scratch);

/* What is known of the value's class. */
unsigned type_classes_said(TypeClasses *classes, const Value *value);

#endif
