// SPDX-License-Identifier: Apache-2.0
/* Checks of a model.
 *
 * model_verify checks the structure's own invariants (use lists, ownership, names unique in their
 * graph, definitions before uses, everything that is read is defined, tensors as long as their
 * shapes say, attributes that hold what they and the operators' definitions say). It holds for
 * every valid model and after every pass; passes rely on it and are tested with it.
 * Operators are checked against their schemas by model_check. Both take memory from `scratch`.
 */
#ifndef DEMI_VERIFY_H
#define DEMI_VERIFY_H

#include "graph.h"

/* ERR_MODEL naming the graph and node of the first violation. */
bool model_verify(const Model *model, Arena *scratch, Err *err);

/* model_verify, and every node of a known operator against its schema at the imported opset:
 * the operator exists there and is not deprecated, input and output counts, names of attributes. */
bool model_check_operators(const Model *model, Arena *scratch, Err *err);

/* Of one node of a known operator: the allowed types of every operand, and that operands of one
 * type variable agree. Unknown types are not judged. */
bool node_check_types(const Node *node, Err *err);

/* That no operator is deprecated at its opset: runtimes have such, and their definitions are empty. */
bool model_check_deprecated(const Model *model, Arena *scratch, Err *err);

/* Both, and node_check_types of every node by the types that are known. */
bool model_check(const Model *model, Arena *scratch, Err *err);

/* The rules of form that the ONNX specification has beside these, and no reader of ours needs: what
 * the model and its graphs must say, how often names may be used, what functions must be like, how
 * sparse tensors are stored. The model has passed model_verify. ERR_MODEL names the first breach.
 */
bool model_check_form(const Model *model, Arena *scratch, Err *err);

/* One more such rule: inputs and outputs declare types with shapes. Models that lack them run. */
bool model_check_interface(const Model *model, Arena *scratch, Err *err);

/* The node's part of model_verify: its attributes are whole (check_attrs.c), of the kinds that its
 * operator's definition has, and those that it requires are there; one of the default domain has an
 * opset. */
bool node_attrs_check(const Node *node, Err *err);

/* "int", "tensor", ... "unknown" for a number that is none. */
const char *attr_type_name(AttrType type);

#endif
