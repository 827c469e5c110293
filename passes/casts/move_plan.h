// SPDX-License-Identifier: Apache-2.0
/* Where to convert between two types: the plan that move-casts carries out.
 *
 * A site is a node that only moves data (FLAGS of operators/) and can do so in either of two types. Its
 * precision is free where no value changes by it, whatever the others' is:
 *   - everything it moves was of the narrow type at the beginning (`fits`), or
 *   - everything that becomes of it is read in the narrow type in the end (not `needs`).
 * All other nodes, graph inputs and outputs stay as they are. A value that some reader wants in the
 * other type costs one cast of as many elements as it has, shared by all readers in all graphs. The
 * plan is a minimum cut, so the elements converted are the fewest there can be.
 *
 * A constant is a value like any other: small ones are looked at for whether they fit, and a cast
 * of one counts, although cast-params may store it so later.
 *
 * Known dimensions count as they are, symbolic and unknown ones as 64. So a node is a site only
 * where that can't mislead: its operator says which side is larger (Slice, Expand, Transpose, …),
 * or both sides' dimensions are known but for symbols that cancel out.
 */
#ifndef DEMI_MOVE_PLAN_H
#define DEMI_MOVE_PLAN_H

#include "pass.h"

typedef struct MoveSite {
    Node *node;
    uint8_t moved;     /* bit i: input i is moved; the last bit also stands for all that follow */
    bool low, planned; /* narrow now; narrow by the plan */
    bool fits, needs;
    uint32_t group; /* union-find: sites that decide together */
    uint32_t flow;  /* its node in the network */
} MoveSite;

typedef struct MovePlan {
    PassCtx *ctx;
    Dtype wide, narrow; /* every narrow value is a wide one too */
    bool chained;       /* set where casts of casts were met: what moves may make room for more */
    VEC(MoveSite) sites;
    uint32_t *site_of;   /* [node_count]: index + 1, or 0 */
    uint32_t node_count; /* size of that */
    VEC(Value *) values; /* that a site reads or gives; none is the result of a shared cast */
    uint32_t *listed;    /* [value_count]: place in values + 1, or 0 */
    struct MoveReaders *readers; /* [values.count] */
    uint64_t *elements;          /* [value_count]: 0: not asked yet */
    const Type **shapes;         /* [value_count]: the best known; NULL: not asked yet */
    bool *visited;               /* [node_count] */
} MovePlan;

/* A reader of a value, directly or through a cast that the plan may move. */
typedef struct MoveReader {
    Use *use;
    bool low;      /* what it wants now */
    uint32_t site; /* index + 1 where its site decides, else 0 */
} MoveReader;

typedef struct MoveReaders {
    VEC(MoveReader) list;
} MoveReaders;

/* Plans for the pair. False where nothing is to be gained. */
bool move_plan_make(MovePlan *plan);

/* True for a cast between the two types that demi put beside its operand, which is no such cast. */
bool move_plan_is_shared_cast(const MovePlan *plan, const Node *cast);

#endif
