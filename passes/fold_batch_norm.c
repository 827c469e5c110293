// SPDX-License-Identifier: Apache-2.0
/* fold-batch-norm: what scales and shifts a convolution's channels goes into its weights.
 *
 *   BatchNormalization(Conv(X, W, B), S, bias, mean, var)
 *       ->  Conv(X, W * k, (B - mean) * k + bias),  k = S / sqrt(var + epsilon)
 *   Mul(Conv(X, W, B), k)    ->  Conv(X, W * k, B * k)
 *   Add(Conv(X, W, B), s)    ->  Conv(X, W, B + s)
 *
 * and chains of these. The new weights are nodes, computed in float32 from constants and rounded
 * once; they become constants when the plan is folded. With store=true they are constants at once,
 * where the old ones are float32: for models that are quantized. All operands but X are constant and hold one
 * number a channel or (of Mul and Add) one for all; what lies between is read by nothing else; a
 * normalization is inference by channel with one output; the new weights are finite in the type of
 * the old ones. Those that were widened (widen_values.c) stay float: rounding them to 16 bit once
 * more would make the error of conversion half as large again. Opset 7 and up. Not in faithful
 * plans, as the weights are rounded anew.
 */
#include <math.h>

#include "constants.h"
#include "float_size.h"
#include "fuse_graph.h"
#include "row_clones.h"

enum { SCALE = 1, BIAS, MEAN, VAR, OPERANDS, MOST_STEPS = 16 };

typedef struct FoldAffineOptions {
    FuseOptions fuse;
    bool store;
} FoldAffineOptions;

typedef struct Affine {
    Fuse *fuse;
    bool store; /* constants are made instead of nodes */
    Node *conv;
    Node *at; /* the step in progress: nodes are made before it */
    uint64_t channels;
    const float *peak, *b; /* [channels]: the largest weight's size, and B or NULL */
    float *k, *shift;      /* [channels]: what the chain so far comes to */
    Value *weights, *bias; /* the nodes for that, in float32; NULL where there are none yet */
} Affine;

/* ---- constants ------------------------------------------------------------------------------- */

/* One number a channel from a constant that broadcasts to [N, channels, …] without changing that
 * shape. */
static const float *read_broadcast(const Affine *a, const Value *value) {
    uint64_t count;
    int64_t rank = value ? fuse_rank(value) : -1, of = fuse_rank(a->conv->inputs[1].value);
    const float *items = fuse_floats(a->fuse, value, &count);
    if (!items || rank < 0 || rank > of) return NULL;
    if (count == 1) {
        float *each = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
        for (uint64_t c = 0; c < a->channels; c++) each[c] = items[0];
        return each;
    }
    bool fits = count == a->channels && rank >= of - 1 &&
                fuse_dim(value, rank - (of - 1)) == (int64_t)count;
    return fits ? items : NULL;
}

/* Follows the chain by one more step, y = k x + shift; false where the result would not be finite.
 */
static bool compose(Affine *a, const float *k, const float *shift) {
    const Dtype dtype = type_dtype(a->conv->inputs[1].value->type);
    const float most = (float)dtype_largest(dtype == DTYPE_FLOAT ? DTYPE_BFLOAT16 : dtype);
    float *new_k = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
    float *new_shift = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
    for (uint64_t c = 0; c < a->channels; c++) {
        new_k[c] = k ? a->k[c] * k[c] : a->k[c];
        new_shift[c] = (k ? a->shift[c] * k[c] : a->shift[c]) + (shift ? shift[c] : 0);
        if (!(fabsf((a->b ? a->b[c] : 0) * new_k[c] + new_shift[c]) <= most)) return false;
        if (!(a->peak[c] * fabsf(new_k[c]) <= most)) return false; /* nor is it NaN */
    }
    a->k = new_k;
    a->shift = new_shift;
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static Value *cast(Affine *a, Value *value, Dtype to) {
    if (type_dtype(value->type) == to) return value;
    const Type *type = type_with_dtype(&a->fuse->ctx->model->arena, value->type, to);
    Value *result = fuse_make(a->fuse, a->at, "Cast", (Value *const[2]){value, NULL}, type);
    node_set_attr_int(result->producer, "to", to);
    return result;
}

/* x op y, of x's shape */
static Value *compute(Affine *a, const char *op, Value *x, Value *y) {
    return fuse_make(a->fuse, a->at, op, (Value *const[2]){x, y}, x->type);
}

/* The value as [-1, 1, …], `rank` long; one number stays as it is. */
static Value *reshape(Affine *a, Value *value, uint32_t rank) {
    Arena *arena = &a->fuse->ctx->model->arena;
    if ((uint32_t)fuse_rank(value) == rank && fuse_dim(value, 0) == (int64_t)a->channels)
        return value;
    int64_t *shape = ARENA_ARRAY(a->fuse->ctx->scratch, int64_t, rank), count = 1;
    Dim *dims = ARENA_ARRAY(arena, Dim, rank);
    for (int64_t i = 0; i < fuse_rank(value); i++) count *= fuse_dim(value, i);
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = i ? 1 : -1;
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = i ? 1 : count};
    }
    Value *const operands[2] = {value, fuse_new_ints(a->fuse, a->at->graph, shape, rank)};
    return fuse_make(a->fuse, a->at, "Reshape", operands,
                     type_new_shaped(arena, DTYPE_FLOAT, dims, rank));
}

/* The weights as they are, when it is known that they will change. */
static void start(Affine *a) {
    if (a->weights) return;
    a->weights = cast(a, a->conv->inputs[1].value, DTYPE_FLOAT);
    if (a->b) a->bias = cast(a, a->conv->inputs[2].value, DTYPE_FLOAT);
}

static void scale(Affine *a, Value *k) {
    uint32_t rank = (uint32_t)fuse_rank(a->weights);
    a->weights = compute(a, "Mul", a->weights, reshape(a, k, rank));
    if (a->bias) a->bias = compute(a, "Mul", a->bias, reshape(a, k, 1));
}

static void shift(Affine *a, Value *by) {
    const int64_t channels = (int64_t)a->channels;
    if (!a->bias) {
        const float *zeros = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
        a->bias = fuse_new_floats(a->fuse, a->conv->graph, zeros, &channels, 1);
    }
    a->bias = compute(a, "Add", a->bias, reshape(a, by, 1));
}

/* ---- steps of a chain ------------------------------------------------------------------------ */

static bool take_norm(Affine *a, Node *norm) {
    const float *factors[OPERANDS];
    float epsilon;
    if (!fuse_is_inference(norm) || !fuse_attr_float(norm, "epsilon", 1e-5f, &epsilon))
        return false;
    for (uint32_t i = SCALE; i < OPERANDS; i++)
        if (!(factors[i] = fuse_channels(a->fuse, fuse_input(norm, i), a->channels))) return false;
    float *k = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
    float *by = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
    for (uint64_t c = 0; c < a->channels; c++) {
        k[c] = factors[SCALE][c] / sqrtf(factors[VAR][c] + epsilon);
        by[c] = factors[BIAS][c] - factors[MEAN][c] * k[c];
    }
    if (!compose(a, k, by)) return false;
    if (a->store) return true;
    start(a);
    Value *in[OPERANDS];
    for (uint32_t i = SCALE; i < OPERANDS; i++) in[i] = cast(a, norm->inputs[i].value, DTYPE_FLOAT);
    Value *var =
        compute(a, "Add", in[VAR], fuse_new_floats(a->fuse, a->conv->graph, &epsilon, NULL, 0));
    Value *factor = compute(a, "Div", in[SCALE], compute(a, "Sqrt", var, NULL));
    shift(a, compute(a, "Neg", in[MEAN], NULL));
    scale(a, factor);
    shift(a, in[BIAS]);
    return true;
}

static bool take_step(Affine *a, Node *node, const Value *x) {
    a->at = node;
    if (fuse_is(node, "BatchNormalization")) return fuse_input(node, 0) == x && take_norm(a, node);
    bool mul = fuse_is(node, "Mul");
    if (!mul && !fuse_is(node, "Add")) return false;
    Value *by = fuse_other(node, x);
    const float *items = by ? read_broadcast(a, by) : NULL;
    if (!items || !compose(a, mul ? items : NULL, mul ? NULL : items)) return false;
    if (a->store) return true;
    start(a);
    by = cast(a, by, DTYPE_FLOAT);
    if (mul)
        scale(a, by);
    else
        shift(a, by);
    return true;
}

/* ---- constants in place of nodes ------------------------------------------------------------- */

/* What the chain comes to, as weights and bias that are constants: the former are multiplied when they
 * are read. */
static void store(Affine *a) {
    Model *model = a->fuse->ctx->model;
    const Value *w = a->conv->inputs[1].value;
    const Tensor *old = constant_tensor(w, &model->arena);
    const int64_t channels = (int64_t)a->channels;
    const float *factors = arena_copy(&model->arena, a->k, a->channels * sizeof *a->k);
    float *bias = ARENA_ARRAY(a->fuse->ctx->scratch, float, a->channels);
    for (uint64_t c = 0; c < a->channels; c++)
        bias[c] = (a->b ? a->b[c] : 0) * a->k[c] + a->shift[c];
    a->weights = fuse_new_constant(
        a->fuse, a->conv->graph,
        tensor_new_scaled(&model->arena, old,
                          (TensorFactors){factors, tensor_count(old) / a->channels, a->channels}));
    a->bias = fuse_new_floats(a->fuse, a->conv->graph, bias, &channels, 1);
}

/* True where the constant is gone, as nothing reads it any more. */
static bool drop_unread(Value *value) {
    if (!value || value->uses || value->referenced || !value_is_constant(value)) return false;
    if (value->producer)
        node_remove_unswept(value->producer);
    else
        graph_remove_initializer(value);
    return true;
}

/* A constant that is gone leaves its name. */
static void replace_operand(const Affine *a, uint32_t operand, Value *made) {
    Value *old = fuse_input(a->conv, operand);
    node_set_input(a->conv, operand, made);
    if (a->store && drop_unread(old)) value_swap_names(old, made);
}

static void remove_step(const Affine *a, Node *step) {
    Value *operands[OPERANDS];
    uint32_t count = step->input_count < OPERANDS ? step->input_count : OPERANDS;
    for (uint32_t i = 0; i < count; i++) operands[i] = step->inputs[i].value;
    node_remove_unswept(step);
    for (uint32_t i = 0; a->store && i < count; i++) drop_unread(operands[i]);
}

/* ---- the pass -------------------------------------------------------------------------------- */

ROW_CLONES static float largest_of(const float *items, uint64_t count) {
    return floats_largest(items, count);
}

/* The largest size of each channel's weights; infinite where one is NaN. */
static const float *find_peaks(const Affine *a, const Value *w) {
    enum { WINDOW = 1 << 15 };
    Arena *scratch = a->fuse->ctx->scratch;
    const Tensor *tensor = fuse_constant(a->fuse, w);
    if (!tensor) return NULL;
    float *peak = ARENA_ARRAY(scratch, float, a->channels);
    if (a->fuse->ctx->sketch) return peak;
    const uint64_t count = tensor_count(tensor);
    float *window = ARENA_ARRAY(scratch, float, count < WINDOW ? count : WINDOW);
    const uint64_t filter = count / a->channels; /* elements of one */
    for (uint64_t first = 0, size; first < count; first += size) {
        size = count - first < WINDOW ? count - first : WINDOW;
        if (!tensor_read_floats(tensor, first, size, window, NULL)) return NULL;
        for (uint64_t i = 0, now; i < size; i += now) {
            const uint64_t at = first + i, left = filter - at % filter;
            now = size - i < left ? size - i : left;
            const float here = largest_of(window + i, now);
            if (here > peak[at / filter]) peak[at / filter] = here;
        }
    }
    return peak;
}

static bool begin(Affine *a, Fuse *fuse, Node *conv) {
    const FoldAffineOptions *options = (const FoldAffineOptions *)(const void *)fuse->options;
    *a = (Affine){.fuse = fuse, .store = options->store, .conv = conv};
    const Value *w = fuse_input(conv, 1), *b = fuse_input(conv, 2);
    if (a->store && (!w || type_dtype(value_type(w)) != DTYPE_FLOAT)) return false;
    if (!w || fuse_opset(conv) < 7 || fuse_rank(w) < 2 || fuse_dim(w, 0) < 1) return false;
    a->channels = (uint64_t)fuse_dim(w, 0);
    a->peak = find_peaks(a, w);
    a->b = b ? fuse_channels(a->fuse, b, a->channels) : NULL;
    a->k = ARENA_ARRAY(fuse->ctx->scratch, float, a->channels);
    a->shift = ARENA_ARRAY(fuse->ctx->scratch, float, a->channels);
    for (uint64_t c = 0; c < a->channels; c++) a->k[c] = 1;
    return a->peak && (!b || a->b);
}

/* True where the node may become the chain's next step: looked at before anything large is read. */
static bool may_follow(const Node *node) {
    return fuse_is(node, "BatchNormalization") || fuse_is(node, "Mul") || fuse_is(node, "Add");
}

static void visit(Fuse *fuse, Node *conv) {
    Affine a;
    Node *chain[MOST_STEPS];
    size_t count = 0;
    Node *next = fuse_is(conv, "Conv") ? fuse_reader(conv->outputs[0]) : NULL;
    if (fuse->faithful || !may_follow(next) || !begin(&a, fuse, conv)) return;
    const Value *y = conv->outputs[0];
    while (count < MOST_STEPS && may_follow(next) && take_step(&a, next, y)) {
        chain[count++] = next;
        y = next->outputs[0];
        next = fuse_reader(y);
    }
    if (count == 0) return;
    Node *last = chain[count - 1];
    Value *result = last->outputs[0];
    Dtype dtype = type_dtype(conv->inputs[1].value->type);
    node_move_before(conv, last); /* behind what computes its weights */
    a.at = conv;
    if (a.store) store(&a);
    node_resize_inputs(conv, a.bias ? 3 : 2);
    replace_operand(&a, 1, cast(&a, a.weights, dtype));
    if (a.bias) replace_operand(&a, 2, cast(&a, a.bias, dtype));
    node_set_output(last, 0, NULL);
    while (count-- > 0) remove_step(&a, chain[count]);
    node_set_output(conv, 0, result);
    fuse->ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    const FoldAffineOptions *own = options;
    (void)err;
    fuse_run(ctx, &own->fuse, (const FuseVisit[]){visit, NULL});
    return true;
}

static const char *const numerics_names[] = {"fast", "faithful", NULL};

static const PassOption options_table[] = {
    {"numerics", OPTION_CHOICE, offsetof(FoldAffineOptions, fuse.numerics), numerics_names, NULL,
     "faithful: fuse only if the rounding is that of the separate operators"},
    {"store", OPTION_BOOL, offsetof(FoldAffineOptions, store), NULL, NULL,
     "store the new weights as constants immediately, if they are float32"},
    {0},
};

const PassInfo fold_batch_norm_pass = {
    .name = "fold-batch-norm",
    .summary = "fold BatchNormalization, scales, and shifts into convolution weights, for plans",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(FoldAffineOptions),
    .idempotent = true,
    .run = run,
};
