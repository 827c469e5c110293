// SPDX-License-Identifier: Apache-2.0
/* fuse-layer-norm: layer normalization in its parts becomes one node, and takes the sum before it.
 *
 *   m = ReduceMean(x)   d = Sub(x, m)   v = ReduceMean(d d)   s = Sqrt(v + epsilon)
 *   Add(Mul(d / s, Scale), Bias)            ->  demi.fused.LayerNormalization(x, , Scale, Bias)
 *   LayerNormalization(Add(p, q), S, B)     ->  demi.fused.LayerNormalization(p, q, S, B)
 *   RMSNormalization(Add(p, q), S)          ->  demi.fused.LayerNormalization(p, q, S), rms = 1
 *   LayerNormalization(Cast(Add(p, q), float), S, B), p and q in 16 bit
 *                                           ->  the same, to = float
 *
 * and without m, x in the place of d, of root mean squares: rms = 1.
 *
 * d d is Pow(d, 2) or Mul(d, d), d may be computed twice; d / s is Div(d, s), Mul(d, Reciprocal(s))
 * or Mul(d, Div(1, s)), or a cast of that to 16 bit; Bias may be absent. The means are over the same last axes (constant ones,
 * an attribute or an input) and keep them; epsilon is a constant; Scale and Bias have only known
 * dims of those axes, each x's or 1. What comes after s is read once; d, m and v may be read
 * elsewhere and stay then. p and q have the same shape; where others read their sum it is the
 * second output, and they come later. An ONNX LayerNormalization has no other outputs. Not in
 * faithful plans.
 */
#include "constants.h"
#include "fuse_graph.h"

typedef struct Norm {
    Value *x, *scale, *bias;
    Value *difference; /* the one that is divided */
    Node *root;
    int64_t axes; /* how many last ones */
    float epsilon;
    bool rms; /* nothing is subtracted: the difference is x */
} Norm;

/* ---- the parts ------------------------------------------------------------------------------- */

/* How many axes a mean is over that keeps them, if they are the last ones; else 0. */
static int64_t axes_of(const Fuse *fuse, const Node *mean) {
    const Attr *attr = node_attr(mean, "axes");
    const Value *given = fuse_input(mean, 1);
    const Tensor *tensor = given ? constant_tensor(given, fuse->ctx->scratch) : NULL;
    int64_t rank = fuse_rank(mean->inputs[0].value), *read = NULL, found = 0;
    const int64_t *axes = NULL;
    uint64_t count = 0;
    if (node_attr_int(mean, "keepdims", 1) != 1) return 0;
    uint32_t listed;
    if (!given) axes = attr_ints(attr, &listed), count = axes ? listed : 0;
    if (tensor && tensor_check(tensor, NULL) &&
        tensor_read_ints(tensor, fuse->ctx->scratch, 64, &read, &count))
        axes = read;
    for (uint64_t i = 0; axes && i < count; i++) {
        int64_t from_end = axes[i] < 0 ? -axes[i] : rank - axes[i]; /* 1: the last */
        if (from_end < 1 || from_end > 62 || (axes[i] >= 0 && rank < 0)) return 0;
        if (found >> from_end & 1) return 0;
        found |= INT64_C(1) << from_end;
    }
    int64_t last = (INT64_C(1) << (count + 1)) - 2; /* bits 1 to count */
    return axes && count && count < 62 && found == last ? (int64_t)count : 0;
}

/* x of x - mean(x) over that many last axes. */
static Value *centered(const Fuse *fuse, const Value *difference, int64_t *axes) {
    const Node *sub = difference ? difference->producer : NULL;
    if (!fuse_is(sub, "Sub") || sub->input_count != 2 || !sub->inputs[1].value) return NULL;
    const Node *mean = sub->inputs[1].value->producer;
    Value *x = sub->inputs[0].value;
    *axes = 0;
    if (!x || !fuse_is(mean, "ReduceMean") || fuse_input(mean, 0) != x) return NULL;
    *axes = axes_of(fuse, mean);
    return *axes ? x : NULL;
}

/* What is squared. */
static Value *square_root_of(const Value *square) {
    const Node *node = square ? square->producer : NULL;
    if (fuse_is(node, "Mul") && node->input_count == 2 &&
        node->inputs[0].value == node->inputs[1].value)
        return node->inputs[0].value;
    bool pow = fuse_is(node, "Pow") && node->input_count == 2 && node->inputs[0].value &&
               fuse_is_number(node->inputs[1].value, node->inputs[0].value, 2);
    return pow ? node->inputs[0].value : NULL;
}

/* From Sqrt up: fills all but scale and bias. */
static bool find_deviation(const Fuse *fuse, const Node *root, Norm *norm) {
    const Value *under = fuse_input(root, 0);
    const Node *sum = under ? under->producer : NULL;
    const Value *variance = NULL;
    if (!fuse_is(sum, "Add") || sum->input_count != 2) return false;
    for (uint32_t i = 0; i < 2 && !variance; i++) {
        const Value *term = sum->inputs[i].value, *other = sum->inputs[1 - i].value;
        if (term && other && fuse_scalar(term, &norm->epsilon) &&
            (fuse_rank(term) == 0 || (fuse_rank(term) > 0 && fuse_rank(term) <= fuse_rank(other))))
            variance = other;
    }
    const Node *mean = variance ? variance->producer : NULL;
    if (!fuse_is(mean, "ReduceMean") || !fuse_input(mean, 0)) return false;
    norm->difference = square_root_of(mean->inputs[0].value);
    norm->x = centered(fuse, norm->difference, &norm->axes);
    norm->rms = !norm->x;
    if (norm->rms) {
        norm->x = norm->difference;
        norm->axes = axes_of(fuse, mean);
    }
    return norm->x && norm->axes && axes_of(fuse, mean) == norm->axes && norm->epsilon >= 0;
}

/* True where value is the same difference, perhaps computed a second time. */
static bool is_difference(const Fuse *fuse, const Value *value, const Norm *norm) {
    int64_t axes = 0;
    if (value == norm->difference) return true;
    return value && !norm->rms && centered(fuse, value, &axes) == norm->x && axes == norm->axes;
}

/* The quotient of the difference and `deviation`; NULL where there is none. */
static Node *find_quotient(const Fuse *fuse, const Value *deviation, const Norm *norm) {
    Node *node = fuse_reader(deviation);
    if (!node || !node->output_count || !node->outputs[0]) return NULL;
    const Value *dividend = fuse_is(node, "Div") ? fuse_input(node, 0) : NULL;
    if (dividend && fuse_input(node, 1) == deviation && is_difference(fuse, dividend, norm))
        return node;
    bool inverse = fuse_is(node, "Reciprocal") || (dividend && fuse_input(node, 1) == deviation &&
                                                   fuse_is_number(dividend, deviation, 1));
    Node *product = inverse ? fuse_reader(node->outputs[0]) : NULL;
    if (!fuse_is(product, "Mul")) return NULL;
    return is_difference(fuse, fuse_other(product, node->outputs[0]), norm) ? product : NULL;
}

/* True where `value` broadcasts to the last axes of x, which are known. */
static bool is_factor(const Value *value, const Norm *norm) {
    int64_t rank = value ? fuse_rank(value) : -1;
    if (rank < 0 || rank > norm->axes || !fuse_takes(value)) return false;
    for (int64_t i = 1; i <= rank; i++) {
        int64_t dim = fuse_dim(value, -i);
        if (dim < 1 || (dim != 1 && dim != fuse_dim(norm->x, -i))) return false;
    }
    return true;
}

/* The next node, of that operator, that has `value` and a factor. */
static Node *find_affine(const Value *value, const char *op, const Norm *norm, Value **factor) {
    Node *node = fuse_reader(value);
    if (!fuse_is(node, op) || fuse_opset(node) < 7) return NULL;
    *factor = fuse_other(node, value);
    return is_factor(*factor, norm) ? node : NULL;
}

/* `value`, or what a cast makes of it that alone reads it: the factors may be in 16 bit. */
static const Value *narrowed(const Value *value) {
    const Node *cast = fuse_reader(value);
    const bool narrows = cast && node_is_cast(cast) && fuse_is(cast, "Cast") &&
                         dtype_is_reduced(type_dtype(cast->outputs[0]->type));
    return narrows ? cast->outputs[0] : value;
}

static void fuse_parts(Fuse *fuse, Node *sqrt) {
    Norm norm = {0};
    Value *bias = NULL;
    if (!find_deviation(fuse, sqrt, &norm) || !fuse_takes(norm.x)) return;
    Node *quotient = find_quotient(fuse, sqrt->outputs[0], &norm);
    const Value *normal = quotient ? narrowed(quotient->outputs[0]) : NULL;
    Node *scaled = normal ? find_affine(normal, "Mul", &norm, &norm.scale) : NULL;
    if (!scaled) return;
    Node *shifted = find_affine(scaled->outputs[0], "Add", &norm, &bias);
    norm.root = shifted ? shifted : scaled;
    Node *made = fuse_new(fuse, norm.root, "LayerNormalization", norm.root, 4);
    node_set_input(made, 0, norm.x);
    node_set_input(made, 2, norm.scale);
    node_set_input(made, 3, shifted ? bias : NULL);
    node_set_attr_int(made, "axis", -norm.axes);
    node_set_attr_float(made, "epsilon", norm.epsilon);
    if (norm.rms) node_set_attr_int(made, "rms", 1);
    const Dtype to = type_dtype(norm.root->outputs[0]->type);
    if (to != type_dtype(norm.x->type)) node_set_attr_int(made, "to", to);
    fuse_replace_root(fuse, made, norm.root);
}

/* ---- the sum before -------------------------------------------------------------------------- */

/* True where all that reads `sum` but `norm`, or the cast that widens it for that, comes after norm. */
static bool is_read_later(const Value *sum, const Node *norm) {
    if (sum->referenced) return false;
    for (const Use *use = sum->uses; use; use = use->next)
        if (use->node && use->node->graph != norm->graph) return false;
    const Node *wide = fuse_input(norm, 0)->producer;
    for (const Node *node = sum->producer->next; node != norm; node = node->next)
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node != wide && node->inputs[i].value == sum) return false;
    return true;
}

/* What the node normalizes, before a cast that widens it for the node alone. */
static const Value *normalized(const Node *norm) {
    const Value *x = fuse_input(norm, 0);
    const Node *cast = x ? x->producer : NULL;
    return fuse_is_widening(cast) && fuse_reader(x) ? cast->inputs[0].value : x;
}

/* The sum of two values of one shape that the node normalizes; NULL where it does not. */
static Node *find_sum(const Node *norm) {
    const Value *x = normalized(norm);
    Node *add = x ? x->producer : NULL;
    if (!fuse_is(add, "Add") || add->graph != norm->graph || add->input_count != 2) return NULL;
    const Value *p = add->inputs[0].value, *q = add->inputs[1].value;
    bool sum = p && q && fuse_takes(p) && fuse_takes(x) && fuse_same_shape(p, q) &&
               (fuse_opset(add) >= 7 || !node_attr_int(add, "broadcast", 0));
    return sum && is_read_later(x, norm) ? add : NULL;
}

static bool is_plain(const Node *norm) {
    for (uint32_t i = 1; i < norm->output_count; i++)
        if (norm->outputs[i]) return false;
    const Value *scale = fuse_input(norm, 1), *bias = fuse_input(norm, 2);
    return scale && fuse_takes(scale) && (!bias || fuse_takes(bias));
}

static void fuse_sum(Fuse *fuse, Node *norm) {
    bool fused = sym_equals(norm->domain, FUSED_DOMAIN);
    Node *add = (fused ? !fuse_input(norm, 1) : is_plain(norm)) ? find_sum(norm) : NULL;
    float epsilon;
    if (!add || !fuse_attr_float(norm, "epsilon", 1e-5f, &epsilon)) return;
    const bool rms = fused ? node_attr_int(norm, "rms", 0) : fuse_is(norm, "RMSNormalization");
    Value *sum = add->outputs[0];
    Node *made = fuse_new(fuse, norm, "LayerNormalization", norm, 4);
    node_set_input(made, 0, add->inputs[0].value);
    node_set_input(made, 1, add->inputs[1].value);
    node_set_input(made, 2, fuse_input(norm, fused ? 2 : 1));
    node_set_input(made, 3, fuse_input(norm, fused ? 3 : 2));
    node_set_attr_int(made, "axis", node_attr_int(norm, "axis", -1));
    node_set_attr_float(made, "epsilon", epsilon);
    if (rms) node_set_attr_int(made, "rms", 1);
    const Dtype to = type_dtype(norm->outputs[0]->type);
    if (to != type_dtype(sum->type)) node_set_attr_int(made, "to", to);
    if (sum->use_count > 1) { /* by others too */
        node_set_output(add, 0, NULL);
        node_resize_outputs(made, 2);
        node_set_output(made, 1, sum);
    }
    bool kept = made->output_count > 1;
    fuse_replace_root(fuse, made, norm);
    if (kept) node_remove_unswept(add);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void visit_parts(Fuse *fuse, Node *node) {
    if (!fuse->faithful && fuse_is(node, "Sqrt")) fuse_parts(fuse, node);
}

static void visit_sum(Fuse *fuse, Node *node) {
    bool norm =
        fuse_is(node, "LayerNormalization") || fuse_is(node, "RMSNormalization") ||
        (sym_equals(node->domain, FUSED_DOMAIN) && sym_equals(node->op_type, "LayerNormalization"));
    if (!fuse->faithful && norm) fuse_sum(fuse, node);
}

FUSE_PASS(fuse_layer_norm, "fuse-layer-norm",
          "fuse the parts of LayerNormalization and RMSNormalization, with the sum before them, "
          "for plans",
          visit_parts, visit_sum);
