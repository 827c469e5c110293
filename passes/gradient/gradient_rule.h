// SPDX-License-Identifier: Apache-2.0
/* What the rules of gradients (GRADIENT of operators/) are made of.
 *
 * A rule differentiates one node: it asks what flows into the node's outputs, and gives each operand
 * that is wanted what flows into it, of the operand's shape and type. Making never fails where it
 * stands: a rule that can't go on says so once (grad_refuse), values that it makes from then on
 * mean nothing, and nobody sees them. What is made is checked against the operators' definitions
 * behind the rule, so that a rule need not know which opset has what.
 */
#ifndef DEMI_GRADIENT_RULE_H
#define DEMI_GRADIENT_RULE_H

#include "gradient.h"
#include "make_node.h"
#include "ops.h"

typedef VEC(Value *) Flows;

/* One walk back (gradient_expand.c); what it knows of values, by id. */
typedef struct GradientWalk {
    const GradientAsk *ask;
    bool *cut;    /* [value_count when it began]: an x or a z */
    bool *varies; /* it depends on an x, through operators that have gradients */
    Flows *flows; /* what its readers gave it so far */
    /* gradient_expand, for rules that have graphs inside differentiated */
    bool (*expand)(PassCtx *ctx, const GradientAsk *ask, Value **gradients, Err *err);
    Value ***bodies; /* by node: what GradientBody made in place of its outputs */
} GradientWalk;

typedef struct Grad {
    Make make;
    const Node *node; /* that is differentiated */
    const OpSchema *schema;
    int64_t opset; /* of ai.onnx */
    GradientWalk *walk;
    Err *err;
    bool failed; /* *err is set */
} Grad;

typedef void GradientRule(Grad *g);

/* Makes the first `count` outputs of the node once more, of operators that have gradients. */
typedef void GradientBody(Grad *g, Value **outputs, uint32_t count);

/* ---- rows ------------------------------------------------------------------------------------ */

typedef enum GradientKind {
    GRADIENT_FORMULA, /* elementwise: formulas[i] is what flows into operand i */
    GRADIENT_RULE,    /* `rule` */
    GRADIENT_BODY,    /* `body`: what it makes is differentiated in the node's place */
    GRADIENT_NONE,    /* nothing flows: what comes out is constant but in single points, or is not
                         computed from the operands' values */
    GRADIENT_REFUSED, /* `why` */
} GradientKind;

enum { GRADIENT_FORMULAS = 3 };

typedef struct GradientRow {
    int32_t since; /* the oldest version of the operator that the rule knows */
    GradientKind kind;
    uint32_t
        inputs; /* bit i: operand i is differentiable; the last bit is for all that follow, too */
    GradientRule *rule;
    GradientBody *body;
    const char *formulas[GRADIENT_FORMULAS]; /* NULL: the operand is not differentiable */
    const char *why;
} GradientRow;

/* The row of an operator of ai.onnx; NULL where there is none, as for operators that give no
 * floats. */
const GradientRow *gradient_row(const char *op);

/* ---- questions ------------------------------------------------------------------------------- */

/* Operand i, output i; NULL where omitted. */
Value *grad_in(const Grad *g, uint32_t i);
Value *grad_out(const Grad *g, uint32_t i);

/* What flows into output i; NULL where nothing does. */
Value *grad_flow(Grad *g, uint32_t i);

/* All that flows into a value, as one; NULL where nothing does. */
Value *grad_total(Grad *g, const Value *value);

/* True where operand i is there and something is to flow into it. */
bool grad_wants(const Grad *g, uint32_t i);

/* What the node's graphs read of outside, and something is to flow into: each once. */
Value **grad_captures(Grad *g, uint32_t *count);

/* ERR_MODEL: the node has no gradient, and why. */
void grad_refuse(Grad *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The rank, the size of an axis (negative: from behind). Refuses where it is not known, and gives 0
 * and 1 then. */
uint32_t grad_rank(Grad *g, const Value *value);
int64_t grad_size(Grad *g, const Value *value, int64_t axis);

/* True where axis i of both is of one size, known or by name. */
bool grad_same_dim(const Value *a, const Value *b, uint32_t i);

/* The numbers of a constant of few integers; false where it is none. */
bool grad_known_ints(Grad *g, const Value *value, int64_t **items, uint64_t *count);

/* An attribute, or what the definition says where it is absent, or 0. */
int64_t grad_int(const Grad *g, const char *name);
double grad_real(const Grad *g, const char *name);
/* The items of a list of INTS; NULL where it is absent. */
const int64_t *grad_list(const Grad *g, const char *name, uint32_t *count);
/* True where the attribute is `text`, or by default. */
bool grad_is(const Grad *g, const char *name, const char *text);

/* The axis in [0, rank). */
int64_t grad_axis(Grad *g, int64_t axis, uint32_t rank);

/* ---- making ---------------------------------------------------------------------------------- */

/* op(operands), of the first operand's element type, or of `dtype`. */
#define GRAD(g, op, ...) GRAD_AS(g, op, DTYPE_UNDEFINED, __VA_ARGS__)
#define GRAD_AS(g, op, dtype, ...)                                                                 \
    grad_make(g, op, dtype, (Value *const[]){__VA_ARGS__},                                         \
              sizeof((Value *const[]){__VA_ARGS__}) / sizeof(Value *))
Value *grad_make(Grad *g, const char *op, Dtype dtype, Value *const *operands, size_t count);

Value *grad_number(Grad *g, double number, const Value *like); /* of like's element type, rank 0 */
Value *grad_ints(Grad *g, const int64_t *items, uint32_t count);
Value *grad_int_table(Grad *g, const int64_t *items, int64_t rows, int64_t columns);
Value *grad_int_list(Grad *g, int64_t item);       /* of one */
Value *grad_int_number(Grad *g, int64_t item);     /* of rank 0 */
Value *grad_cast(Grad *g, Value *value, Dtype to); /* itself where it is of that type */
Value *grad_transpose(Grad *g, Value *value, const int64_t *perm, uint32_t rank);
/* The value with its last two axes exchanged. */
Value *grad_turn(Grad *g, Value *value, uint32_t rank);

/* A value's shape, as a list of int64; a constant where it is known. */
Value *grad_shape(Grad *g, Value *value);
/* The size of an axis, as a list of one; a constant where it is known. */
Value *grad_dim(Grad *g, Value *value, int64_t axis);
/* Lists, one behind the other. */
#define GRAD_LIST(g, ...)                                                                          \
    grad_list_of(g, (Value *const[]){__VA_ARGS__},                                                 \
                 sizeof((Value *const[]){__VA_ARGS__}) / sizeof(Value *))
Value *grad_list_of(Grad *g, Value *const *lists, size_t count);
/* `value` in the shape of `like`, of as many elements. */
Value *grad_reshape_like(Grad *g, Value *value, Value *like);
/* Numbers of the shape and type of `like`. */
Value *grad_fill(Grad *g, double number, Value *like);

/* Some axes; none: nothing is done. */
typedef struct GradAxes {
    const int64_t *items;
    uint32_t count;
} GradAxes;

/* ReduceSum and the like over axes, as the opset has it; they are kept, of size 1, or gone. */
Value *grad_reduce(Grad *g, const char *op, Value *value, GradAxes axes);
Value *grad_reduce_away(Grad *g, const char *op, Value *value, GradAxes axes);
/* Unsqueeze and Squeeze. */
Value *grad_axes(Grad *g, const char *op, Value *value, GradAxes axes);

/* Gives a node the attributes of the one that is differentiated. It has none yet. */
void grad_keep_attrs(Grad *g, Node *made);

/* Zeros of the shape of `like`, to which elements of `flow` are added at places that are counted
 * through all of it (gradient_move.c). */
Value *grad_scatter_flat(Grad *g, Value *like, Value *places, Value *flow);

/* `value`, of the shape that `shape` says (NULL where that is not known), summed over all that
 * `like` was broadcast along to it. */
Value *grad_sum_to(Grad *g, Value *value, const Type *shape, Value *like);

/* ---- graphs inside --------------------------------------------------------------------------- */

/* A graph for an attribute of a node that is made beside what is made; its inputs; and its outputs,
 * which are copies of values. `end` is a node that all else in it stands before, until it is removed. */
Graph *grad_graph(Grad *g, Sym name);
Value *grad_graph_input(Grad *g, Graph *graph, const char *stem, const Type *type);
void grad_graph_output(Grad *g, Graph *graph, Node *end, Value *value);
Node *grad_graph_end(Grad *g, Graph *graph);
/* Makes it the node's attribute. Graphs in which something is differentiated are a node's before, so
 * that what is made in them has types and shapes. */
void grad_graph_hold(Node *node, const char *name, Graph *graph);

/* A Scan along the first axis that is being made: `inner` makes what a step computes. */
typedef struct GradScan {
    Grad *g, inner;
    Graph *body;
    Flows operands;
    uint32_t inputs; /* of them, that are read step by step */
} GradScan;

/* States first, then what is read step by step: in a step, of that type. Then what a step gives: the
 * states' next values, and more. The node's outputs are yet to be made. */
GradScan grad_scan_begin(Grad *g);
Value *grad_scan_state(GradScan *scan, Value *first, const Type *type);
Value *grad_scan_input(GradScan *scan, Value *all, const Type *type);
void grad_scan_give(GradScan *scan, Value *value);
Node *grad_scan_end(GradScan *scan);

/* ---- giving ---------------------------------------------------------------------------------- */

/* This flows into operand i, which is wanted. */
void grad_give(Grad *g, uint32_t i, Value *value);
/* The same of a value that the node's graphs capture. */
void grad_give_value(Grad *g, const Value *to, Value *value);
/* The same of the first output's shape, which operand i was broadcast to. */
void grad_give_sum(Grad *g, uint32_t i, Value *value);

/* ---- formulas -------------------------------------------------------------------------------- */

/* A formula is text:
 *
 *     dy * Where(x > 0, 1, y + $alpha)
 *
 * x (also a), b, c are the operands, y the first output, dy what flows into it, p, q, r the further
 * values that a rule hands in; $name is an attribute's number; operators of ai.onnx are called by
 * name, those of arithmetic and comparisons are written between. Numbers have the type of
 * the first value handed in that is no bool, else dy's. */
Value *grad_formula(Grad *g, const char *formula, Value *const values[3]);
#define GRAD_CALC(g, formula, ...) grad_formula(g, formula, (Value *const[3]){__VA_ARGS__})

/* ---- the table's functions ------------------------------------------------------------------- */

#define GRADIENT_OF_FORMULA(...)
#define GRADIENT_OF_NONE(...)
#define GRADIENT_OF_REFUSED(...)
#define GRADIENT_OF_RULE(since, inputs, rule) GradientRule gradient_##rule;
#define GRADIENT_OF_BODY(since, inputs, rule) GradientBody gradient_##rule;
#define OPERATOR(domain, name, ...)           __VA_ARGS__
#define GRADIENT(kind, ...)                   GRADIENT_OF_##kind(__VA_ARGS__)
#include "operators.def"

#endif
