// SPDX-License-Identifier: Apache-2.0
/* Values that attributes name: xs, zs and y of ai.onnx.preview.training's Gradient are names, no
 * operands, so nothing else of a graph says that what they name is needed. */
#ifndef DEMI_VALUE_NAMES_H
#define DEMI_VALUE_NAMES_H

#include "graph.h"

/* What a name means in a graph: its value, or that of the nearest graph around it; NULL where there is
 * none. O(values of these graphs). */
Value *value_named(const Graph *graph, Bytes name);
/* The same of `count` names in one walk: an array in `scratch`. */
Value **values_named(const Graph *graph, const Bytes *names, uint32_t count, Arena *scratch);

/* True for a Gradient node. */
bool node_names_values(const Node *node);

/* Marks (Value.trained) what bindings of trainings have as keys; or takes the marks away, before the
 * trainings go. */
void model_mark_trained(const Model *model, bool trained);

/* Marks (Value.referenced) what Gradients name, and what is trained, once a model is read. */
void model_refer_named(Model *model, Arena *scratch);

#endif
