// SPDX-License-Identifier: Apache-2.0
/* What the steps of upgrade-opset are made with.
 *
 * The pass asks first and acts then: every row's check sees the model as it was read, and only when
 * all agree are the rows applied, none of which can fail. A check therefore asks every question
 * that its apply does: types are inferred when the first is asked, and not again after the first
 * change. Types inside function bodies are those of some call, so they count as unknown there.
 *
 * Nodes that a step adds are written in the form of the step's own opset and upgraded from there
 * like any other.
 */
#ifndef DEMI_UPGRADE_H
#define DEMI_UPGRADE_H

#include "opset_steps.h"
#include "pass.h"
#include "wrong_shapes.h"

typedef struct NewNode {
    Node *node;
    int64_t opset; /* whose form it has */
} NewNode;

struct Upgrade {
    PassCtx *ctx;
    Model *model;
    int64_t to;
    bool inferred; /* types are as good as they get */
    bool applying; /* the checks are over */
    VEC(NewNode) added;
    WrongShapes wrong;     /* found by the checks: newer operators let more be inferred */
    const Node *upsampled; /* the last node that was an Upsample */
};

/* The rows that are data: whether a row can be applied to node, which is valid by `older`. */
bool upgrade_check_row(Upgrade *upgrade, const Node *node, const OpsetStep *row,
                       const OpSchema *older, Err *err);
void upgrade_apply_row(Upgrade *upgrade, Node *node, const OpsetStep *row);

/* ERR_MODEL "no upgrade from opset A to opset B: WHY", naming the node. Returns false. */
bool upgrade_refuse(const Upgrade *upgrade, const Node *node, Err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- questions; each may infer types --------------------------------------------------------- */

/* Infers once; what can't be inferred is unknown. */
void upgrade_infer(Upgrade *upgrade);
/* What is known of an actual input: NULL where it is absent, or nothing is known. */
const Type *upgrade_input_type(Upgrade *upgrade, const Node *node, uint32_t input);
/* Its rank, -1 where unknown; its element type, UNDEFINED where unknown. */
int64_t upgrade_rank(Upgrade *upgrade, const Node *node, uint32_t input);
Dtype upgrade_dtype(Upgrade *upgrade, const Node *node, uint32_t input);
/* Its dimension i, -1 where unknown. */
int64_t upgrade_dim(Upgrade *upgrade, const Node *node, uint32_t input, uint32_t i);
/* The value of an actual input; NULL where omitted or left out. */
Value *upgrade_input(const Node *node, uint32_t input);
/* Its elements where it is an integer constant of at most 4096 elements. */
bool upgrade_constant_ints(Upgrade *upgrade, const Node *node, uint32_t input, int64_t **values,
                           uint64_t *count);

/* True where the attribute is a parameter of the function the node lies in. */
bool upgrade_is_parameter(const Attr *attr);
/* True where it is one, and a call may leave it out. */
bool upgrade_may_be_absent(const Node *node, const Attr *attr);
/* The attribute's text equals; false where absent or a parameter. */
bool upgrade_attr_is(const Node *node, const char *name, const char *text);
/* False, refusing, where any of the attributes (space-separated) is a parameter. */
bool upgrade_check_plain(const Upgrade *upgrade, const Node *node, const char *names, Err *err);
/* True where upgrade_scalar_like can make a constant of the type of that input. */
bool upgrade_can_make_like(Upgrade *upgrade, const Node *node, uint32_t input);

/* ---- making; stems name what is made: OUTPUT_stem -------------------------------------------- */

/* A new value of the node's graph, without producer. */
Value *upgrade_value(Upgrade *upgrade, const Node *at, const char *stem);
/* A constant for `at`: an initializer, or in function bodies and before IR 4 a Constant node. */
Value *upgrade_constant(Upgrade *upgrade, Node *at, const Tensor *tensor, const char *stem);
Value *upgrade_ints(Upgrade *upgrade, Node *at, const int64_t *values, uint32_t count,
                    const char *stem);
Value *upgrade_int(Upgrade *upgrade, Node *at, int64_t value, uint32_t rank, const char *stem);
Value *upgrade_floats(Upgrade *upgrade, Node *at, const float *values, uint32_t count,
                      const char *stem);
Value *upgrade_bool(Upgrade *upgrade, Node *at, bool value, const char *stem);
/* A scalar of the element type of input 0. upgrade_can_make_like must have agreed. */
Value *upgrade_scalar_like(Upgrade *upgrade, Node *at, float value, const char *stem);
/* The attribute as a value: a constant of rank 0 or 1, or a Constant node that reads the function's
 * parameter. INT, INTS and FLOATS. */
Value *upgrade_attr_value(Upgrade *upgrade, Node *at, const Attr *attr, uint32_t rank);

/* A node op(inputs) -> one new value, before `before` (NULL: last in at's graph); it has the form
 * of `opset` and is upgraded from there. inputs end with NULL. */
Value *upgrade_node(Upgrade *upgrade, Node *at, Node *before, const char *op, int64_t opset,
                    Value *const *inputs, const char *stem);
/* Gives the node a new value for output i and returns the old one, which now has no producer. */
Value *upgrade_detach_output(Upgrade *upgrade, Node *node, uint32_t i, const char *stem);
/* Makes value the only output of the node that produced `made`, which is dropped. */
void upgrade_move_output(Value *made, Value *value);

/* Makes value actual input i, growing the list as needed. */
void upgrade_set_input(Node *node, uint32_t i, Value *value);

/* ---- rows that are code ---------------------------------------------------------------------- */

#define UPGRADE_CODES(X)                                                                           \
    X(axis_broadcast)                                                                              \
    X(batch_norm_mode)                                                                             \
    X(batch_norm_operands)                                                                         \
    X(batch_norm_outputs)                                                                          \
    X(cast_to)                                                                                     \
    X(clip_bounds)                                                                                 \
    X(dropout_mask)                                                                                \
    X(dropout_mode)                                                                                \
    X(dropout_ratio)                                                                               \
    X(flat_softmax)                                                                                \
    X(group_norm_scale)                                                                            \
    X(lp_power)                                                                                    \
    X(one_hot_range)                                                                               \
    X(pad_value)                                                                                   \
    X(prelu_slope)                                                                                 \
    X(resize_coordinates)                                                                          \
    X(resize_operands) X(scan_batch) X(split_count) X(split_sizes) X(upsample_scales)

#define X(name)                                                                                    \
    bool upgrade_check_##name(Upgrade *upgrade, const Node *node, Err *err);                       \
    void upgrade_apply_##name(Upgrade *upgrade, Node *node);
UPGRADE_CODES(X)
#undef X

#endif
