// SPDX-License-Identifier: Apache-2.0
/* fuse-weight-only: products by weights of 8 bits and less, which stay small in memory, for plans.
 *
 *   act(MatMul(A, DQ(W, s, z)) + bias + Z)  ->  demi.fused.MatMulBits(A, bytes, bias, Z, s', z')
 *
 * also of Gemm, of MatMuls that fuse-matmul made, and through one Transpose and one Cast between
 * DequantizeLinear and the product. W is a constant matrix of integers of 8, 4 or 2 bits, or of float4e2m1, s and z
 * are constants, s also one that a DequantizeLinear makes of constants: for all, for each column, or for blocks along
 * the depth. MatMulBits has integers of 4 or 8 bits: those of 2 bits are stored in 4, and float4, whose numbers are
 * halves of integers up to 12, in 8. Scales along the depth
 * alone and blocks along the columns are not taken, nor are matrices of few columns, which are read
 * in panels of 64. Weights are stored anew as bytes by column, scales as float. Values that are
 * quantized too, so that the product is one of integers, are fuse-quantized's, which runs before.
 * By weights of 4 bits and less in blocks, rows may be rounded to int8, as ONNX Runtime does by default where it fuses
 * such products: the error is far below the weights' own. Faithful plans have nothing of this: there W is rounded as the model says.
 */
#include "constants.h"
#include "fuse_graph.h"
#include "node_note.h"

enum { A, B, BIAS, Z, SCALE, ZERO, OPERANDS, COLUMNS_LEAST = 16, ROUNDED_BLOCK_LEAST = 16 };

/* Weights [depth, columns], as they are stored. */
typedef struct Weights {
    const Value *stored, *scale, *zero;     /* zero may be NULL */
    const Value *whole;                     /* what scales are times, or NULL */
    bool transposed;                        /* [columns, depth] */
    uint32_t bits, stored_bits;             /* of a weight in MatMulBits, and in `stored` */
    uint8_t numbers[256];                   /* MatMulBits' of a code that is stored */
    float unit;                             /* what one of these is worth, but for the scale */
    uint64_t depth, columns, block, blocks; /* block: of the depth */
    enum { ONE_SCALE, COLUMN_SCALES, BLOCK_SCALES } scales;
} Weights;

/* ---- what there is --------------------------------------------------------------------------- */

static bool is_turn(const Node *node) {
    uint32_t count = 0;
    const Attr *attr = fuse_is(node, "Transpose") ? node_attr(node, "perm") : NULL;
    const int64_t *perm = attr_ints(attr, &count);
    if (!fuse_is(node, "Transpose")) return false;
    return !attr || (!attr->ref && count == 2 && perm[0] == 1 && perm[1] == 0);
}

/* The DequantizeLinear that `value` is of; NULL where there is none. */
static const Node *find_source(const Value *value, bool *turned) {
    bool cast = false, turn = false;
    for (; value && fuse_takes(value); value = fuse_input(value->producer, 0)) {
        const Node *node = value->producer;
        if (fuse_is(node, "DequantizeLinear")) {
            *turned ^= turn;
            return node;
        }
        if (!turn && is_turn(node))
            turn = true;
        else if (!cast && node_is_cast(node))
            cast = true;
        else
            return NULL;
    }
    return NULL;
}

/* Numbers of MatMulBits that mean 0 where there is no zero point: the middle; unsigned integers begin at 0. */
static uint32_t nothing_of(const Weights *w) {
    return dtype_least(type_dtype(w->stored->type)) < 0 ? 1u << (w->bits - 1) : 0;
}

static bool read_type(Weights *w) {
    const Dtype dtype = w->stored->type ? type_dtype(w->stored->type) : DTYPE_UNDEFINED;
    const bool halves = dtype == DTYPE_FLOAT4E2M1;
    w->stored_bits = dtype_bits(dtype);
    if (!halves && (!dtype_is_integer(dtype) || w->stored_bits > 8)) return false;
    w->bits = halves || w->stored_bits == 8 ? 8 : 4;
    w->unit = halves ? 0.5f : 1;
    for (uint32_t code = 0; code < 1u << w->stored_bits; code++) {
        double number = 0;
        dtype_to_double(dtype, code, &number);
        w->numbers[code] = (uint8_t)((int)(number / (double)w->unit) + (int)nothing_of(w));
    }
    return true;
}

static bool is_one(const Value *value) {
    const int64_t rank = fuse_rank(value);
    return rank == 0 || (rank == 1 && fuse_dim(value, 0) == 1);
}

/* How scales lie: `axis` of W, of `block` (0: none) elements each. */
static bool read_scales(Weights *w, int64_t axis, int64_t block) {
    const int64_t depth_axis = w->transposed ? 1 : 0;
    w->block = w->depth;
    if (!block && is_one(w->scale)) {
        w->scales = ONE_SCALE;
    } else if (!block) {
        w->scales = COLUMN_SCALES;
        if (axis == depth_axis || fuse_rank(w->scale) != 1 ||
            fuse_dim(w->scale, 0) != (int64_t)w->columns)
            return false;
    } else {
        w->scales = BLOCK_SCALES;
        if (block < 0 || axis != depth_axis || fuse_rank(w->scale) != 2) return false;
        if ((uint64_t)block < w->depth) w->block = (uint64_t)block;
    }
    w->blocks = (w->depth + w->block - 1) / w->block;
    return w->scales != BLOCK_SCALES || (fuse_dim(w->scale, depth_axis) == (int64_t)w->blocks &&
                                         fuse_dim(w->scale, 1 - depth_axis) == (int64_t)w->columns);
}

/* Scales that are quantized themselves, by one for all. */
static void read_whole(Weights *w) {
    const Node *made = w->scale && fuse_takes(w->scale) ? w->scale->producer : NULL;
    const Value *whole = fuse_is(made, "DequantizeLinear") ? fuse_input(made, 1) : NULL;
    if (!whole || fuse_input(made, 2) || node_attr(made, "block_size") ||
        node_attr(made, "output_dtype") || !value_is_constant(whole) || !is_one(whole))
        return;
    w->whole = whole;
    w->scale = fuse_input(made, 0);
}

/* Floats, powers of two, or 8 bits that are times `whole`. */
static bool takes_scale(const Weights *w) {
    const Dtype dtype = w->scale->type ? type_dtype(w->scale->type) : DTYPE_UNDEFINED;
    return w->whole ? dtype == DTYPE_FLOAT8E4M3FN
                    : fuse_takes(w->scale) || dtype == DTYPE_FLOAT8E8M0;
}

static bool read_weights(const Node *node, bool transposed, Weights *w) {
    const Attr *axis = node_attr(node, "axis"), *block = node_attr(node, "block_size");
    *w = (Weights){.stored = fuse_input(node, 0),
                   .scale = fuse_input(node, 1),
                   .zero = fuse_input(node, 2),
                   .transposed = transposed};
    read_whole(w);
    if (!w->stored || !w->scale || (axis && axis->ref) || (block && block->ref) ||
        !value_is_constant(w->stored) || !value_is_constant(w->scale) || !takes_scale(w) ||
        (w->zero && !value_is_constant(w->zero)) || !read_type(w) || fuse_rank(w->stored) != 2)
        return false;
    const int64_t depth = fuse_dim(w->stored, transposed ? 1 : 0),
                  columns = fuse_dim(w->stored, transposed ? 0 : 1);
    if (depth < 1 || depth > INT32_MAX || columns < COLUMNS_LEAST || columns > INT32_MAX)
        return false;
    w->depth = (uint64_t)depth;
    w->columns = (uint64_t)columns;
    if (w->zero && !fuse_same_shape(w->zero, w->scale)) return false;
    int64_t at = node_attr_int(node, "axis", 1);
    if (at < 0) at += 2;
    return read_scales(w, at, node_attr_int(node, "block_size", 0));
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Codes as stored, in raw form; NULL where they can't be read. */
static uint8_t *read_bytes(const Fuse *fuse, const Value *value, uint64_t count, uint32_t bits) {
    Arena *scratch = fuse->ctx->scratch;
    const Tensor *tensor = constant_tensor(value, scratch);
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) != count) return NULL;
    const uint64_t size = (count * bits + 7) / 8;
    uint8_t *bytes = ARENA_ARRAY(scratch, uint8_t, size + 1);
    return tensor_read_raw(tensor, 0, bytes, size, NULL) ? bytes : NULL;
}

/* Number i of those, as MatMulBits has it. */
static uint32_t number_at(const Weights *w, const uint8_t *bytes, uint64_t i) {
    const uint32_t bits = w->stored_bits;
    return w->numbers[bytes[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1)];
}

/* Where the scale of a block of a column is among those stored. */
static uint64_t scale_at(const Weights *w, uint64_t column, uint64_t block) {
    if (w->scales == ONE_SCALE) return 0;
    if (w->scales == COLUMN_SCALES) return column;
    return w->transposed ? column * w->blocks + block : block * w->columns + column;
}

static uint64_t scale_count(const Weights *w) {
    if (w->scales == ONE_SCALE) return 1;
    return w->scales == COLUMN_SCALES ? w->columns : w->columns * w->blocks;
}

static Value *new_constant(Fuse *fuse, Graph *graph, Dtype dtype, const Type *type,
                           const void *data) {
    Arena *arena = &fuse->ctx->model->arena;
    int64_t *dims = ARENA_ARRAY(arena, int64_t, type->rank + 1);
    uint64_t size = dtype == DTYPE_FLOAT ? sizeof(float) : 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i].size;
        size *= (uint64_t)dims[i];
    }
    Value *value = value_new(graph, sym_fresh(&fuse->ctx->model->syms, "weights"));
    value_set_type(value, type);
    value_set_init(value, tensor_new_raw(arena, dtype, dims, type->rank, data, size));
    return value;
}

static const Type *type_of(Fuse *fuse, Dtype dtype, const int64_t *sizes, uint32_t rank) {
    Arena *arena = &fuse->ctx->model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, rank + 1);
    for (uint32_t i = 0; i < rank; i++) dims[i] = (Dim){.kind = DIM_KNOWN, .size = sizes[i]};
    return type_new_shaped(arena, dtype, dims, rank);
}

/* Bytes by column and block, the first weight in the low bits. */
static Value *make_bytes(Fuse *fuse, Graph *graph, const Weights *w) {
    const uint64_t size = w->bits == 4 ? (w->block + 1) / 2 : w->block;
    const uint8_t *from = read_bytes(fuse, w->stored, w->depth * w->columns, w->stored_bits);
    if (!from) return NULL;
    uint8_t *to = ARENA_ARRAY(fuse->ctx->scratch, uint8_t, w->columns * w->blocks * size + 1);
    for (uint64_t n = 0; n < w->columns; n++)
        for (uint64_t k = 0; k < w->depth; k++) {
            const uint64_t i = w->transposed ? n * w->depth + k : k * w->columns + n;
            const uint64_t at = k % w->block, block = (n * w->blocks + k / w->block) * size;
            const uint32_t number = number_at(w, from, i);
            if (w->bits == 8)
                to[block + at] = (uint8_t)number;
            else
                to[block + at / 2] |= (uint8_t)(number << at % 2 * 4);
        }
    const int64_t dims[] = {(int64_t)w->columns, (int64_t)w->blocks, (int64_t)size};
    return new_constant(fuse, graph, DTYPE_UINT8, type_of(fuse, DTYPE_UINT8, dims, 3), to);
}

static Value *make_factors(Fuse *fuse, Graph *graph, const Weights *w, const float *items) {
    const int64_t dims[] = {(int64_t)w->columns, (int64_t)w->blocks};
    float *to = ARENA_ARRAY(fuse->ctx->scratch, float, w->columns * w->blocks + 1);
    for (uint64_t n = 0; n < w->columns; n++)
        for (uint64_t b = 0; b < w->blocks; b++) to[n * w->blocks + b] = items[scale_at(w, n, b)];
    return new_constant(fuse, graph, DTYPE_FLOAT, type_of(fuse, DTYPE_FLOAT, dims, 2), to);
}

/* Numbers of a constant that are floats of any kind; NULL where they can't be read. */
static float *read_floats(const Fuse *fuse, const Value *value, uint64_t count) {
    const Tensor *tensor = constant_tensor(value, fuse->ctx->scratch);
    float *items = ARENA_ARRAY(fuse->ctx->scratch, float, count + 1);
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) != count) return NULL;
    if (dtype_bits((Dtype)tensor->dtype) != 8)
        return tensor_read_floats(tensor, 0, count, items, NULL) ? items : NULL;
    const uint8_t *codes = read_bytes(fuse, value, count, 8);
    for (uint64_t i = 0; codes && i < count; i++) {
        double number = 0;
        dtype_to_double((Dtype)tensor->dtype, codes[i], &number);
        items[i] = (float)number;
    }
    return codes ? items : NULL;
}

static Value *make_scales(Fuse *fuse, Graph *graph, const Weights *w, float alpha) {
    const uint64_t count = scale_count(w);
    const float one = 1, *whole = w->whole ? read_floats(fuse, w->whole, 1) : &one;
    float *items = read_floats(fuse, w->scale, count);
    if (!items || !whole) return NULL;
    for (uint64_t i = 0; i < count; i++) items[i] *= *whole * w->unit * alpha;
    return make_factors(fuse, graph, w, items);
}

/* Sets *made, to NULL where all are what is meant without. */
static bool make_zeros(Fuse *fuse, Graph *graph, const Weights *w, Value **made) {
    const uint64_t count = scale_count(w);
    const uint32_t middle = 1u << (w->bits - 1), none = nothing_of(w);
    float *items = ARENA_ARRAY(fuse->ctx->scratch, float, count + 1);
    const uint8_t *from = w->zero ? read_bytes(fuse, w->zero, count, w->stored_bits) : NULL;
    bool plain = true;
    *made = NULL;
    if (w->zero && !from) return false;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t number = from ? number_at(w, from, i) : none;
        items[i] = (float)number;
        plain = plain && number == middle;
    }
    if (!plain) *made = make_factors(fuse, graph, w, items);
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool is_fused_product(const Node *node) {
    return node && sym_equals(node->domain, FUSED_DOMAIN) && sym_equals(node->op_type, "MatMul");
}

/* A bias has an element for each column, as MatMulBits wants it. */
static bool has_columns(const Node *product, const Weights *w) {
    const Value *bias = fuse_input(product, BIAS);
    return !bias || fuse_dim(bias, -1) == (int64_t)w->columns;
}

/* Not by blocks so small that a scale for each part of a row takes more than it saves. */
static bool rows_may_be_bytes(const Weights *w) {
    return w->bits == 4 && w->scales == BLOCK_SCALES && w->block >= ROUNDED_BLOCK_LEAST;
}

static void make(Fuse *fuse, Node *product, const Weights *w) {
    Value *zero, *bytes, *scale;
    float alpha;
    Graph *graph = product->graph;
    if (!fuse_attr_float(product, "alpha", 1, &alpha)) return;
    if (!make_zeros(fuse, graph, w, &zero)) return;
    scale = make_scales(fuse, graph, w, alpha);
    bytes = scale ? make_bytes(fuse, graph, w) : NULL;
    if (!bytes) return;
    Node *made = fuse_new(fuse, product, "MatMulBits", product, OPERANDS);
    node_share_lists(made, product);
    node_remove_attr(made, "alpha");
    node_remove_attr(made, "transB");
    node_set_attr_int(made, "K", (int64_t)w->depth);
    node_set_attr_int(made, "bits", w->bits);
    if (rows_may_be_bytes(w)) node_set_attr_int(made, "accuracy_level", 4);
    node_set_attr_int(made, "block_size", (int64_t)w->block);
    for (uint32_t i = A; i <= Z; i++) node_set_input(made, i, fuse_input(product, i));
    node_set_input(made, B, bytes);
    node_set_input(made, SCALE, scale);
    node_set_input(made, ZERO, zero);
    fuse_replace_root(fuse, made, product);
}

static void visit(Fuse *fuse, Node *product) {
    Weights w;
    const bool fused = is_fused_product(product);
    if (fuse->faithful || (!fused && !fuse_is(product, "MatMul") && !fuse_is(product, "Gemm")))
        return;
    bool transposed = node_attr_int(product, "transB", 0) != 0;
    const Node *source = find_source(fuse_input(product, B), &transposed);
    if (!source || !fuse_takes(product->outputs[0]) || !fuse_input(product, A) ||
        node_attr_int(product, "transA", 0) || fuse_rank(fuse_input(product, A)) < 1 ||
        !read_weights(source, transposed, &w))
        return;
    if (!fused) product = fuse_matmul_alone(fuse, product);
    if (product && has_columns(product, &w)) make(fuse, product, &w);
}

FUSE_PASS(fuse_weight_only, "fuse-weight-only",
          "fuse products with weights of 8 bits and less (weight-only quantization), for plans",
          visit);
