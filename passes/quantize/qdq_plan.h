// SPDX-License-Identifier: Apache-2.0
/* Which values and weights of a model are quantized, with whose scale, and why a node stays float.
 *
 * A value that is quantized gets a QuantizeLinear and a DequantizeLinear behind it; types outside of
 * that pair stay what they were, so no decision is bound to another one, and none is illegal.
 *
 * Left to itself (qdq_plan_by_class) the plan quantizes what kernels of integers read: operands of
 * products (QUANTIZED_PRODUCT of op_record.h), and whole ways from product to product through sums,
 * pools, data movement and elementwise functions, each value where its scale is needed:
 *   - a product's bias, Relu or Clip behind it (and behind a sum) is part of it: nothing is
 *     quantized in between;
 *   - elementwise functions of one quantized value are one function, which can be looked up: only
 *     its result is quantized;
 *   - what only moves data keeps its operand's scale; what a Concat alone reads has the scale of
 *     its result;
 *   - products that decide what TopK or ArgMax picks stay float (qdq_picks.c);
 *   - what feeds angles, indices or logarithms alone stays float, as it does beside 16 bit
 *     (placement_precise.c);
 *   - products of two values that are computed, as in attention, stay float: rounding both costs
 *     more than they do;
 *   - what no such node reads stays float: the results of the last products, and of those before a
 *     norm or a Softmax;
 *   - of float8 all but products stay float, and what products alone read is quantized: nothing else
 *     has kernels for it, and each rounding costs three of its bits.
 * Or it is told (qdq_plan_by_names), and then that alone holds.
 */
#ifndef DEMI_QDQ_PLAN_H
#define DEMI_QDQ_PLAN_H

#include "op_record.h"
#include "pass.h"
#include "quantized_format.h"
#include "range_table.h"

enum { QDQ_BLOCKS_MOST = 8 };

/* Tables whose rows Gather picks; the last two have 4 bits where weights do, in blocks. */
typedef enum QdqTables {
    QDQ_TABLES_ROWS,   /* a scale for each row */
    QDQ_TABLES_FLOAT,  /* they stay float */
    QDQ_TABLES_BLOCKS, /* com.microsoft's GatherBlockQuantized reads them */
    QDQ_TABLES_PACKED, /* two numbers in a byte, which operators of ONNX take apart */
} QdqTables;

typedef struct QdqRequest {
    Dtype activations;              /* UNDEFINED: they stay float */
    const QuantizedFormat *weights; /* NULL: they stay float */
    const QuantizedFormat
        *others; /* of weights that can't have the blocks that `weights` needs, and of
                                       tables whose rows are picked; NULL: they stay float */
    bool per_tensor, symmetric;
    bool float_biases,
        float_joins; /* they stay float; joins: what several values are put together in */
    QdqTables tables;
    bool conv_channels;    /* convolutions alone have scales by channel */
    bool integer_channels; /* weights that are stored as integers alone have */
    uint64_t
        blocks[QDQ_BLOCKS_MOST]; /* of which the first is taken that divides what is summed, and
                                         `block` must be one; 0 at the end: any */
    uint64_t block;              /* of weights, along what is summed; 0: a scale a channel */
    const char *const *excluded; /* [node_count]: why a node stays float, or NULL */
    const char *const
        *precise;       /* [node_count]: the same of those that have to be exact; NULL: none */
    const bool *broken; /* [value_count]: constants that were found not to be finite */
    PassStrings values, weights_of; /* "NAME=TYPE": by_names */
} QdqRequest;

/* What "insert-qdq{...}" asks for, but for nodes that stay float; in `arena`. ERR_USAGE where it is none. */
bool qdq_request_read(const char *pass, Arena *arena, QdqRequest *request, Err *err);

typedef enum QdqRole {
    QDQ_FLOAT,   /* it computes in float */
    QDQ_PRODUCT, /* it reads quantized values whatever is around it */
    QDQ_FOLDED,  /* it is part of the node before it */
    QDQ_STEP,    /* a step of an elementwise function */
    QDQ_FLOW,    /* it reads and gives quantized values */
} QdqRole;

typedef struct QdqNode {
    QdqRole role;
    NoteKind kind;       /* of a node that stays float: */
    const char *reason;  /* static, or in the model's arena */
    const char *subject; /* of NOTE_FOLLOWS and NOTE_READS: a value's name */
    enum {
        QDQ_TURN_UNKNOWN,
        QDQ_TURN_OTHER,   /* it turns no weights, or what else reads needs them as they are */
        QDQ_TURN_WEIGHTS, /* a Transpose of weights */
        QDQ_TURN_TAKEN,   /* of weights that are in the plan */
    } turn;
} QdqNode;

typedef struct QdqValue {
    Value *value;   /* NULL: no such value, or nothing that can be quantized */
    Dtype dtype;    /* what it is quantized to; UNDEFINED: it stays float */
    uint32_t like;  /* id of the value whose scale it has, its own mostly; qdq_plan_scale_of */
    bool for_all;   /* all nodes that read it read what was quantized; else those alone whose role
                       is not QDQ_FLOAT */
    bool as_output; /* graph outputs do, too */
    /* while it is decided */
    RangeRow *range;
    uint32_t root; /* of a function of one value: that one's id; its own else */
    uint8_t steps; /* how many nodes there are between root and this */
    bool traced;   /* the root is `ready` */
    bool ready;    /* kernels of integers can give it */
    bool wanted, folded;
} QdqValue;

/* A constant that a node reads as its weights. */
typedef struct QdqWeight {
    Value *value;
    Use *use;      /* the operand, of the product or of a Transpose before it */
    Node *product; /* NULL: no product reads it so (by_names) */
    const QuantizedFormat *format;
    bool rows;      /* a table whose rows the product, a Gather, picks */
    bool packed;    /* such a table as QDQ_TABLES_PACKED has it */
    bool again;     /* one of a product before this one has the same use */
    int32_t axis;   /* of the channels, or with `block` of what is summed; -1: one scale for all */
    uint64_t block; /* 0: none */
    uint32_t next;  /* 1 + the next one of the same value, 0: none; qdq_store.c */
} QdqWeight;

typedef struct QdqPlan {
    Model *model;
    Arena *scratch;
    QdqRequest request;
    RangeTable ranges;
    GraphList graphs;
    QdqValue *values; /* [value_count] */
    QdqNode *nodes;   /* [node_count] */
    uint32_t value_count, node_count;
    VEC(QdqWeight) weights; /* in the order of the nodes */
} QdqPlan;

/* `model`, `scratch` and `request` are set; types must be exact. ERR_USAGE where a range can't be
 * read. One of a name that is nothing in the model is passed over: values that were measured may be
 * gone since. */
bool qdq_plan_begin(QdqPlan *plan, const PassStrings *ranges, Err *err);

/* Decides by operators' classes, or by request.values and weights_of; the latter: ERR_USAGE for a
 * name that is no value or constant of the model's, an unknown type, and a value without a range. */
void qdq_plan_by_class(QdqPlan *plan);
bool qdq_plan_by_names(QdqPlan *plan, Err *err);

/* The value whose range decides the scale of this one. */
uint32_t qdq_plan_scale_of(const QdqPlan *plan, uint32_t id);

/* ---- for the files of this room -------------------------------------------------------------- */

/* What the node is, where it is no call of a function of the model, and not excluded; else NULL. */
const OpRecord *qdq_record(const QdqPlan *plan, const Node *node);
Value *qdq_input(const Node *node, uint32_t i);
bool qdq_is_float(const Value *value); /* a tensor of float32 or a reduced type */
int64_t qdq_rank(const Value *value);  /* -1: unknown */
int64_t qdq_dim(const Value *value, int64_t axis);
/* A value that can be quantized as the request has it: floats, computed or given, of a known range,
 * where the opset has what it takes. */
bool qdq_can(const QdqPlan *plan, const Value *value);
/* The opset from which on QuantizeLinear and DequantizeLinear take this type, in blocks or not. */
int64_t qdq_opset_of(Dtype dtype, bool axis, bool block);
/* The opset from which on weights can be stored so, with an axis or in blocks, where scales have a type of their own
 * or this one. */
int64_t qdq_opset_of_weights(const QuantizedFormat *format, Dtype floats, bool axis, bool block);

/* Whether the node picks rows of a constant matrix that is worth quantizing: by rows, which are picked as
 * integers and then made float (qdq_table.c). */
bool qdq_reads_table(const Node *node);
/* Adds such a table to the plan, where nothing else reads it. */
void qdq_table_take(QdqPlan *plan, Node *node);

/* The weights of the product, which has a record, where they are constants (qdq_weight.c): adds them
 * to the plan, stored so. *blame may get a reason where false. */
bool qdq_weight_take(QdqPlan *plan, Node *node, const QuantizedFormat *format, const char **blame);
/* How the weights of a product are stored by the request: of a weight whose value, format and axis of channels are set,
 * the axis and the block. `integers`: what the product multiplies them by is quantized, too. Returns why they cannot
 * be, or NULL. */
const char *qdq_weight_layout(const QdqRequest *request, const OpRecord *record, bool integers,
                              QdqWeight *weight);
/* The axis of the weights' channels; -1 where there is none. */
int32_t qdq_weight_axis(const Node *node, const OpRecord *record, const Value *weights);
/* The axis of what a Transpose reads that becomes *axis of its result, of that rank; -1 stays. False where its attributes
 * say none. */
bool qdq_turn_axis(const Node *turn, int64_t rank, int32_t *axis);
/* What weights are stored as that are quantized already; UNDEFINED where they are not. */
Dtype qdq_weight_stored(const Value *weights);
/* The operand that is the product's weights, a constant or not: Einsum's may be either. */
uint32_t qdq_weights_operand(const Node *product, const OpRecord *record);
/* The longest axis of an Einsum's weights that its result has, too (qdq_equation.c); -1 where none is. */
int32_t qdq_equation_axis(const Node *einsum, const Value *weights);
/* Products whose results decide what TopK or ArgMax picks stay float, with that reason (qdq_picks.c). */
void qdq_keep_picks(QdqPlan *plan);

/* What reads the bias of a product: itself, or a sum of two that alone reads what it gives. NULL where there
 * is none. */
Use *qdq_bias_use(const Node *product);
/* Products whose weights are copies of a constant, as Identities are that exporters write for what
 * several layers share, read the constant itself. Copies that nothing reads then go. */
void qdq_skip_copies(QdqPlan *plan);
/* The constant behind the product's weights, itself or turned by a Transpose that products alone
 * read, all with one axis of channels; weight->use is what reads it, weight->axis the channels' axis
 * of it. */
bool qdq_weight_find(const QdqPlan *plan, Node *node, const OpRecord *record, QdqWeight *weight,
                     const char **blame);

/* Which values share a scale. */
void qdq_plan_link(QdqPlan *plan);

#endif
