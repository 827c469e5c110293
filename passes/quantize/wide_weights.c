// SPDX-License-Identifier: Apache-2.0
/* See wide_weights.h.
 *
 *   y = MatMulNBits<K, N>(a, B, s, z, , b)   ->  y = Add(MatMul(a, W), b)   W [K, N], float
 *   y = GatherBlockQuantized(T, i, s, z)     ->  y = Gather(W, i)
 *   y = QMoE(x, r, B, s, b, ...)             ->  y = MoE(x, r, W, b, ...)
 *
 * Weights are (number - zero point) * scale; without zero points, unsigned numbers of bytes have the middle for one
 * (ContribOperators.md of ONNX Runtime). */
#include "wide_weights.h"

#include <string.h>

#include "constants.h"
#include "dequantized.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_plan.h"
#include "qdq_table.h"

enum { ADD_BROADCASTS = 7, GROUPS_MOST = INT32_MAX };

typedef struct Made {
    const Value *parts[4]; /* numbers, scales, zero points, groups */
    Value *weights;
    uint32_t next; /* 1 + another one of the same numbers; 0: none */
} Made;

struct WideWeights {
    PassCtx *ctx;
    VEC(Made) made;
    uint32_t *first, value_count; /* first: [value_count], as Made.next, by the numbers' id */
};

WideWeights *wide_weights_new(PassCtx *ctx, uint32_t value_count) {
    WideWeights *made = ARENA_NEW(ctx->scratch, WideWeights);
    made->ctx = ctx;
    made->value_count = value_count;
    made->first = ARENA_ARRAY(ctx->scratch, uint32_t, value_count + 1);
    return made;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Quantized weights of a node, by its operands. */
typedef struct Parts {
    const Value *numbers, *scales, *zeros, *groups; /* the last two may be NULL */
    uint64_t zero_line; /* dequantized.h: of zero points that are packed */
    Dtype floats;       /* what the node computes in */
} Parts;

static Value *operand(const Node *node, uint32_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

static const char not_constant[] = "its weights are not constant",
                  not_fitting[] = "its weights do not have the dims that its attributes say",
                  other_bits[] = "weights of that many bits are not supported",
                  other_order[] = "its weights are in the order of one device";

static Dtype floats_of(const Node *node) {
    return type_dtype(node->outputs[0]->type);
}

/* The type of so many bits in a byte or several to one; UNDEFINED where there is none. */
static Dtype dtype_of_bits(int64_t bits) {
    if (bits == 2) return DTYPE_UINT2;
    if (bits == 4) return DTYPE_UINT4;
    return bits == 8 ? DTYPE_UINT8 : DTYPE_UNDEFINED;
}

static const Tensor *tensor_of(const WideWeights *w, const Value *value) {
    const Tensor *tensor =
        value && value_is_constant(value) ? constant_tensor(value, &w->ctx->model->arena) : NULL;
    return tensor && tensor_check(tensor, NULL) ? tensor : NULL;
}

/* Which block the scale of each row is of. */
static const int32_t *read_groups(const WideWeights *w, const Tensor *tensor, uint64_t depth) {
    uint64_t count;
    int64_t *items;
    if (!tensor_read_ints(tensor, w->ctx->scratch, GROUPS_MOST, &items, &count) || count < depth)
        return NULL;
    int32_t *groups = ARENA_ARRAY(&w->ctx->model->arena, int32_t, depth + 1);
    for (uint64_t k = 0; k < depth; k++)
        groups[k] = items[k] < 0 || items[k] > INT32_MAX ? -1 : (int32_t)items[k];
    return groups;
}

/* Reads the parts, whose layout `of` has. */
static const char *read_parts(const WideWeights *w, const Parts *parts, Dequantized *of) {
    const Tensor *groups = tensor_of(w, parts->groups);
    of->numbers = tensor_of(w, parts->numbers);
    of->scales = tensor_of(w, parts->scales);
    of->zeros = tensor_of(w, parts->zeros);
    if (!of->numbers || !of->scales || (parts->zeros && !of->zeros) || (parts->groups && !groups))
        return not_constant;
    if (of->zeros) {
        const Dtype dtype = (Dtype)of->zeros->dtype;
        const bool packed = dtype == DTYPE_UINT8;
        of->zero_dtype = packed ? of->dtype : dtype;
        of->zero_line = packed ? parts->zero_line : 0;
    }
    if (groups && !(of->groups = read_groups(w, groups, of->depth))) return not_fitting;
    return NULL;
}

static Value *find_made(const WideWeights *w, const Parts *parts) {
    const Value *const wanted[] = {parts->numbers, parts->scales, parts->zeros, parts->groups};
    const uint32_t id = parts->numbers->id;
    for (uint32_t i = id < w->value_count ? w->first[id] : 0; i; i = w->made.items[i - 1].next)
        if (memcmp(w->made.items[i - 1].parts, wanted, sizeof wanted) == 0)
            return w->made.items[i - 1].weights;
    return NULL;
}

/* The float constant; NULL with *why where there is none. */
static Value *make(WideWeights *w, const Parts *parts, Dequantized *of, const int64_t *dims,
                   uint32_t rank, const char **why) {
    Value *found = find_made(w, parts);
    const Type *type = found ? value_shaped_type(found) : NULL;
    if (type && type_dtype(type) == parts->floats && type->rank == rank &&
        (rank < 1 || type->dims[0].size == dims[0]))
        return found;
    *why = read_parts(w, parts, of);
    if (*why) return NULL;
    const Tensor *tensor =
        dequantized_tensor(&w->ctx->model->arena, of, dims, rank, sym_text(parts->numbers->name));
    if (!tensor) {
        *why = not_fitting;
        return NULL;
    }
    if (parts->floats != DTYPE_FLOAT)
        tensor = tensor_new_cast(&w->ctx->model->arena, tensor, parts->floats);
    Made made = {{parts->numbers, parts->scales, parts->zeros, parts->groups},
                 qdq_constant(w->ctx, parts->numbers, "float", tensor),
                 0};
    const uint32_t id = parts->numbers->id;
    if (id < w->value_count) {
        made.next = w->first[id];
        w->first[id] = (uint32_t)w->made.count + 1;
        VEC_PUSH(w->ctx->scratch, &w->made, made);
    }
    return made.weights;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* The product, and its sum with the bias, in the node's place. */
static void put_product(WideWeights *w, Node *node, Value *weights, Value *bias) {
    Value *const factors[] = {operand(node, 0), weights};
    Node *product = qdq_node_of(w->ctx, node, "MatMul", factors);
    if (bias) {
        Value *sum =
            qdq_value(w->ctx, node->outputs[0], "product", type_dtype(node->outputs[0]->type));
        node_resize_outputs(product, 1);
        node_set_output(product, 0, sum);
        product->name = sum->name;
        product = qdq_node_of(w->ctx, node, "Add", (Value *const[2]){sum, bias});
    }
    qdq_take_place(node, product);
}

static const char *widen_product(WideWeights *w, Node *node) {
    enum { B = 1, SCALES, ZEROS, GROUPS, BIAS };
    const int64_t depth = node_attr_int(node, "K", -1), columns = node_attr_int(node, "N", -1),
                  bits = node_attr_int(node, "bits", 4),
                  block = node_attr_int(node, "block_size", -1), dims[] = {depth, columns};
    const char *why = NULL;
    if (!dtype_of_bits(bits)) return other_bits;
    if (node_attr_int(node, "weight_prepacked", 0)) return other_order;
    if (depth < 1 || columns < 1 || depth > INT32_MAX || columns > INT32_MAX || block < 1 ||
        block > INT32_MAX || block * bits % 8)
        return not_fitting;
    const uint64_t blocks = (uint64_t)((depth + block - 1) / block);
    Dequantized of = {.dtype = dtype_of_bits(bits),
                      .outer = (uint64_t)columns,
                      .axis = blocks * (uint64_t)block,
                      .inner = 1,
                      .block = (uint64_t)block,
                      .zero = (float)(1 << (bits - 1)),
                      .turned = true,
                      .depth = (uint64_t)depth};
    const Parts parts = {
        operand(node, B), operand(node, SCALES), operand(node, ZEROS), operand(node, GROUPS),
        blocks,           floats_of(node)};
    Value *weights = make(w, &parts, &of, dims, 2, &why);
    if (weights) put_product(w, node, weights, operand(node, BIAS));
    return why;
}

/* How a table's blocks lie, and its dims as elements. */
static const char *find_table(const Node *node, const Tensor *tensor, Dequantized *of,
                              int64_t *dims) {
    const bool bytes = tensor->dtype == DTYPE_UINT8;
    const int64_t bits = node_attr_int(node, "bits", 4);
    int64_t block = node_attr_int(node, "block_size", 128),
            axis = node_attr_int(node, "quantize_axis", 1);
    of->dtype = bytes ? dtype_of_bits(bits) : (Dtype)tensor->dtype;
    if (!of->dtype) return other_bits;
    if (axis < 0) axis += tensor->rank;
    if (!tensor->rank || axis < 0 || axis >= (int64_t)tensor->rank || block < 0) return not_fitting;
    if (bytes && bits < 8 && axis + 1 != (int64_t)tensor->rank)
        return "its bytes hold several elements, and blocks are not along the last axis";
    of->outer = of->axis = of->inner = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        dims[i] = tensor->dims[i] * (bytes && i + 1 == tensor->rank ? 8 / bits : 1);
        uint64_t *in = i < (uint32_t)axis ? &of->outer : &of->inner;
        *(i == (uint32_t)axis ? &of->axis : in) *= (uint64_t)dims[i];
    }
    of->block = block ? (uint64_t)block : of->axis;
    of->zero = bytes ? (float)(1 << (bits - 1)) : 0;
    return of->block ? NULL : not_fitting;
}

static const char *widen_gather(WideWeights *w, Node *node) {
    enum { TABLE, INDICES, SCALES, ZEROS };
    const Tensor *tensor = tensor_of(w, operand(node, TABLE));
    const char *why = NULL;
    Dequantized of = {0};
    if (!tensor) return not_constant;
    int64_t *dims = ARENA_ARRAY(w->ctx->scratch, int64_t, tensor->rank + 1);
    why = find_table(node, tensor, &of, dims);
    if (why) return why;
    const uint64_t blocks = (of.axis + of.block - 1) / of.block;
    const Parts parts = {operand(node, TABLE),
                         operand(node, SCALES),
                         operand(node, ZEROS),
                         NULL,
                         dtype_bits(of.dtype) < 8 ? blocks : 0,
                         floats_of(node)};
    Value *weights = make(w, &parts, &of, dims, tensor->rank, &why);
    if (!weights) return why;
    Node *made =
        qdq_node_of(w->ctx, node, "Gather", (Value *const[2]){weights, operand(node, INDICES)});
    const int64_t axis = node_attr_int(node, "gather_axis", 0);
    if (axis) node_set_attr_int(made, "axis", axis);
    qdq_take_place(node, made);
    return NULL;
}

/* A layer of experts [experts, rows, columns]. */
static Value *make_layer(WideWeights *w, const Node *node, const Parts *of_layer, const char *bits,
                         const char **why) {
    Parts parts = *of_layer;
    const Tensor *tensor = tensor_of(w, parts.numbers);
    const int64_t own = node_attr_int(node, bits, 0), block = node_attr_int(node, "block_size", 0);
    const int64_t width = own > 0 ? own : node_attr_int(node, "expert_weight_bits", 4);
    *why = !tensor ? not_constant : !dtype_of_bits(width) ? other_bits : NULL;
    if (*why) return NULL;
    *why = not_fitting;
    if (tensor->rank != 3 || tensor->dtype != DTYPE_UINT8) return NULL;
    const int64_t dims[] = {tensor->dims[0], tensor->dims[1], tensor->dims[2] * 8 / width};
    if (!dims[2] || (block > 0 && dims[2] % block)) return NULL;
    Dequantized of = {.dtype = dtype_of_bits(width),
                      .outer = (uint64_t)(dims[0] * dims[1]),
                      .axis = (uint64_t)dims[2],
                      .inner = 1,
                      .block = (uint64_t)(block > 0 ? block : dims[2]),
                      .zero = (float)(1 << (width - 1))};
    parts.zero_line = (uint64_t)(block > 0 ? dims[2] / block : dims[1]);
    *why = NULL;
    return make(w, &parts, &of, dims, 3, why);
}

static const char *widen_experts(WideWeights *w, Node *node) {
    enum {
        LAYERS = 3,
        FIRST = 2,
        EACH = 3,
        ZEROS = FIRST + LAYERS * EACH,
        SHARES = ZEROS + LAYERS,
        INPUTS = FIRST + 2 * LAYERS
    };
    static const char *const bits[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                       "fc3_expert_weight_bits"};
    static const char *const gone[] = {"expert_weight_bits", "block_size", "quant_type",
                                       "weights_prepacked", "accuracy_level"};
    Value *inputs[INPUTS] = {operand(node, 0), operand(node, 1)};
    const char *why = NULL;
    const Attr *kind = node_attr(node, "quant_type");
    if (kind && !attr_is_text(kind, "int")) return "its weights are not integers";
    if (node_attr_int(node, "weights_prepacked", 0) > 0) return other_order;
    for (uint32_t i = SHARES; i < node->input_count; i++)
        if (operand(node, i)) return "MoE, with float weights, does not have its other operands";
    for (uint32_t i = 0; i < LAYERS; i++) {
        const uint32_t at = FIRST + EACH * i;
        const Parts parts = {
            operand(node, at), operand(node, at + 1), operand(node, ZEROS + i), NULL, 0,
            floats_of(node)};
        if (!parts.numbers) continue;
        inputs[FIRST + 2 * i] = make_layer(w, node, &parts, bits[i], &why);
        inputs[FIRST + 2 * i + 1] = operand(node, at + 2);
        if (why) return why;
    }
    Node *made =
        node_new(node->graph, node, sym_intern_cstr(&w->ctx->model->syms, "MoE"), node->domain);
    node_share_lists(made, node);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) node_remove_attr(made, gone[i]);
    for (size_t i = 0; i < LAYERS; i++) node_remove_attr(made, bits[i]);
    node_resize_inputs(made, INPUTS);
    for (uint32_t i = 0; i < INPUTS; i++) node_set_input(made, i, inputs[i]);
    qdq_take_place(node, made);
    return NULL;
}

static const char *widen_bnb4(WideWeights *w, Node *node) {
    (void)w;
    (void)node;
    return "its 4-bit floats are not supported";
}

/* ---- all ------------------------------------------------------------------------------------- */

typedef const char *Widen(WideWeights *w, Node *node);

static Widen *widen_of(const Node *node) {
    static const struct {
        const char *op;
        Widen *widen;
    } rows[] = {
#define WIDEN(op, function) {#op, function},
#include "wide_weights.def"
    };
    if (!sym_equals(node->domain, QDQ_BLOCKS_DOMAIN)) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sym_equals(node->op_type, rows[i].op)) return rows[i].widen;
    return NULL;
}

bool wide_weights_are_of(const Node *node) {
    return widen_of(node) && !model_find_function(node->graph->model, node);
}

bool wide_weights_are_of_product(const Node *node) {
    return widen_of(node) == widen_product;
}

const char *wide_weights_put(WideWeights *made, Node *node) {
    if (node->output_count < 1 || !node->outputs[0] || !qdq_is_float(node->outputs[0]))
        return "it does not compute in float32, float16, or bfloat16";
    if (opset_version(node->graph->opsets, NULL) < ADD_BROADCASTS)
        return "the model has no opset 7 of ONNX's own operators";
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (attr->ref) return "its attributes are those of a function's call";
    const char *why = widen_of(node)(made, node);
    if (!why) made->ctx->counts->rewrites++;
    return why;
}
