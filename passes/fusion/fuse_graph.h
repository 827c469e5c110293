// SPDX-License-Identifier: Apache-2.0
/* What the fusing passes share: they find operators that one kernel can compute, and put a node of
 * the domain demi.fused (rewrite/ops/fused_ops.h) in their place. They run for plans only.
 *
 * What holds for all of them: a value between fused nodes is read once, by the next one of them, in
 * the same graph; it is not a graph's output, and nothing refers to it by name. Shapes that a
 * kernel relies on follow from the graph. Bodies of functions are left alone, as their types are
 * some call's.
 *
 * Faithful plans round every operator's 16-bit result and sum in the operators' order, so there
 * only what gives the same bits is fused: activations of float32 values, and casts that are exact.
 *
 * A fusing pass is a function that looks at one node, and FUSE_PASS at the end of its file.
 */
#ifndef DEMI_FUSE_GRAPH_H
#define DEMI_FUSE_GRAPH_H

#include "fused_ops.h"
#include "op_types.h"
#include "passes.h"

/* ---- a pass ---------------------------------------------------------------------------------- */

/* The options of fusing passes. */
typedef struct FuseOptions {
    int numerics; /* 0 fast, 1 faithful */
} FuseOptions;

extern const PassOption fuse_options[];

typedef struct Fuse {
    PassCtx *ctx;
    bool faithful;
    const FuseOptions *options; /* first in what the pass has of its own */
    struct {
        const Value *bytes[2]; /* a constant of all bytes, without sign and with; or NULL */
        const Type *types[DTYPE_COUNT]; /* of 256 elements; or NULL */
    } tables;                           /* fuse_tables.c's, which makes many that are alike */
} Fuse;

typedef void NodeVisit(PassCtx *ctx, Node *node, void *data);

/* Calls `visit` for the nodes of the main graph and all graphs in it, outer before inner, in order;
 * not for those that are gone by then. Removed nodes are swept afterwards. */
void each_node(PassCtx *ctx, NodeVisit *visit, void *data);

/* Fuses what begins with `node`, or nothing. It may remove nodes and add some, and counts
 * rewrites. */
typedef void (*FuseVisit)(Fuse *fuse, Node *node);

/* Calls each of `visits`, which NULL ends, for the nodes of the main graph and the graphs in it, in
 * order, but for those that are gone by then. */
void fuse_run(PassCtx *ctx, const FuseOptions *options, const FuseVisit *visits);

/* Defines the pass `symbol` (passes.def) whose work is done by the FuseVisit functions at the end,
 * one after the other over the whole model. */
#define FUSE_PASS(symbol, pass_name, pass_summary, ...)                                            \
    static bool symbol##_run(PassCtx *ctx, const void *options, Err *err) {                        \
        (void)err;                                                                                 \
        fuse_run(ctx, options, (const FuseVisit[]){__VA_ARGS__, NULL});                            \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    const PassInfo symbol##_pass = {                                                               \
        .name = pass_name,                                                                         \
        .summary = pass_summary,                                                                   \
        .needs = FACT_DTYPES,                                                                      \
        .gives = FACT_DTYPES,                                                                      \
        .options = fuse_options,                                                                   \
        .options_size = sizeof(FuseOptions),                                                       \
        .idempotent = true,                                                                        \
        .run = symbol##_run,                                                                       \
    }

/* ---- questions ------------------------------------------------------------------------------- */

/* True where the node is that operator of ai.onnx and gives its first output. */
bool fuse_is(const Node *node, const char *op);

/* What the node's operator is (op_record.h); NULL for no node, unknown operators, functions of the
 * model, and where the first output is not given. */
const OpRecord *fuse_record(const Node *node);

/* The version of ai.onnx that the node is of. */
int64_t fuse_opset(const Node *node);

/* True where a BatchNormalization normalizes each channel by running statistics, and gives nothing else. */
bool fuse_is_inference(const Node *norm);

/* True of a ConvTranspose that there are kernels of by phases (conv_phases.h): of one group, whose
 * strides' phases are few. */
bool fuse_has_phases(const Node *transposed);

/* Input i; NULL where it is omitted. */
Value *fuse_input(const Node *node, uint32_t i);

/* True where nothing but nodes of its own graph reads the value. */
bool fuse_is_inner(const Value *value);

/* The one node that reads the value, in its own graph; NULL where there is none, or more. */
Node *fuse_reader(const Value *value);

/* Of a node of two operands, the one that is not `value`; NULL where both or none are. */
Value *fuse_other(const Node *node, const Value *value);

/* float, float16 or bfloat16: what fused operators take. */
bool fuse_takes(const Value *value);

/* int8 or uint8: what the operators of quantized values take. */
bool fuse_takes_bytes(const Value *value);

/* True where the node widens a 16-bit value to float. */
bool fuse_is_widening(const Node *node);

/* True where the node only puts the elements of its first operand into another shape or order. */
bool fuse_moves(const Node *node);

/* True where both have the same shape, whatever it is (fuse_shape.c). */
bool fuse_same_shape(const Value *a, const Value *b);

/* The known dim `axis` of a value, counted from the end where negative; -1 where it is not known.
 */
int64_t fuse_dim(const Value *value, int64_t axis);
/* Its rank; -1 where that is not known. */
int64_t fuse_rank(const Value *value);

/* A constant of floats, or of 16-bit ones (fuse_constants.c); NULL where it is none, or damaged. */
const Tensor *fuse_constant(const Fuse *fuse, const Value *value);
/* Its elements as floats, in scratch; NULL likewise. */
const float *fuse_floats(const Fuse *fuse, const Value *value, uint64_t *count);
/* The same of a vector of so many; NULL where it is none. */
const float *fuse_channels(const Fuse *fuse, const Value *value, uint64_t channels);

/* The type that the value's elements were rounded to: its own, but for constants that were widened
 * (widen_values.c). */
Dtype fuse_rounded_to(const Value *value);
/* How far, relative to it, a number that was rounded so may be from what it was. */
double fuse_slack(const Value *value);

/* The number of a one-element constant of floats, or of one that is cast between float types: 16-bit
 * nodes read the constants of others so. */
bool fuse_scalar(const Value *value, float *number);

/* True where `value` is a constant of that one number, to within some roundings of its type, and
 * broadcasts to `to` without raising its rank. */
bool fuse_is_number(const Value *value, const Value *to, double number);

/* A float attribute, or what holds where it is absent. False where it is a function's parameter. */
bool fuse_attr_float(const Node *node, const char *name, float otherwise, float *number);

/* True where the string attribute is `text`, which is also the default. */
bool fuse_attr_is(const Node *node, const char *name, const char *text, bool by_default);

/* ---- activations ----------------------------------------------------------------------------- */

typedef struct FuseActivation {
    const char *name; /* as the fused operators call it; NULL: none */
    float params[2];
    uint32_t param_count;
    Node *nodes[5]; /* that compute it, in order */
    uint32_t node_count;
    bool widens; /* the first of them is a cast of what is 16 bit to float, which the result is */
} FuseActivation;

/* The activation of `value` that is all that becomes of it. In fast plans what is 16 bit may be
 * widened before: a kernel computes in float, and rounds its result alone. False where there is
 * none. */
bool fuse_find_activation(const Fuse *fuse, const Value *value, FuseActivation *found);

/* Sets the attributes of a fused node. */
void fuse_set_activation(Node *node, const FuseActivation *activation);

/* ---- making ---------------------------------------------------------------------------------- */

/* A fused node before `at`, called as `like`, with that many inputs. */
Node *fuse_new(Fuse *fuse, Node *at, const char *op, const Node *like, uint32_t inputs);

/* A node of ai.onnx before `at` with these operands (b may be NULL); its result, of that type. */
Value *fuse_make(Fuse *fuse, Node *at, const char *op, Value *const operands[2], const Type *type);

/* A constant list of int64 in the graph. */
Value *fuse_new_ints(Fuse *fuse, Graph *graph, const int64_t *items, uint32_t count);

/* A constant in the graph, of float: a tensor of such, or elements that are copied. */
Value *fuse_new_constant(Fuse *fuse, Graph *graph, const Tensor *tensor);
Value *fuse_new_floats(Fuse *fuse, Graph *graph, const float *items, const int64_t *dims,
                       uint32_t rank);

/* `made` computes what the last of `old` did; all of them go. Trailing omitted inputs of `made`
 * too. */
void fuse_replace(Fuse *fuse, Node *made, Node *const *old, size_t count);

/* Gives a value elements of that type; its shape stays. */
void fuse_set_dtype(Fuse *fuse, Value *value, Dtype dtype);

/* The fused MatMul in place of a MatMul or Gemm; NULL where there is none for it. */
Node *fuse_matmul_alone(Fuse *fuse, Node *product);

/* `made` computes what `root` did, which goes, and all before it that is for nothing then. */
void fuse_replace_root(Fuse *fuse, Node *made, Node *root);

#endif
