// SPDX-License-Identifier: Apache-2.0
/* Cast placement as a problem: what may run low, what is tied to what, and what was decided.
 *
 * There is one binary variable, low or fp32, per node and type variable that holds float tensors
 * (or sequences or optionals of them); a slot of a subgraph or a function's formal is one variable
 * too. A value has the precision of its producer's variable, a use needs that of its reader's;
 * where they differ, one Cast is shared by all uses of that value. Type variables of a node that
 * must agree, and both ends of a sequence, are tied: one decision for all.
 *
 * placement_build makes the problem (classes, legality, exclusions, value guard), a solver decides,
 * insert_casts.c realizes. A solver only sets `low`.
 */
#ifndef DEMI_PLACEMENT_H
#define DEMI_PLACEMENT_H

#include "op_class.h"
#include "pass.h"
#include "placement_cost.h"

typedef uint32_t VarId;
enum {
    VAR_NONE = UINT32_MAX, /* no float32 there: nothing to decide */
    VAR_FP32 = 0, /* the variable that is always fp32: fixed types, kept inputs and outputs */
};

typedef struct PlaceVar {
    VarId tie;          /* union-find parent */
    bool pinned;        /* stays fp32 */
    bool wants_low;     /* goes low unless pinned */
    bool all;           /* goes low only where all its sources are; else one suffices */
    bool computes;      /* follows its data (input 0) alone: goes low only where that is. Not so an
                         operator that only moves data, before which a value may be cast as well
                         as behind: one that computes would see values, and ranges, that it was
                         never given */
    bool slot;          /* a subgraph slot or formal */
    bool flexible;      /* reads constants only: follows its readers instead */
    bool low;           /* the decision; only roots' counts */
    bool aside;         /* an operand that the operator keeps in fp32 whatever the others are */
    bool precise;       /* 16 bits are too few for what its nodes compute (placement_precise.c) */
    uint8_t kind;       /* a NoteKind: of `reason` */
    const char *reason; /* why it is pinned itself; NULL where it is not, or a tie alone pins it */
    const Node *node;   /* whose variable it is; NULL for graph inputs and outputs */
    VarId culprit;      /* of a pinned root: the variable that was pinned first */
} PlaceVar;

/* What becomes of constants whose values the target can't hold. */
typedef enum PlacementGuard {
    GUARD_NONE,  /* nothing: they overflow, or become 0 */
    GUARD_PIN,   /* their readers stay in fp32 */
    GUARD_CLAMP, /* as PIN, but what overflows and is read directly is left to be clamped */
    GUARD_LOOK,  /* they are marked in Placement.guarded only */
} PlacementGuard;

typedef struct PlacementRequest {
    Dtype target; /* DTYPE_FLOAT16 or DTYPE_BFLOAT16 */
    Policy policy;
    const OpClasses *classes; /* of that policy */
    bool uniform;             /* a BatchNormalization's operands have one type, statistics too */
    bool keep_defaults;       /* but for io_low's inputs that have a default value */
    bool io_low;              /* graph inputs and outputs become low too; or, by position, */
    const bool *low_inputs, *low_outputs; /* those of the main graph; NULL: none */
    const char *const *excluded;          /* [node_count]: why a node stays in fp32, or NULL */
    bool is_integer;                      /* of nearly all, as the model is int8 already */
    PlacementGuard guard;
    bool keep_streams; /* what accumulates, and what only outputs depend on, stays fp32 */
} PlacementRequest;

typedef struct Placement {
    Model *model;
    Arena *scratch;
    PlacementRequest request;
    GraphList graphs;
    VEC(PlaceVar) vars;
    VarId *value_vars; /* [value_count] of the producer */
    Value **values;    /* [value_count], NULL for ids of undefined or dropped values */
    bool *constant;    /* [value_count] */
    bool *training;    /* [graph_count]: it is part of a training graph */
    bool *stays;       /* [node_count]: of a training, it is not decided (placement_training.c) */
    bool *flexible;    /* [value_count]: a constant, or computed from constants only */
    bool *unharmed;    /* [value_count]: a constant that the target holds without loss, where that
                           was looked at; NULL without a guard */
    const char **guarded; /* [value_count]: what the target can't hold of it, or NULL; NULL without
                             a guard */
    VarId *use_vars;      /* [use_count]: what a use's precision follows */
    const char **fp32_reasons; /* [ops_count()]: why an fp32 operator is one; NULL: not asked yet */
    uint8_t *op_roles;         /* [ops_count()]: placement_precise.c's */
    bool asks;                 /* some operator asks for exact values */
    uint32_t value_count, use_count, graph_count; /* sizes of these tables */
    PassCounts *counts;
    StatisticsMemo *statistics;
} Placement;

/* Builds the problem. Types must be exact (FACT_DTYPES). ERR_ENV or ERR_MODEL where a constant
 * can't be read. */
bool placement_build(Placement *placement, Err *err);

/* MXNet's rules, iterated to a fixed point: LOW operators go low, FOLLOW operators where an input
 * is, WIDEST operators where every input is; constants adapt. Linear in the number of uses. */
void placement_solve_greedy(Placement *placement);

/* The optimum: least cost as placement_cost.h has it, under the same pins, ties and rules.
 * Near-linear (placement_mincut.c). */
void placement_solve_mincut(Placement *placement);

/* What a node got, and why; a node is fp32 where none of its variables is low. Ask between solving
 * and realizing: names are those of the source. */
typedef struct PlacementReasons PlacementReasons;
PlacementReasons *placement_reasons_new(Placement *placement, bool mincut);
NodeNote placement_note(PlacementReasons *reasons, const Node *node);

/* By how much the cost (placement_cost.h, in half bytes) would grow if the group of `var`, which is
 * fp32 and not pinned, were low and all else stayed as it is; negative where it would fall. */
int64_t placement_lowering_cost(PlacementReasons *reasons, VarId var);

/* What a decision costs, before casts of constants fold. */
PlacementCost placement_cost(Placement *placement);

/* True where the reader is a cast of the model's own to another type than float32: it takes either
 * precision, since a cast of demi's before it is merged into it (fuse-casts): none is paid for. */
bool placement_use_is_free(const Use *use);

/* By root: whether some value has that variable. In scratch. */
bool *placement_producers(Placement *placement);

/* By root: what the exact solver may decide. That are groups that data connects to a LOW operator,
 * or to one that takes rows of a constant table, through groups that may go low themselves: no cast
 * is put into fp32 data that neither gives or takes, whatever it would save. In scratch. */
bool *placement_candidates(Placement *placement, const bool *produces);

/* True where what reads through `use` may go low only if the value there is low. Constants are
 * never asked. */
bool placement_use_needs_low(Placement *placement, const Use *use, const bool *produces);

/* True where a Cast to and from the target exists in the graph's opset (a default import can be
 * added where there is none). */
bool placement_casts_are_legal(const Placement *placement, const Graph *graph);

/* The root of a variable's tie group. */
VarId placement_root(Placement *placement, VarId var);

/* True where the decision for var is low; false for VAR_NONE. */
bool placement_is_low(Placement *placement, VarId var);

/* A constant of one element that is no name of anybody's: it is stored in both types rather than cast
 * (cast-params). */
bool placement_is_number(const Placement *placement, uint32_t value);

/* The variable that a use's precision follows; VAR_NONE for uses made later. */
static inline VarId placement_use_var(const Placement *placement, const Use *use) {
    return use->id < placement->use_count ? placement->use_vars[use->id] : VAR_NONE;
}

/* Value `id`, or NULL. For walks in order of ids: those behind it are on their way from memory
 * meanwhile, which a model larger than the caches would have to wait for. */
static inline Value *placement_value(const Placement *placement, uint32_t id) {
    enum { AHEAD = 8 };
    if (id + AHEAD < placement->value_count) __builtin_prefetch(placement->values[id + AHEAD]);
    return placement->values[id];
}

/* Those of a node's inputs: [input_count], of nodes that were there when the problem was built. */
static inline VarId *placement_node_vars(const Placement *placement, const Node *node) {
    return node->input_count ? &placement->use_vars[node->inputs[0].id] : NULL;
}

/* That of a graph's output. */
static inline VarId *placement_output_var(const Placement *placement, const Graph *graph,
                                          size_t i) {
    return &placement->use_vars[graph->outputs.items[i]->use.id];
}

/* ---- for placement_build's own files --------------------------------------------------------- */

/* True where a Cast to and from the target exists in the graph's opset (a default import can be
 * added where there is none); and what to say where it does not. */
bool placement_casts_are_legal(const Placement *p, const Graph *graph);
const char *placement_no_cast_reason(const Placement *p);

/* Makes a variable; `node` may be NULL. */
VarId placement_new_var(Placement *placement, const Node *node);
/* Ties two variables; VAR_NONE ties nothing. Tying to VAR_FP32 pins: the group then has no culprit.
 */
void placement_tie(Placement *placement, VarId a, VarId b);
/* Pins a variable to fp32; the first reason is kept. */
void placement_pin(Placement *placement, VarId var, NoteKind kind, const char *reason);
/* Variables of one node, by its operands (placement_node.c). */
void placement_build_node(Placement *placement, const Node *node);
/* Ties between a node's operands and its subgraphs' formals (placement_body.c). */
void placement_build_bodies(Placement *placement, const Node *node, const VarId *output_vars);
/* Same for a call of a function of the model. */
void placement_build_call(Placement *placement, const Node *node, const Function *function);
/* Same for a node that stays as it is. */
void placement_build_stays(Placement *placement, const Node *node);
/* Says what stays (placement_training.c); then, once all nodes are there, pins what a training is
 * given and gives. */
void placement_mark_training(Placement *placement);
void placement_build_training(Placement *placement);
/* Notes that the model has that operator, of placement_build_node; then, once all ties are there:
 * pins what feeds angles, coordinates and indices alone (placement_precise.c), and arithmetic on
 * constants that count cells (placement_grid.c; false where a constant can't be read). */
void placement_note_asking(Placement *placement, const OpSchema *schema);
void placement_keep_precise(Placement *placement);
/* Ties nodes that ONNX Runtime's optimizer takes for one (placement_units.c); once pins are known. */
void placement_tie_units(Placement *placement);
OpExact placement_precise_role(Placement *placement, const OpSchema *schema); /* or NULL */
bool placement_keep_grids(Placement *placement, Err *err);
/* Pins additions to residual streams, and what only outputs depend on (placement_streams.c). */
void placement_keep_streams(Placement *placement);
/* True for a node with subgraphs; for one that squares its operand 0: Mul(x, x), Pow(x, 2). */
bool placement_holds_bodies(const Node *node);
bool placement_node_squares(const Node *node);
/* Looks for constants that the target can't hold, and pins their readers as request.guard says
 * (value_guard.c). */
bool placement_guard_values(Placement *placement, Err *err);

/* True where the reader is a product, which some policy would lower, that stays fp32 for what it is or
 * computes, and not because of what it reads or because the user says so; and what it reads there is
 * large enough to be worth a cast. */
bool placement_reads_weight(Placement *placement, const Use *use);

/* By node: it computes weights of products, of constants alone. What it reads is weights, too, but where
 * the user says otherwise or they have to be exact. Once solved; in scratch. */
const bool *placement_weight_makers(Placement *placement);

/* Elements: what they save, a cast costs (placement_cost.h). */
enum { PLACEMENT_LEAST_WEIGHT = 2048 };

/* Once decided: ERR_MODEL naming the node that reads a guarded value in 16 bit, where one does. */
bool placement_guard_refuse(Placement *placement, Err *err);

/* ---- for placement_build's own files, continued ---------------------------------------------- */
/* True for a value that holds float32: a tensor, or a sequence or optional of such. */
bool value_holds_float(const Value *value);

#endif
