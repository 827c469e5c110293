// SPDX-License-Identifier: Apache-2.0
/* Whether a model computes in integers already, as dynamically quantized ones do: 16-bit floats gain
 * nothing there, since what is left of floats is between quantizing and scaling back. */
#ifndef DEMI_INTEGER_PRODUCTS_H
#define DEMI_INTEGER_PRODUCTS_H

#include "pass.h"

/* Products with weights: convolutions, products of matrices and recurrent layers that read constants, as
 * they are or behind nodes of one operand. */
typedef struct IntegerProducts {
    size_t integers, all; /* `integers` multiply 8-bit weights as integers */
} IntegerProducts;

IntegerProducts integer_products_count(const Model *model, Arena *scratch);

/* True where nearly all are of integers: nine of ten or more. */
bool integer_products_are_most(IntegerProducts products);

/* Why a node of such a model stays in fp32. */
extern const char integer_products_reason[];

/* Gives all nodes that reason that have none yet, [node_count], but for those that take rows of a
 * table: these read weights, and convert only what is taken. */
void integer_products_exclude(const Model *model, const char **excluded, Arena *scratch);

/* The same, with another reason, for what quantizes rows at run time, and scales their products: their scales are
 * found in fp32. */
void integer_products_exclude_rows(const Model *model, const char **excluded, Arena *scratch);

#endif
