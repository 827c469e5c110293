// SPDX-License-Identifier: Apache-2.0
/* fuse-attention: attention in its parts becomes one node, which makes no matrix of scores.
 *
 *   S = MatMul(Q, K^T) [* scale] [Where(keep, S, low)] [+ bias]
 *   P = Softmax(S)                          or Where(IsNaN(P), 0, P) of that
 *   Transpose(MatMul(P, V))                 ->  demi.fused.Attention(Q, K, V, keep, bias)
 *
 * The scale is products with and quotients by one number, of S, Q or K; the product may be
 * demi.fused's, with a scale of its own and K as it is. Q, K and V are read before
 * the Transposes that split them into heads, and before one part is taken of a tensor that holds
 * all three (Gather, or Slice and Squeeze); heads of K and V that are repeated (Unsqueeze, Expand,
 * Reshape) are read once, and a Transpose may lie between Reshapes that join batches and heads. Y is written as the Transpose behind it has it. What is between is read
 * once; casts between float types are left out there. Heads of Q and K have to be known to fit;
 * all else that broadcasts may. Not in faithful plans.
 */
#include "constants.h"
#include "fuse_graph.h"

/* What the axes of Q, K, V and Y are, in the order of the attributes. */
enum { HEAD_BATCH, HEAD_HEADS, HEAD_ROWS, HEAD_SIZE, HEAD_AXES };

enum { MOST_PARTS = 16 };

/* Q, K or V: a value, and which of its axes is what. */
typedef struct Operand {
    Value *value;
    int64_t axes[HEAD_AXES];
    int64_t part; /* -1: there is no axis more */
} Operand;

/* How far the scores' chain has been read, from its end. */
typedef enum Stage { STAGE_BIAS, STAGE_KEEP, STAGE_SCALE } Stage;

typedef struct Chain {
    Node *product; /* of Q and K */
    bool rows;     /* which lie as keys do, not turned */
    Value *keep, *bias;
    bool inverted; /* keep says what is masked */
    bool blank;    /* shares that are NaN become 0 */
    float fill;
    double scale;
    Stage stage;
} Chain;

static bool is_float_cast(const Node *node) {
    return fuse_is(node, "Cast") && fuse_takes(node->inputs[0].value) &&
           fuse_takes(node->outputs[0]);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* The factor that the node's operand `x` is scaled by, by a product or quotient; 0: it is not. */
static double factor_of(const Node *node, const Value **x) {
    bool product = fuse_is(node, "Mul"), quotient = fuse_is(node, "Div");
    float number;
    if ((!product && !quotient) || node->input_count != 2 || fuse_opset(node) < 7) return 0;
    for (uint32_t i = product ? 0 : 1; i < 2; i++) {
        const Value *scalar = node->inputs[i].value, *other = node->inputs[1 - i].value;
        if (!scalar || !other || !fuse_scalar(scalar, &number) || number == 0) continue;
        if (fuse_rank(scalar) < 0 || fuse_rank(scalar) > fuse_rank(other)) continue;
        *x = other;
        return product ? (double)number : 1 / (double)number;
    }
    return 0;
}

static bool read_scores(Chain *chain, const Value *value, const Node *reader, int depth);

/* True where the mask broadcasts to scores without giving them an axis more. */
static bool is_mask(const Value *mask, const Value *scores) {
    int64_t rank = mask ? fuse_rank(mask) : -1;
    return rank >= 0 && rank <= fuse_rank(scores);
}

static bool read_add(Chain *chain, const Node *add, int depth) {
    if (chain->stage > STAGE_BIAS || add->input_count != 2 || fuse_opset(add) < 7) return false;
    for (uint32_t i = 0; i < 2; i++) {
        Value *bias = add->inputs[1 - i].value;
        const Value *scores = add->inputs[i].value;
        if (!bias || !scores || !is_mask(bias, scores) || !fuse_takes(bias)) continue;
        Chain before = *chain;
        chain->bias = bias;
        chain->stage = STAGE_KEEP;
        if (read_scores(chain, scores, add, depth)) return true;
        *chain = before;
    }
    return false;
}

static bool read_where(Chain *chain, const Node *where, int depth) {
    if (chain->stage > STAGE_KEEP || where->input_count != 3 || !where->inputs[0].value)
        return false;
    for (uint32_t i = 1; i < 3; i++) {
        const Value *scores = where->inputs[i].value, *low = where->inputs[3 - i].value;
        if (!scores || !low || !fuse_scalar(low, &chain->fill)) continue;
        if (fuse_rank(low) < 0 || fuse_rank(low) > fuse_rank(scores)) continue;
        if (!is_mask(where->inputs[0].value, scores)) return false;
        chain->keep = where->inputs[0].value;
        chain->inverted = i == 2;
        chain->stage = STAGE_SCALE;
        return read_scores(chain, scores, where, depth);
    }
    return false;
}

/* A product that was fused before (decompose): of two matrices alone, the first as it is. */
static bool read_fused(Chain *chain, Node *node) {
    float alpha;
    if (!sym_equals(node->domain, FUSED_DOMAIN) || !sym_equals(node->op_type, "MatMul") ||
        node->input_count != 2 || node_attr(node, "activation") || node_attr(node, "to") ||
        node_attr_int(node, "transA", 0) || !fuse_attr_float(node, "alpha", 1, &alpha))
        return false;
    chain->product = node;
    chain->rows = node_attr_int(node, "transB", 0) != 0;
    chain->scale *= (double)alpha;
    return true;
}

/* What makes `value`, which `reader` alone reads, back to the product of Q and K. */
static bool read_scores(Chain *chain, const Value *value, const Node *reader, int depth) {
    Node *node = value->producer;
    if (!node || depth == 0 || value->output_index != 0 || fuse_reader(value) != reader ||
        node->graph != reader->graph || !fuse_takes(value))
        return false;
    depth--;
    if (fuse_is(node, "MatMul")) {
        chain->product = node;
        return true;
    }
    if (read_fused(chain, node)) return true;
    if (is_float_cast(node)) return read_scores(chain, node->inputs[0].value, node, depth);
    if (fuse_is(node, "Add")) return read_add(chain, node, depth);
    if (fuse_is(node, "Where")) return read_where(chain, node, depth);
    const Value *scaled = NULL;
    double factor = factor_of(node, &scaled);
    if (factor == 0) return false;
    chain->scale *= factor;
    chain->stage = STAGE_SCALE;
    return read_scores(chain, scaled, node, depth);
}

/* ---- operands -------------------------------------------------------------------------------- */

static Operand operand_begin(Value *value, bool turned) {
    int64_t rank = fuse_rank(value);
    Operand made = {.value = value, .part = -1};
    for (int64_t i = 0; i < HEAD_AXES; i++) {
        int64_t axis = rank - HEAD_AXES + i;
        made.axes[i] = axis < 0 ? -1 : axis;
    }
    if (turned) {
        made.axes[HEAD_ROWS] = rank - 1;
        made.axes[HEAD_SIZE] = rank - 2;
    }
    return made;
}

/* Reads through a Transpose. */
static bool skip_transpose(Operand *operand, const Node *node) {
    uint32_t count;
    const int64_t *perm = attr_ints(node_attr(node, "perm"), &count);
    Value *x = fuse_input(node, 0);
    if (!x || !fuse_is(node, "Transpose") || !perm || (int64_t)count != fuse_rank(x)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (perm[i] < 0 || perm[i] >= (int64_t)count) return false;
    for (uint32_t i = 0; i < HEAD_AXES; i++)
        if (operand->axes[i] >= 0) operand->axes[i] = perm[operand->axes[i]];
    operand->value = x;
    return true;
}

/* The only number of a constant of integers. */
static bool read_int(const Fuse *fuse, const Value *value, int64_t *number) {
    const Tensor *tensor = value ? constant_tensor(value, fuse->ctx->scratch) : NULL;
    int64_t *items;
    uint64_t count;
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, fuse->ctx->scratch, 1, &items, &count) || count != 1)
        return false;
    *number = items[0];
    return true;
}

/* Axes that are an attribute or an input: one, counted from the front. */
static bool read_axis(const Fuse *fuse, const Node *node, uint32_t input, int64_t *axis) {
    uint32_t count;
    const int64_t *listed = attr_ints(node_attr(node, "axes"), &count);
    bool one = listed ? count == 1 : read_int(fuse, fuse_input(node, input), axis);
    if (listed && one) *axis = listed[0];
    int64_t rank = fuse_rank(node->inputs[0].value);
    if (one && *axis < 0) *axis += rank;
    return one && *axis >= 0 && *axis < rank;
}

/* The slice [i, i + 1) along one axis: sets both. */
static bool read_slice(const Fuse *fuse, const Node *slice, int64_t *axis, int64_t *part) {
    int64_t end = 0, step = 1;
    if (!fuse_is(slice, "Slice") || slice->input_count < 4 || !slice->inputs[0].value ||
        (fuse_input(slice, 4) && !read_int(fuse, slice->inputs[4].value, &step)) ||
        !read_int(fuse, fuse_input(slice, 1), part) || !read_int(fuse, fuse_input(slice, 2), &end))
        return false;
    return read_axis(fuse, slice, 3, axis) && step == 1 && *part >= 0 && end - 1 == *part;
}

/* Reads through what takes one part of an axis more. */
static bool skip_part(const Fuse *fuse, Operand *operand, const Node *node) {
    int64_t axis = 0, part = 0, squeezed = 0;
    Value *x = fuse_input(node, 0);
    if (operand->part >= 0 || !x || operand->axes[HEAD_BATCH] < 0) return false;
    if (fuse_is(node, "Gather")) {
        const Value *index = fuse_input(node, 1);
        axis = node_attr_int(node, "axis", 0);
        if (axis < 0) axis += fuse_rank(x);
        if (!index || fuse_rank(index) != 0 || !read_int(fuse, index, &part)) return false;
    } else if (fuse_is(node, "Squeeze") && x->producer && x->producer->graph == node->graph) {
        if (!read_slice(fuse, x->producer, &axis, &part)) return false;
        if (!read_axis(fuse, node, 1, &squeezed) || squeezed != axis) return false;
        x = x->producer->inputs[0].value;
    } else {
        return false;
    }
    int64_t dim = fuse_dim(x, axis);
    if (fuse_rank(x) != HEAD_AXES + 1 || axis < 0 || dim < 0 || part >= dim || part < -dim)
        return false;
    for (uint32_t i = 0; i < HEAD_AXES; i++) operand->axes[i] += operand->axes[i] >= axis;
    operand->part = part < 0 ? part + dim : part;
    operand->value = x;
    return true;
}

static bool same_dim(const Value *a, int64_t i, const Value *b, int64_t k) {
    if (fuse_rank(a) <= i || fuse_rank(b) <= k) return false;
    return dim_same(&value_type(a)->dims[i], &value_type(b)->dims[k]);
}

/* Reads through the repetition of heads:
 *   (B, K, T, D) -> Unsqueeze(2) -> Expand (B, K, G, T, D) -> Reshape (B, K G, T, D) */
static bool skip_repeat(const Fuse *fuse, Operand *operand, const Node *reshape) {
    const Value *y = operand->value, *wide = fuse_input(reshape, 0);
    const Node *expand = wide ? wide->producer : NULL;
    const Value *thin = fuse_is(expand, "Expand") ? fuse_input(expand, 0) : NULL;
    const Node *unsqueeze = thin ? thin->producer : NULL;
    Value *x = fuse_is(unsqueeze, "Unsqueeze") ? fuse_input(unsqueeze, 0) : NULL;
    if (!x || !fuse_is(reshape, "Reshape") || operand->part >= 0 || fuse_rank(x) != 4 ||
        fuse_rank(wide) != 5 || fuse_rank(y) != 4 || fuse_rank(thin) != 5 ||
        unsqueeze->graph != reshape->graph)
        return false;
    (void)fuse;
    int64_t heads = fuse_dim(x, 1), group = fuse_dim(wide, 2), size = fuse_dim(x, 3);
    return operand->axes[HEAD_BATCH] == 0 && operand->axes[HEAD_HEADS] == 1 &&
           fuse_dim(thin, 2) == 1 && fuse_dim(thin, 1) == heads && heads > 0 && group > 0 &&
           group < INT32_MAX && heads < INT32_MAX && size > 0 && fuse_dim(wide, 1) == heads &&
           fuse_dim(y, 1) == heads * group && fuse_dim(wide, 4) == size && fuse_dim(y, 3) == size &&
           same_dim(wide, 0, x, 0) && same_dim(wide, 3, x, 2) && same_dim(y, 0, x, 0) &&
           same_dim(y, 2, x, 2) && (operand->value = x);
}

/* What is cast between float types; the value itself where it is not. */
static Value *before_casts(Value *value) {
    while (value && is_float_cast(value->producer)) value = value->producer->inputs[0].value;
    return value;
}

static Node *turn_before(const Value *value) {
    return value && fuse_is(value->producer, "Transpose") ? value->producer : NULL;
}

/* Reads through the turning of rows and elements as of matrices without heads:
 *   (B, H, T, D) -> Reshape (B H, T, D) -> Transpose (B H, D, T) -> Reshape (B, H, D, T) */
static bool skip_joined_turn(Operand *operand, const Node *split, bool casts) {
    Value *y = operand->value, *turned = fuse_input(split, 0);
    const Node *turn = turn_before(casts ? before_casts(turned) : turned);
    Value *joined = turn ? fuse_input(turn, 0) : NULL;
    if (casts) joined = before_casts(joined);
    const Node *join = joined ? joined->producer : NULL;
    Value *x = fuse_is(join, "Reshape") ? fuse_input(join, 0) : NULL;
    uint32_t count = 0;
    const int64_t *perm = turn ? attr_ints(node_attr(turn, "perm"), &count) : NULL;
    if (!x || !fuse_is(split, "Reshape") || operand->part >= 0 || fuse_rank(x) != HEAD_AXES ||
        fuse_rank(y) != HEAD_AXES || fuse_rank(joined) != 3 || turn->graph != split->graph ||
        join->graph != split->graph || count != 3 || perm[0] != 0 || perm[1] != 2)
        return false;
    if (!same_dim(x, 2, joined, 1) || !same_dim(x, 3, joined, 2) || !same_dim(y, 0, x, 0) ||
        !same_dim(y, 1, x, 1) || !same_dim(y, 2, x, 3) || !same_dim(y, 3, x, 2))
        return false;
    for (uint32_t i = 0; i < HEAD_AXES; i++)
        if (operand->axes[i] >= 2) operand->axes[i] = 5 - operand->axes[i];
    operand->value = x;
    return true;
}

/* Goes back to where the operand's elements lie; `casts`: through casts between float types, too. */
static void resolve(const Fuse *fuse, Operand *operand, const Graph *graph, double *scale,
                    bool casts) {
    for (int i = 0; i < MOST_PARTS; i++) {
        const Node *node = operand->value->producer;
        if (!node || node->graph != graph || operand->value->output_index != 0) return;
        const Value *scaled = NULL;
        double factor = scale ? factor_of(node, &scaled) : 0;
        if (factor != 0 && fuse_takes(scaled)) {
            *scale *= factor;
            operand->value = node->inputs[node->inputs[0].value == scaled ? 0 : 1].value;
        } else if (casts && is_float_cast(node)) {
            operand->value = node->inputs[0].value;
        } else if (!skip_transpose(operand, node) && !skip_part(fuse, operand, node) &&
                   !skip_repeat(fuse, operand, node) && !skip_joined_turn(operand, node, casts)) {
            return;
        }
    }
}

static Dtype type_of(const Operand *operand) {
    return type_dtype(operand->value->type);
}

/* All three, with what Q and K are scaled by. Keys and values of one type stay of one, which devices want. */
static void resolve_all(const Fuse *fuse, Operand operands[3], const Graph *graph, double *scale) {
    const bool alike = type_of(&operands[1]) == type_of(&operands[2]);
    for (int casts = 1; casts >= 0; casts--) {
        Operand made[3] = {operands[0], operands[1], operands[2]};
        double factor = *scale;
        for (int i = 0; i < 3; i++)
            resolve(fuse, &made[i], graph, i < 2 ? &factor : NULL, casts && i > 0);
        if (casts && alike && type_of(&made[1]) != type_of(&made[2])) continue;
        for (int i = 0; i < 3; i++) operands[i] = made[i];
        *scale = factor;
        return;
    }
}

/* True where keys or values have the queries' heads, as many groups of them, or one. */
static bool heads_fit(const Operand *q, const Operand *k) {
    int64_t a = q->axes[HEAD_HEADS], b = k->axes[HEAD_HEADS];
    int64_t heads = fuse_dim(q->value, a), groups = fuse_dim(k->value, b);
    if (a < 0 || b < 0) return false;
    if (groups == 1 || same_dim(q->value, a, k->value, b)) return true;
    return heads > 0 && groups > 0 && heads % groups == 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The only reader of what the node gives, behind casts between floats; *value is what it reads. */
static Node *reader_behind(const Node *node, const Value **value) {
    *value = node->outputs[0];
    Node *reader = fuse_reader(*value);
    while (is_float_cast(reader)) {
        *value = reader->outputs[0];
        reader = fuse_reader(*value);
    }
    return reader;
}

/* The Where that makes 0 of shares that are NaN, which it and an IsNaN read; NULL where there is none. */
static Node *find_blank(const Value *shares) {
    Node *where = NULL, *test = NULL;
    if (shares->use_count != 2 || shares->referenced) return NULL;
    for (const Use *use = shares->uses; use; use = use->next) {
        if (fuse_is(use->node, "Where")) where = use->node;
        if (fuse_is(use->node, "IsNaN")) test = use->node;
    }
    const Value *zero = where ? fuse_input(where, 1) : NULL;
    float number;
    if (!zero || !test || where->graph != test->graph || fuse_input(where, 2) != shares ||
        fuse_reader(test->outputs[0]) != where || fuse_input(where, 0) != test->outputs[0] ||
        !fuse_scalar(zero, &number) || number != 0 || fuse_rank(zero) < 0 ||
        fuse_rank(zero) > fuse_rank(shares))
        return NULL;
    return where;
}

/* The product of the shares and V; NULL where there is none. */
static Node *find_mixture(Chain *chain, const Node *softmax) {
    const Value *shares;
    Node *reader = reader_behind(softmax, &shares), *blank = reader ? NULL : find_blank(shares);
    if (blank && blank->graph == softmax->graph) {
        chain->blank = true;
        reader = reader_behind(blank, &shares);
    }
    bool mixes = fuse_is(reader, "MatMul") && fuse_input(reader, 0) == shares &&
                 fuse_input(reader, 1) && fuse_input(reader, 1) != shares;
    return mixes ? reader : NULL;
}

/* True where Softmax is along the last axis alone. */
static bool is_along_last(const Node *softmax) {
    int64_t rank = fuse_rank(softmax->inputs[0].value);
    int64_t axis = node_attr_int(softmax, "axis", fuse_opset(softmax) < 13 ? 1 : -1);
    return (rank == 3 || rank == 4) && (axis == -1 || axis == rank - 1);
}

static void set_axes(Node *made, const char *name, const int64_t axes[HEAD_AXES]) {
    bool plain = true;
    for (int64_t i = 0; i < HEAD_AXES; i++) plain = plain && axes[i] == i;
    if (!plain) node_set_attr_ints(made, name, axes, HEAD_AXES);
}

/* The Transpose that is all that becomes of the result, and where its axes are then. */
static Node *find_merge(Node *mixture, int64_t axes[HEAD_AXES]) {
    const Value *y = mixture->outputs[0];
    Node *merge = fuse_reader(y);
    Operand turned = operand_begin(mixture->outputs[0], false), plain = turned;
    for (uint32_t i = 0; i < HEAD_AXES; i++) axes[i] = plain.axes[i];
    if (!merge || !merge->output_count || !merge->outputs[0] || !skip_transpose(&turned, merge))
        return mixture;
    for (int64_t i = 0; i < HEAD_AXES; i++) /* result's axis plain[i] is y's turned[i] */
        for (int64_t k = 0; k < HEAD_AXES; k++)
            if (plain.axes[i] >= 0 && turned.axes[i] == plain.axes[k]) axes[k] = plain.axes[i];
    return merge;
}

static Value *keep_of(Fuse *fuse, const Chain *chain, Node *root) {
    if (!chain->keep || !chain->inverted) return chain->keep;
    Value *const operands[2] = {chain->keep, NULL};
    return fuse_make(fuse, root, "Not", operands, value_type(chain->keep));
}

static void make(Fuse *fuse, const Chain *chain, const Operand operands[3], Node *mixture) {
    int64_t axes[HEAD_AXES], parts[3];
    Node *root = find_merge(mixture, axes);
    Value *keep = keep_of(fuse, chain, root);
    Node *made = fuse_new(fuse, root, "Attention", mixture, 5);
    static const char *const names[] = {"q_axes", "k_axes", "v_axes"};
    bool any = false;
    for (uint32_t i = 0; i < 3; i++) {
        node_set_input(made, i, operands[i].value);
        set_axes(made, names[i], operands[i].axes);
        parts[i] = operands[i].part < 0 ? 0 : operands[i].part;
        any = any || operands[i].part >= 0;
    }
    node_set_input(made, 3, keep);
    node_set_input(made, 4, chain->bias);
    set_axes(made, "y_axes", axes);
    if (any) node_set_attr_ints(made, "parts", parts, 3);
    if (keep) node_set_attr_float(made, "fill", chain->fill);
    if (chain->scale != 1) node_set_attr_float(made, "scale", (float)chain->scale);
    if (chain->blank) node_set_attr_int(made, "blank", 1);
    Dtype dtype = type_dtype(root->outputs[0]->type);
    if (type_dtype(operands[0].value->type) != dtype) node_set_attr_int(made, "to", dtype);
    fuse_replace_root(fuse, made, root);
}

static void visit(Fuse *fuse, Node *softmax) {
    Chain chain = {.scale = 1};
    if (fuse->faithful || !fuse_is(softmax, "Softmax") || !fuse_input(softmax, 0) ||
        !is_along_last(softmax) || !fuse_takes(softmax->outputs[0]))
        return;
    Node *mixture = find_mixture(&chain, softmax);
    if (!mixture || !read_scores(&chain, softmax->inputs[0].value, softmax, MOST_PARTS)) return;
    Value *q = fuse_input(chain.product, 0), *k = fuse_input(chain.product, 1);
    Value *v = fuse_input(mixture, 1);
    int64_t rank = fuse_rank(softmax->inputs[0].value);
    if (!q || !k || fuse_rank(q) != rank || fuse_rank(k) != rank || fuse_rank(v) != rank ||
        !fuse_takes(q) || !fuse_takes(k) || !fuse_takes(v))
        return;
    Operand operands[] = {operand_begin(q, false), operand_begin(k, !chain.rows),
                          operand_begin(v, false)};
    if (!heads_fit(&operands[0], &operands[1]) || !heads_fit(&operands[0], &operands[2])) return;
    resolve_all(fuse, operands, softmax->graph, &chain.scale);
    if (chain.scale != 0) make(fuse, &chain, operands, mixture);
}

FUSE_PASS(
    fuse_attention, "fuse-attention",
    "fuse the parts of attention into one operator, which does not store all scores, for plans",
    visit);
