// SPDX-License-Identifier: Apache-2.0
/* fuse-quantized: what is made of quantized values is computed in integers, for plans.
 *
 *   Q(act(Conv(DQ(X), DQ(W)) + bias))     ->  demi.fused.QConv(X, W, zeros, factor, shift, bounds)
 *   Q(act(MatMul(DQ(A), DQ(B)) + bias))   ->  demi.fused.QMatMul, also of Gemm and Transpose(DQ(B))
 *   Q(act(DQ(A) + DQ(B)))                 ->  demi.fused.QAdd, also of differences; the QConv that
 *                                             makes A or B, where nothing else reads that
 *   Q(act(ConvTranspose(DQ(X), DQ(W)) + bias))  ->  demi.fused.QConvTranspose, of one group
 *   Q(act(DQ(A) * DQ(B)))                 ->  demi.fused.QMul
 *   Q(DQ(A) / DQ(B))                      ->  demi.fused.QDiv
 *   Q(AveragePool(DQ(X)))                 ->  demi.fused.QAveragePool
 *   Q(Resize(DQ(X)))                      ->  demi.fused.QResize, of one axis or two neighbors, by
 *                                             interpolation; nearest elements have moved before
 *   Q(ReduceMean(DQ(X)))                  ->  demi.fused.QMean, also of GlobalAveragePool, ReduceSum
 *   DQ(Q(X)), what is left               ->  demi.fused.RoundSteps, also of int16 and uint16
 *   Cast(MatMulInteger(A, B, zero)) * scales + bias  ->  demi.fused.QMatMul, whose result is float
 *   rows by scales of their own (row_form.h)  ->  demi.fused.QuantizeRows, and QMatMul of its bytes
 *   BatchNormalization(Cast(ConvInteger(X, W, zero)) * scales + bias)  ->  demi.fused.QConv, likewise
 *
 * Q is QuantizeLinear and DQ DequantizeLinear, of int8 and uint8; bias, act (Relu, Clip by
 * constants) and, but of QAdd and QMul, Q may be absent: the result is float then. Data and results have one
 * scale and zero point for all, weights a scale for all or for each channel (column). Weights less
 * their zero point are int8: constants that are stored otherwise are stored anew where they fit,
 * others have zero point 0 as they are. A sum has at most DEPTH_MOST products, so that it stays
 * within 32 bits. A normalization is inference by channel, of constants, as bias is then. What Q gives differs by one at most, where rounding decides; faithful plans have
 * nothing of this.
 */
#include <math.h>

#include "constants.h"
#include "quantized_forms.h"

enum {
    DATA,
    WEIGHTS,
    DATA_ZERO,
    RESULT_ZERO,
    FACTOR,
    SHIFT,
    LOW,
    HIGH,
    OPERANDS,
    ADDED = OPERANDS,
    SUM_CONV_FACTOR,
    SUM_ADDED_FACTOR,
    SUM_CONV_SHIFT,
    SUM_CONV_LOW,
    SUM_CONV_OPERANDS = SUM_CONV_LOW + 2,
    CONV_RANK_MOST = 4,
    DEPTH_MOST = INT32_MAX / (255 * 128),
};

static const uint32_t product_places[2] = {RESULT_ZERO, LOW};

typedef struct Product {
    const char *op; /* of demi.fused */
    Node *node;     /* of the model */
    Node *root;     /* whose result it has */
    Quantized x, w;
    bool conv, transposed; /* both: a transposed convolution */
    Value *weights;        /* as they are stored, or new ones */
    bool trans_b;
    int64_t channels_axis; /* of weights, that may have a scale each */
    Value *bias;           /* NULL: none */
    FuseActivation activation;
    Quantized to;
    bool rounds; /* there is a Q: `to` */
} Product;

/* ---- weights --------------------------------------------------------------------------------- */

/* Zero points as int64, one or one for each channel; all 0 where there are none. */
static bool read_zeros(const Fuse *fuse, const Value *zero, uint64_t count, int64_t **zeros) {
    uint64_t have = 0;
    if (!zero) {
        *zeros = ARENA_ARRAY(fuse->ctx->scratch, int64_t, count);
        return true;
    }
    const Tensor *tensor = constant_tensor(zero, fuse->ctx->scratch);
    return tensor && tensor_check(tensor, NULL) &&
           tensor_read_ints(tensor, fuse->ctx->scratch, count, zeros, &have) && have == count;
}

/* The constant's elements less their zero points, as int8; NULL where one does not fit. */
static Value *shifted_weights(Fuse *fuse, const Product *p, const int64_t *zeros, uint64_t count) {
    Arena *scratch = fuse->ctx->scratch;
    const Value *stored = p->w.bytes;
    const Tensor *tensor = constant_tensor(stored, scratch);
    if (!tensor || !tensor_check(tensor, NULL)) return NULL;
    const uint64_t size = tensor_count(tensor);
    uint8_t *bytes = ARENA_ARRAY(scratch, uint8_t, size + 1);
    uint64_t inner = 1;
    for (int64_t i = p->channels_axis + 1; i < fuse_rank(stored); i++)
        inner *= (uint64_t)fuse_dim(stored, i);
    if (!tensor_read_raw(tensor, 0, bytes, size, NULL)) return NULL;
    for (uint64_t i = 0; i < size; i++) {
        const int64_t zero = zeros[i / inner % count];
        const int64_t item = p->w.dtype == DTYPE_INT8 ? (int8_t)bytes[i] : bytes[i];
        if (item - zero < INT8_MIN || item - zero > INT8_MAX) return NULL;
        bytes[i] = (uint8_t)(item - zero);
    }
    const Type *type = type_with_dtype(&fuse->ctx->model->arena, stored->type, DTYPE_INT8);
    return quantized_new_bytes(fuse, p->node->graph, type, bytes);
}

static bool has_weights(const Fuse *fuse, const Product *p) {
    const Value *scale = p->w.scale;
    const int64_t channels = fuse_dim(p->w.bytes, p->channels_axis);
    const bool one = quantized_is_number(scale);
    int64_t *zeros;
    if (!value_is_constant(scale) || channels < 1) return false;
    if (!one &&
        (fuse_rank(scale) != 1 || fuse_dim(scale, 0) != channels || p->w.axis != p->channels_axis))
        return false;
    const uint64_t count = one ? 1 : (uint64_t)channels;
    const Tensor *tensor = constant_tensor(scale, fuse->ctx->scratch);
    float *scales = ARENA_ARRAY(fuse->ctx->scratch, float, count);
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_floats(tensor, 0, count, scales, NULL))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!(fabsf(scales[i]) <= QUANTIZED_MOST)) return false;
    return read_zeros(fuse, p->w.zero, count, &zeros);
}

/* Weights that are int8 with zero point 0, from zero points for `count` channels; false where they
 * can't be. */
static bool make_weights(Fuse *fuse, Product *p, uint64_t count) {
    int64_t *zeros;
    bool plain = p->w.dtype == DTYPE_INT8;
    if (!read_zeros(fuse, p->w.zero, count, &zeros)) return false;
    for (uint64_t i = 0; i < count; i++) plain = plain && zeros[i] == 0;
    p->weights = p->w.bytes;
    if (!plain)
        p->weights = value_is_constant(p->w.bytes) ? shifted_weights(fuse, p, zeros, count) : NULL;
    return p->weights;
}

static uint64_t channels_of(const Product *p, const Value *per_channel) {
    const bool one = !per_channel || quantized_is_number(per_channel);
    return one ? 1 : (uint64_t)fuse_dim(p->w.bytes, p->channels_axis);
}

/* ---- products -------------------------------------------------------------------------------- */

/* True where `value` is one float, or one for each of `channels` along `axis` of y, counted from
 * the end, and adds no axis to it. */
static bool is_channels(const Value *value, const Value *y, int64_t axis, int64_t channels) {
    const int64_t rank = value ? fuse_rank(value) : -1;
    if (rank < 0 || rank > fuse_rank(y) || !fuse_takes(value) ||
        type_dtype(value->type) != DTYPE_FLOAT)
        return false;
    if (quantized_is_number(value)) return true;
    for (int64_t i = 1; i <= rank; i++)
        if (fuse_dim(value, -i) != (i == axis ? channels : 1)) return false;
    return true;
}

static bool has_depth(const Product *p) {
    int64_t depth = 1, rank = fuse_rank(p->w.bytes);
    for (int64_t i = p->conv ? 0 : rank - 2; i < rank; i++) {
        const int64_t dim = fuse_dim(p->w.bytes, i);
        if (i == p->channels_axis) continue;
        if (dim < 1 || dim > DEPTH_MOST) return false;
        depth *= dim;
        if (depth > DEPTH_MOST) return false;
    }
    return true;
}

static bool begin_conv(Product *p) {
    Value *bias = fuse_input(p->node, 2);
    p->op = p->transposed ? "QConvTranspose" : "QConv";
    p->channels_axis = p->transposed ? 1 : 0;
    const int64_t rank = fuse_rank(p->w.bytes);
    if (p->transposed && !fuse_has_phases(p->node)) return false;
    if (rank < 3 || rank > CONV_RANK_MOST || fuse_rank(p->x.bytes) != rank) return false;
    if (bias && (fuse_rank(bias) != 1 || !fuse_takes(bias) ||
                 type_dtype(bias->type) != DTYPE_FLOAT || fuse_dim(bias, 0) < 1))
        return false;
    p->bias = bias;
    return true;
}

static bool begin_gemm(Product *p) {
    float alpha, beta;
    const Value *y = p->node->outputs[0];
    Value *bias = fuse_input(p->node, 2);
    if (fuse_opset(p->node) < 7 || node_attr_int(p->node, "transA", 0) ||
        !fuse_attr_float(p->node, "alpha", 1, &alpha) ||
        !fuse_attr_float(p->node, "beta", 1, &beta) || alpha != 1 || (bias && beta != 1))
        return false;
    p->trans_b = node_attr_int(p->node, "transB", 0) != 0;
    p->channels_axis = p->trans_b ? 0 : 1;
    if (bias && !is_channels(bias, y, 1, fuse_dim(p->w.bytes, p->channels_axis))) return false;
    p->bias = bias;
    return true;
}

/* B, or what it is with its last axes exchanged. */
static bool find_matrix(const Fuse *fuse, Product *p, const Value *b) {
    uint32_t count = 0;
    const Node *turn = b->producer;
    const Attr *attr = fuse_is(turn, "Transpose") ? node_attr(turn, "perm") : NULL;
    const int64_t *perm = attr_ints(attr, &count);
    if (attr && !attr->ref && count == 2 && perm[0] == 1 && perm[1] == 0) {
        p->trans_b = true;
        b = fuse_input(turn, 0);
    }
    return quantized_source(fuse, b, &p->w) && fuse_rank(p->w.bytes) >= 2;
}

static bool begin_matmul(const Fuse *fuse, Product *p) {
    p->op = "QMatMul";
    if (fuse_rank(p->x.bytes) < 2) return false;
    if (fuse_is(p->node, "Gemm"))
        return quantized_source(fuse, fuse_input(p->node, 1), &p->w) &&
               fuse_rank(p->w.bytes) == 2 && begin_gemm(p);
    if (!find_matrix(fuse, p, fuse_input(p->node, 1))) return false;
    p->channels_axis = fuse_rank(p->w.bytes) - (p->trans_b ? 2 : 1);
    return true;
}

static bool begin(const Fuse *fuse, Node *node, Product *p) {
    const bool transposed = fuse_is(node, "ConvTranspose"),
               conv = transposed || fuse_is(node, "Conv");
    *p = (Product){.node = node, .root = node, .conv = conv, .transposed = transposed};
    if (!conv && !fuse_is(node, "MatMul") && !fuse_is(node, "Gemm")) return false;
    if (!fuse_input(node, 1) || fuse_rank(node->outputs[0]) < 0 ||
        !quantized_source(fuse, fuse_input(node, 0), &p->x) || !p->x.single)
        return false;
    if (conv ? !quantized_source(fuse, fuse_input(node, 1), &p->w) || !begin_conv(p)
             : !begin_matmul(fuse, p))
        return false;
    return has_weights(fuse, p) && has_depth(p);
}

/* ---- what follows ---------------------------------------------------------------------------- */

static void take_bias(Product *p) {
    const Value *y = p->root->outputs[0];
    Node *add = fuse_reader(y);
    if (p->bias || !fuse_is(add, "Add") || fuse_opset(add) < 7) return;
    Value *bias = fuse_other(add, y);
    const int64_t axis = p->conv ? fuse_rank(y) - 1 : 1;
    if (!bias || !is_channels(bias, y, axis, fuse_dim(p->w.bytes, p->channels_axis))) return;
    p->bias = bias;
    p->root = add;
}

static void take_rest(const Fuse *fuse, Product *p) {
    take_bias(p);
    if (quantized_find_bounds(fuse, p->root->outputs[0], &p->activation))
        p->root = p->activation.nodes[0];
    Node *reader = fuse_reader(p->root->outputs[0]);
    p->rounds = quantized_target(fuse, reader, &p->to) && p->to.single;
    if (p->rounds) p->root = reader;
}

/* a op b, of which one may have an element for each channel. */
static Value *compute(Fuse *fuse, Node *at, const char *op, Value *const operands[2]) {
    const Value *a = operands[0], *b = operands[1];
    const Value *wide = quantized_is_number(a) && fuse_rank(a) <= fuse_rank(b) ? b : a;
    return fuse_make(fuse, at, op, operands, wide->type);
}

static void visit_product(Fuse *fuse, Node *node) {
    Product p;
    if (fuse->faithful || !begin(fuse, node, &p) ||
        !make_weights(fuse, &p, channels_of(&p, p.w.scale)))
        return;
    take_rest(fuse, &p);
    Value *factor = p.x.scale, *shift = p.bias;
    if (p.rounds) {
        factor = compute(fuse, p.root, "Div", (Value *const[2]){factor, p.to.scale});
        if (shift) shift = compute(fuse, p.root, "Div", (Value *const[2]){shift, p.to.scale});
    }
    factor = compute(fuse, p.root, "Mul", (Value *const[2]){factor, p.w.scale});
    Node *made = fuse_new(fuse, p.root, p.op, node, OPERANDS);
    if (p.conv) node_share_lists(made, node);
    if (p.trans_b) node_set_attr_int(made, "transB", 1);
    node_set_input(made, DATA, p.x.bytes);
    node_set_input(made, WEIGHTS, p.weights);
    node_set_input(made, DATA_ZERO, quantized_zero(&p.x));
    node_set_input(made, FACTOR, factor);
    node_set_input(made, SHIFT, shift);
    const QuantizedResult result = {p.rounds ? &p.to : NULL, &p.activation};
    quantized_set_result(fuse, made, &result, product_places);
    fuse_replace_root(fuse, made, p.root);
}

/* ---- sums ------------------------------------------------------------------------------------ */

enum { SUM_FACTOR = 2, SUM_SHIFT = 4, SUM_ZERO, SUM_LOW, SUM_OPERANDS = 8 };
static const uint32_t sum_places[2] = {SUM_ZERO, SUM_LOW};

typedef struct Sum {
    Node *node, *root;
    Quantized terms[2], to;
    float factors[2];
    FuseActivation activation;
} Sum;

/* The number that operand i is; `otherwise` where it is absent. False where it is none. */
static bool read_operand(const Node *node, uint32_t i, float otherwise, float *number) {
    const Value *value = fuse_input(node, i);
    *number = otherwise;
    return !value || constant_scalar(value, number);
}

/* The QConv that makes a term's bytes for this sum alone, and between which bounds they are, less
 * their zero point. NULL where there is none that can add: depthwise ones can't. */
static Node *find_conv(const Fuse *fuse, const Sum *sum, uint32_t i, float bounds[2]) {
    const Quantized *term = &sum->terms[i];
    Node *conv = term->bytes->producer;
    int64_t *zeros;
    if (!conv || !sym_equals(conv->domain, FUSED_DOMAIN) || !sym_equals(conv->op_type, "QConv") ||
        fuse_input(conv, ADDED) || fuse_reader(term->bytes) != term->node ||
        fuse_reader(term->node->outputs[0]) != sum->node ||
        !fuse_same_shape(term->bytes, sum->terms[!i].bytes))
        return NULL;
    if (node_attr_int(conv, "group", 1) != 1 && fuse_dim(fuse_input(conv, WEIGHTS), 1) == 1)
        return NULL;
    const Value *zero = fuse_input(conv, RESULT_ZERO);
    if (!zero || !read_zeros(fuse, zero, 1, &zeros) || zeros[0] != term->offset) return NULL;
    const float least = (float)((term->dtype == DTYPE_INT8 ? INT8_MIN : 0) - term->offset);
    if (!read_operand(conv, LOW, -HUGE_VALF, &bounds[0]) ||
        !read_operand(conv, HIGH, HUGE_VALF, &bounds[1]))
        return NULL;
    bounds[0] = fminf(fmaxf(bounds[0], least), least + UINT8_MAX);
    bounds[1] = fmaxf(fminf(bounds[1], least + UINT8_MAX), least);
    return conv;
}

/* The sum is made where the convolution's result is rounded. */
static bool add_in_conv(Fuse *fuse, const Sum *sum) {
    static const uint32_t places[2] = {RESULT_ZERO, SUM_CONV_LOW};
    float bounds[2];
    uint32_t i = 0;
    Node *conv = find_conv(fuse, sum, 0, bounds);
    if (!conv) conv = find_conv(fuse, sum, i = 1, bounds);
    if (!conv) return false;
    const Quantized *added = &sum->terms[!i];
    Node *made = fuse_new(fuse, sum->root, "QConv", conv, SUM_CONV_OPERANDS);
    Graph *graph = made->graph;
    node_share_lists(made, conv);
    if (node_attr(made, "to")) node_remove_attr(made, "to");
    for (uint32_t k = 0; k <= SHIFT && k < conv->input_count; k++)
        node_set_input(made, k, fuse_input(conv, k));
    for (uint32_t k = 0; k < 2; k++)
        node_set_input(made, LOW + k, quantized_new_float(fuse, graph, bounds[k]));
    node_set_input(made, ADDED, added->bytes);
    node_set_input(made, SUM_CONV_FACTOR, quantized_new_float(fuse, graph, sum->factors[i]));
    node_set_input(made, SUM_ADDED_FACTOR, quantized_new_float(fuse, graph, sum->factors[!i]));
    if (added->offset)
        node_set_input(made, SUM_CONV_SHIFT,
                       quantized_new_float(fuse, graph, -sum->factors[!i] * (float)added->offset));
    quantized_set_result(fuse, made, &(QuantizedResult){&sum->to, &sum->activation}, places);
    fuse_replace_root(fuse, made, sum->root);
    return true;
}

static void add_alone(Fuse *fuse, const Sum *sum) {
    Node *made = fuse_new(fuse, sum->root, "QAdd", sum->node, SUM_OPERANDS);
    double shift = 0;
    for (uint32_t i = 0; i < 2; i++) {
        shift -= (double)sum->factors[i] * sum->terms[i].offset;
        node_set_input(made, i, sum->terms[i].bytes);
        node_set_input(made, SUM_FACTOR + i,
                       quantized_new_float(fuse, made->graph, sum->factors[i]));
    }
    if (shift != 0)
        node_set_input(made, SUM_SHIFT, quantized_new_float(fuse, made->graph, (float)shift));
    quantized_set_result(fuse, made, &(QuantizedResult){&sum->to, &sum->activation}, sum_places);
    fuse_replace_root(fuse, made, sum->root);
}

static void visit_sum(Fuse *fuse, Node *node) {
    Sum sum = {.node = node, .root = node};
    const bool sub = fuse_is(node, "Sub");
    if (fuse->faithful || (!sub && !fuse_is(node, "Add")) || fuse_opset(node) < 7) return;
    if (fuse_rank(node->outputs[0]) < 0) return;
    for (uint32_t i = 0; i < 2; i++)
        if (!quantized_source(fuse, fuse_input(node, i), &sum.terms[i]) || !sum.terms[i].single)
            return;
    if (quantized_find_bounds(fuse, node->outputs[0], &sum.activation))
        sum.root = sum.activation.nodes[0];
    sum.root = fuse_reader(sum.root->outputs[0]);
    if (!quantized_target(fuse, sum.root, &sum.to) || !sum.to.single) return;
    for (uint32_t i = 0; i < 2; i++)
        sum.factors[i] = (sub && i ? -sum.terms[i].step : sum.terms[i].step) / sum.to.step;
    if (!add_in_conv(fuse, &sum)) add_alone(fuse, &sum);
}

/* ---- dynamic quantization -------------------------------------------------------------------- */

/* The weights of MatMulInteger or ConvInteger, which have no scales: `p->w` says only what they are. */
static bool begin_integer(Node *node, Product *p) {
    const bool conv = fuse_is(node, "ConvInteger");
    *p = (Product){.op = "QMatMul", .node = node, .root = node, .conv = conv};
    if (!conv && !fuse_is(node, "MatMulInteger")) return false;
    if (conv) p->op = "QConv";
    Value *x = fuse_input(node, 0), *w = fuse_input(node, 1), *zero = fuse_input(node, 3);
    if (!x || !w || !fuse_takes_bytes(x) || !fuse_takes_bytes(w) ||
        (fuse_input(node, 2) && !quantized_is_number(fuse_input(node, 2))))
        return false;
    const int64_t rank = fuse_rank(w);
    if (conv ? rank < 3 || rank > CONV_RANK_MOST || fuse_rank(x) != rank
             : rank != 2 || fuse_rank(x) < 2)
        return false;
    p->x = (Quantized){.bytes = x, .zero = fuse_input(node, 2)};
    p->w = (Quantized){.bytes = w, .zero = zero, .dtype = type_dtype(w->type)};
    p->channels_axis = conv ? 0 : 1;
    return fuse_dim(w, p->channels_axis) > 0 && has_depth(p);
}

/* What a float result is scaled and shifted by; shift may be NULL. */
typedef struct Scaling {
    Value *factor, *shift;
} Scaling;

/* One float a channel from a constant of them, or of one for all, perhaps as a Reshape has them; NULL
 * where it is none. */
static float *read_channels(const Fuse *fuse, const Value *value, uint64_t channels) {
    if (value && fuse_is(value->producer, "Reshape")) value = fuse_input(value->producer, 0);
    const bool one = value && quantized_is_number(value);
    const Tensor *tensor = value ? constant_tensor(value, fuse->ctx->scratch) : NULL;
    if (!tensor || !value_is_constant(value) || !tensor_check(tensor, NULL) || !fuse_takes(value) ||
        tensor_count(tensor) != (one ? 1 : channels))
        return NULL;
    float *items = ARENA_ARRAY(fuse->ctx->scratch, float, channels);
    if (!tensor_read_floats(tensor, 0, one ? 1 : channels, items, NULL)) return NULL;
    for (uint64_t c = 1; one && c < channels; c++) items[c] = items[0];
    return items;
}

/* The normalization as y = k x + shift by channel. */
static bool read_norm(const Fuse *fuse, const Node *norm, uint64_t channels, float *by[2]) {
    enum { SCALE = 1, BIAS, MEAN, VAR, NORM_OPERANDS };
    const float *factors[NORM_OPERANDS];
    float epsilon;
    if (norm->input_count != NORM_OPERANDS || norm->output_count != 1 || fuse_opset(norm) < 9 ||
        node_attr_int(norm, "training_mode", 0) != 0 ||
        !fuse_attr_float(norm, "epsilon", 1e-5f, &epsilon))
        return false;
    for (uint32_t i = SCALE; i < NORM_OPERANDS; i++)
        if (!(factors[i] = read_channels(fuse, fuse_input(norm, i), channels))) return false;
    for (uint32_t i = 0; i < 2; i++) by[i] = ARENA_ARRAY(fuse->ctx->scratch, float, channels);
    for (uint64_t c = 0; c < channels; c++) {
        by[0][c] = factors[SCALE][c] / sqrtf(factors[VAR][c] + epsilon);
        by[1][c] = factors[BIAS][c] - factors[MEAN][c] * by[0][c];
        if (!(fabsf(by[0][c]) <= QUANTIZED_MOST && fabsf(by[1][c]) <= QUANTIZED_MOST)) return false;
    }
    return true;
}

/* A normalization that follows the convolution goes into its factors and shifts. */
static void take_norm(Fuse *fuse, Product *p, Scaling *to) {
    Node *norm = fuse_reader(p->root->outputs[0]);
    const uint64_t channels = (uint64_t)fuse_dim(p->w.bytes, p->channels_axis);
    float *by[2], *bias = NULL;
    if (!p->conv || !fuse_is(norm, "BatchNormalization") ||
        fuse_input(norm, 0) != p->root->outputs[0] || !read_norm(fuse, norm, channels, by))
        return;
    if (to->shift && !(bias = read_channels(fuse, to->shift, channels))) return;
    for (uint64_t c = 0; bias && c < channels; c++) by[1][c] += bias[c] * by[0][c];
    p->root = norm;
    const int64_t rank = fuse_rank(p->node->outputs[0]);
    Value *k = quantized_new_channels(fuse, norm->graph, by[0], &(Channels){channels, rank});
    to->factor = compute(fuse, norm, "Mul", (Value *const[2]){to->factor, k});
    to->shift = quantized_new_channels(fuse, norm->graph, by[1], &(Channels){channels, 1});
}

static void visit_integer(Fuse *fuse, Node *node) {
    Product p;
    if (fuse->faithful || !begin_integer(node, &p)) return;
    Node *cast = fuse_reader(node->outputs[0]);
    if (!node_is_cast(cast) || !cast->outputs[0] ||
        type_dtype(cast->outputs[0]->type) != DTYPE_FLOAT)
        return;
    const Value *sums = cast->outputs[0];
    const int64_t columns = fuse_dim(p.w.bytes, p.channels_axis);
    const int64_t axis = p.conv ? fuse_rank(p.w.bytes) - 1 : 1;
    Node *product = fuse_reader(sums);
    Scaling by = {fuse_is(product, "Mul") ? fuse_other(product, sums) : NULL, NULL};
    if (!by.factor || !is_channels(by.factor, sums, axis, columns)) return;
    if (!make_weights(fuse, &p, channels_of(&p, p.w.zero))) return;
    p.root = product;
    take_bias(&p);
    by.shift = p.bias;
    take_norm(fuse, &p, &by);
    if (quantized_find_bounds(fuse, p.root->outputs[0], &p.activation))
        p.root = p.activation.nodes[0];
    Node *made = fuse_new(fuse, p.root, p.op, node, OPERANDS);
    if (p.conv) node_share_lists(made, node);
    node_set_input(made, DATA, p.x.bytes);
    node_set_input(made, WEIGHTS, p.weights);
    node_set_input(made, DATA_ZERO, p.x.zero);
    node_set_input(made, FACTOR, by.factor);
    node_set_input(made, SHIFT, by.shift);
    quantized_set_result(fuse, made, &(QuantizedResult){NULL, &p.activation}, product_places);
    fuse_replace_root(fuse, made, p.root);
}

FUSE_PASS(fuse_quantized, "fuse-quantized",
          "fuse operators between Q/DQ into integer arithmetic, for plans", visit_product,
          visit_sum, quantized_fuse_row_bytes, quantized_fuse_row_product, visit_integer,
          quantized_fuse_mul, quantized_fuse_mean, quantized_fuse_pool, quantized_fuse_resize,
          quantized_fuse_round);
