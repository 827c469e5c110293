// SPDX-License-Identifier: Apache-2.0
/* Are a model's types right: do all operands, subgraphs and declarations agree? As ONNX's strict
 * inference asks it, but for shapes. */
#ifndef DEMI_STRICT_TYPES_H
#define DEMI_STRICT_TYPES_H

#include "pass.h"

/* What a file declares of each value, [value_count] by id, NULL where nothing: as an output, else
 * as an input, else (with infos) by a value_info entry. In `arena`. */
const Type **declared_types(const Model *model, bool infos, Arena *arena);

/* Infers all types anew, from the graph inputs and constants on, and compares. ERR_MODEL names the
 * first node whose operands or subgraphs do not fit its definition, or the value that is not of the
 * type declared; value_info entries count with infos. Values have exact types
 * afterwards. */
bool strict_types(PassCtx *ctx, bool infos, Err *err);

/* Infers alone, with what is declared of values that are not operators' results: nothing that is declared of
 * those is looked at, and their types must have been forgotten. */
bool strict_types_infer(PassCtx *ctx, Err *err);

/* The same for shapes: known ranks and dims against declared ones. Shapes have been inferred. */
bool strict_shapes(const Model *model, const Type *const *declared, Arena *scratch, Err *err);

#endif
