// SPDX-License-Identifier: Apache-2.0
/* What of a model has one precision: the units that a search decides about.
 *
 * A group is what one node makes, or one input of the model, and the weights of all products that read
 * it: a product computes in the precision of what it reads, so its weights have that, too. What only
 * moves data (Reshape, Transpose, Slice, …) hands its operand's group on. Weights that products of
 * several groups share join these, since they are stored once. Groups are numbered in the order of
 * their first value, whatever memory lies where.
 *
 * Nodes of inner graphs and of functions have none and stay float; so does what does not depend on the
 * model's inputs. A product of two values that are made is work of two groups.
 */
#ifndef DEMI_GROUPS_H
#define DEMI_GROUPS_H

#include "arena.h"
#include "graph.h"
#include "op_record.h"

enum { GROUP_NONE = UINT32_MAX };

typedef VEC(const Value *) GroupValues;
typedef VEC(const Node *) GroupNodes;

typedef struct Group {
    GroupValues values;  /* float32, as their node makes them or as inputs: at least one */
    GroupValues weights; /* float32 constants, each in one group */
    GroupNodes readers;  /* that compute with it: not those that move data */
    bool keeps_values; /* that are never integers, whatever its candidate is: the model's outputs */
} Group;

/* The i-th of a group's values and, behind them, weights. */
static inline const Value *group_part(const Group *group, size_t i) {
    const size_t values = group->values.count;
    return i < values ? group->values.items[i] : group->weights.items[i - values];
}

/* A node whose multiplications are counted. */
typedef struct GroupWork {
    const Node *node;
    uint32_t left, right; /* groups of its two factors; right is left's where that is weights, and
                               GROUP_NONE where a factor is neither in a group nor a weight */
    const Value *weights; /* the factor that is constant, or NULL */
} GroupWork;

typedef struct Groups {
    Group *items; /* [count] */
    uint32_t count;
    VEC(GroupWork) works;
    uint32_t value_count;     /* of the model, when they were found */
    const uint32_t *of_value; /* [value_count]: the value's group, through what moves it too;
                                 or a weight's; GROUP_NONE */
} Groups;

/* A node that reads a group and makes another. */
typedef struct GroupEdge {
    uint32_t from, to;
} GroupEdge;

/* All of them, by group that is read, once for each node; in `arena`. */
const GroupEdge *groups_edges(const Groups *groups, size_t *count, Arena *arena);

/* Says of the groups of the model's outputs that they keep their values. */
void groups_keep_outputs(Groups *groups, const Model *model);

/* Finds the groups of the model's main graph, whose types are exact. In `arena`. */
void groups_find(Groups *groups, const Model *model, Arena *arena);

#endif
