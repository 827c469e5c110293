// SPDX-License-Identifier: Apache-2.0
/* Precision classes: in which precision a policy wants an operator, before legality, exclusions and
 * neighbors have their say. The classes are IS rows of operators/. */
#ifndef DEMI_OP_CLASS_H
#define DEMI_OP_CLASS_H

#include "graph.h"
#include "op_record.h"
#include "ops.h"
#include "pass.h"

typedef struct OpClassAnswer {
    OpClass op_class;
    const char *why; /* phrase where a condition of the node decided; NULL where the table did */
} OpClassAnswer;

/* Operators, optionally DOMAIN.OPERATOR, that are to be of a class. A list of plain names replaces
 * the policy's list of that class; +OPERATOR moves one there, -OPERATOR takes one out of it (into
 * no list, unless another one has it), -* takes out all. */
typedef struct OpClassLists {
    PassStrings low, fp32, follow, widest;
    PassStrings fp32_when;           /* op_condition.h: nodes with that attribute stay fp32 */
    const OpSchema *const *declared; /* [declared_count]: operators of the user's own */
    size_t declared_count;
} OpClassLists;

/* A policy with its lists changed. */
typedef struct OpClasses OpClasses;

/* In `arena`, which must live as long as the reasons op_class_of gives. NULL with ERR_USAGE where a
 * list or condition has an unknown operator, or two lists have the same one: a default list counts
 * where no plain name replaces it. */
const OpClasses *op_classes_new(Policy policy, const OpClassLists *lists, Arena *arena, Err *err);

/* The class of one node; conditions on its attributes and operands included. Types of its inputs
 * must be known (infer-dtypes). */
OpClassAnswer op_class_of(const Node *node, const OpClasses *classes);

/* Whether the node's version of QuantizeLinear or DequantizeLinear takes scales of 16-bit types, which what is
 * around it can be in then. */
bool op_takes_reduced_scales(const Node *node);

/* What differs from the policy's own lists, as +NAME and -NAME, and the conditions; in `arena`. */
OpClassLists op_classes_changes(const OpClasses *classes, Arena *arena);

/* All operators of a class, as lists name them; in `arena`. */
PassStrings op_classes_list(const OpClasses *classes, OpClass op_class, Arena *arena);

/* The record's class, without conditions; CLASS_NONE for unknown names. */
OpClass op_class_lookup(const char *domain, const char *op_type, Policy policy);

/* True where some policy lowers the operator for its own sake: convolutions, products of matrices,
 * attention, recurrent layers. Its weights are what a model is large by. */
bool op_class_is_product(const char *domain, const char *op_type);

/* "LOW", "FP32", "FOLLOW", "WIDEST", "NONE". */
const char *op_class_name(OpClass op_class);

#endif
