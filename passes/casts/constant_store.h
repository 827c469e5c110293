// SPDX-License-Identifier: Apache-2.0
/* Storing constants in a narrower float type: what cast-params and insert-casts{store=true} share.
 * Data is converted when it is written: no copy is held. */
#ifndef DEMI_CONSTANT_STORE_H
#define DEMI_CONSTANT_STORE_H

#include "pass.h"

typedef struct ConstantStore {
    PassCtx *ctx;
    bool clamp; /* finite values past the type's range become its largest one, not Inf */
    TypeMemo types;
} ConstantStore;

/* The constant's tensor, where it is one that can be stored in another type: of a float type, sound,
 * and named by nothing outside the graph. Else NULL. */
const Tensor *constant_storable(const Value *value);

/* Counts what storing the constant as `to` does to its values, for the report. False with *err set
 * where its data can't be read. */
bool constant_count_loss(ConstantStore *store, const Value *value, const Tensor *tensor, Dtype to,
                         Err *err);

/* The tensor as `to`. */
const Tensor *constant_as(ConstantStore *store, const Tensor *tensor, Dtype to);

/* Notes that a Constant node is stored in the reduced type. */
void constant_note(Node *node, Dtype to);

/* Makes that the constant's data, and `to` its type. What reads it is the caller's. */
void constant_store(ConstantStore *store, Value *value, const Tensor *tensor, Dtype to);

#endif
