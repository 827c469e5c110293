// SPDX-License-Identifier: Apache-2.0
/* What single nodes are with their channels last: whether they can work so at all, which of their
 * operands come so, and the change itself. OpLayout (op_record.h) is the fact that all of it goes
 * by.
 *
 * A node's rank r is that of its outputs, or of what comes in where that has more axes. Axis i of (N, C, spatial …) is axis layout_axis(i, r) of
 * (N, spatial …, C).
 */
#ifndef DEMI_LAYOUT_NODE_H
#define DEMI_LAYOUT_NODE_H

#include "fuse_graph.h"

enum { LAYOUT_RANK_LEAST = 3, LAYOUT_RANK_MOST = 16 };

static inline int64_t layout_axis(int64_t axis, int64_t rank) {
    return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* True where the node can work on channels-last data. */
bool layout_can(const Node *node, Arena *scratch);

/* The axes that a node of LAYOUT_RANK makes or takes away, all spatial and counted from the front, of the
 * shape that has them; how many, 0 where they are not known. */
uint32_t layout_rank_axes(const Node *node, Arena *scratch, int64_t axes[LAYOUT_RANK_MOST]);

/* True where operand i of such a node is data that is laid out as its result is. */
bool layout_is_data(const Node *node, uint32_t i);

/* True where what makes such an operand can choose its layout. Constants are turned when the plan is
 * made. */
bool layout_follows(const Node *node, uint32_t i);

/* True where output i, which is there, is laid out as the first one. */
bool layout_turns(const Node *node, uint32_t i);

/* A Transpose from channels last to channels second (`back`), or the other way round. */
bool layout_is_turn(const Node *node, bool back);

/* How much less time the node takes with its channels last, in elements moved from one layout to
 * the other; 0 where neither is better. */
int64_t layout_gain(const Node *node, Arena *scratch);

/* What turning a value costs, in the same unit. */
int64_t layout_cost(const Value *value);

/* ---- changes --------------------------------------------------------------------------------- */

/* The value with its channels last, or (back) second again, made before `at`. */
Value *layout_turn(Fuse *fuse, Node *at, Value *value, bool back);

/* A node that can, changed in place or into another one. */
typedef struct LayoutChange {
    Fuse *fuse;
    Node *node;
    Value *const *inputs; /* [input_count]: those that follow, with their channels last */
    Value **outputs;      /* [output_count]: set to new values, of what turns; those before have no
                        producer then */
} LayoutChange;
void layout_change(const LayoutChange *change);

#endif
