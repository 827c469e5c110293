// SPDX-License-Identifier: Apache-2.0
/* fold-batch-norm: a BatchNormalization behind a convolution goes into its weights.
 *
 *   BatchNormalization(Conv(X, W, B), S, bias, mean, var)
 *       ->  Conv(X, W * k, (B - mean) * k + bias),  k = S / sqrt(var + epsilon)
 *
 * The new weights are nodes, computed in float32 from constants and rounded once; they become constants
 * when the plan is folded. All operands but X are constant, the convolution's result is read by nothing
 * else, the normalisation is inference by channel with one output, and the new weights are finite in the
 * type of the old ones. Not in faithful plans, as the weights are rounded anew.
 */
#include <math.h>

#include "constants.h"
#include "fuse_graph.h"
#include "passes.h"

enum { SCALE = 1, BIAS, MEAN, VAR, OPERANDS };

/* ---- conditions ---------------------------------------------------------------------------------
 */

static bool is_inference(const Node *norm) {
    int64_t opset = fuse_opset(norm);
    for (uint32_t i = 1; i < norm->output_count; i++)
        if (norm->outputs[i]) return false;
    if (node_attr_int(norm, "training_mode", 0) != 0) return false;
    if (opset < 7 && node_attr_int(norm, "is_test", 0) == 0) return false;
    return opset >= 9 || node_attr_int(norm, "spatial", 1) != 0;
}

static bool is_vector(const Value *value, int64_t channels) {
    return value && value_is_constant(value) && fuse_takes(value) && fuse_rank(value) == 1 &&
           fuse_dim(value, 0) == channels;
}

static float *read_floats(Fuse *fuse, const Value *value, uint64_t *count) {
    Arena *scratch = fuse->ctx->scratch;
    const Tensor *tensor = constant_tensor(value, scratch);
    if (!tensor || !tensor_check(tensor, NULL)) return NULL;
    *count = tensor_count(tensor);
    float *items = ARENA_ARRAY(scratch, float, *count + 1);
    return tensor_read_floats(tensor, 0, *count, items, NULL) ? items : NULL;
}

static float largest(Dtype dtype) {
    return dtype == DTYPE_FLOAT16 ? 65504 : 3.3895314e38f; /* bfloat16's */
}

/* True where the new weights and biases stay finite, with k as large as it gets. */
static bool stays_finite(Fuse *fuse, const Node *conv, const Node *norm, float epsilon) {
    const float *factors[OPERANDS], *own = NULL;
    uint64_t channels = 0, count, all;
    const Value *b = fuse_input(conv, 2);
    for (uint32_t i = SCALE; i < OPERANDS; i++)
        if (!(factors[i] = read_floats(fuse, norm->inputs[i].value, &channels))) return false;
    const float *w = read_floats(fuse, conv->inputs[1].value, &all);
    if (b) own = read_floats(fuse, b, &count);
    if (!w || (b && !own) || channels == 0) return false;
    const float most = largest(type_dtype(conv->inputs[1].value->type));
    for (uint64_t c = 0; c < channels; c++) {
        float k = factors[SCALE][c] / sqrtf(factors[VAR][c] + epsilon);
        float bias = ((own ? own[c] : 0) - factors[MEAN][c]) * k + factors[BIAS][c];
        if (!(fabsf(bias) <= most)) return false; /* NaN neither */
        for (uint64_t i = c * (all / channels); i < (c + 1) * (all / channels); i++)
            if (!(fabsf(w[i] * k) <= most)) return false;
    }
    return true;
}

static bool suits(Fuse *fuse, const Node *conv, const Node *norm, float *epsilon) {
    const Value *w = fuse_input(conv, 1), *b = fuse_input(conv, 2);
    if (!fuse_is(conv, "Conv") || !w || !fuse_takes(w) || !value_is_constant(w)) return false;
    int64_t channels = fuse_dim(w, 0);
    if (channels < 1 || fuse_rank(w) < 2 || (b && !is_vector(b, channels))) return false;
    for (uint32_t i = SCALE; i < OPERANDS; i++)
        if (!is_vector(fuse_input(norm, i), channels)) return false;
    return fuse_reader(conv->outputs[0]) == norm && norm->input_count == OPERANDS &&
           is_inference(norm) && fuse_attr_float(norm, "epsilon", 1e-5f, epsilon) &&
           fuse_opset(norm) >= 7 && stays_finite(fuse, conv, norm, *epsilon);
}

/* ---- new weights --------------------------------------------------------------------------------
 */

static Value *cast(Fuse *fuse, Node *at, Value *value, Dtype to) {
    if (type_dtype(value->type) == to) return value;
    const Type *type = type_with_dtype(&fuse->ctx->model->arena, value->type, to);
    Value *result = fuse_make(fuse, at, "Cast", (Value *const[2]){value, NULL}, type);
    node_set_attr_int(result->producer, "to", to);
    return result;
}

/* a op b, of a's shape */
static Value *compute(Fuse *fuse, Node *at, const char *op, Value *a, Value *b) {
    return fuse_make(fuse, at, op, (Value *const[2]){a, b}, a->type);
}

static Value *new_epsilon(Fuse *fuse, Graph *graph, float epsilon) {
    Arena *arena = &fuse->ctx->model->arena;
    Value *value = value_new(graph, sym_fresh(&fuse->ctx->model->syms, "epsilon"));
    value_set_type(value, type_new_shaped(arena, DTYPE_FLOAT, NULL, 0));
    value_set_init(value, tensor_new_float_scalar(arena, epsilon));
    return value;
}

/* k as [channels, 1, …], to be multiplied with weights of that rank. */
static Value *as_column(Fuse *fuse, Node *at, Value *k, uint32_t rank) {
    Arena *arena = &fuse->ctx->model->arena;
    int64_t *shape = ARENA_ARRAY(fuse->ctx->scratch, int64_t, rank);
    Dim *dims = ARENA_ARRAY(arena, Dim, rank);
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = i ? 1 : -1;
        dims[i] = i ? (Dim){.kind = DIM_KNOWN, .size = 1} : k->type->dims[0];
    }
    Value *const operands[2] = {k, fuse_new_ints(fuse, at->graph, shape, rank)};
    return fuse_make(fuse, at, "Reshape", operands,
                     type_new_shaped(arena, DTYPE_FLOAT, dims, rank));
}

static void visit(Fuse *fuse, Node *norm) {
    const Value *x = fuse_is(norm, "BatchNormalization") ? fuse_input(norm, 0) : NULL;
    Node *conv = x ? x->producer : NULL;
    float epsilon;
    if (fuse->faithful || !conv || !suits(fuse, conv, norm, &epsilon)) return;
    Value *in[OPERANDS];
    Value *w = conv->inputs[1].value, *own = fuse_input(conv, 2);
    Dtype dtype = type_dtype(w->type);
    for (uint32_t i = SCALE; i < OPERANDS; i++)
        in[i] = cast(fuse, norm, norm->inputs[i].value, DTYPE_FLOAT);
    Value *var = compute(fuse, norm, "Add", in[VAR], new_epsilon(fuse, norm->graph, epsilon));
    Value *k = compute(fuse, norm, "Div", in[SCALE], compute(fuse, norm, "Sqrt", var, NULL));
    Value *wide = cast(fuse, norm, w, DTYPE_FLOAT);
    Value *weights =
        compute(fuse, norm, "Mul", wide, as_column(fuse, norm, k, (uint32_t)fuse_rank(w)));
    Value *shift = own ? compute(fuse, norm, "Sub", cast(fuse, norm, own, DTYPE_FLOAT), in[MEAN])
                       : compute(fuse, norm, "Neg", in[MEAN], NULL);
    Value *bias = compute(fuse, norm, "Add", compute(fuse, norm, "Mul", shift, k), in[BIAS]);
    node_resize_inputs(conv, 3);
    node_move_before(conv, norm); /* behind what computes its weights */
    node_set_input(conv, 1, cast(fuse, conv, weights, dtype));
    node_set_input(conv, 2, cast(fuse, conv, bias, dtype));
    Value *result = norm->outputs[0];
    node_set_output(norm, 0, NULL);
    node_set_output(conv, 0, result);
    node_remove_unswept(norm);
    fuse->ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)err;
    fuse_each(ctx, options, visit);
    return true;
}

const PassInfo fold_batch_norm_pass = {
    .name = "fold-batch-norm",
    .summary = "compute batch normalisations into convolutions' weights, for plans",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = fuse_options,
    .options_size = sizeof(FuseOptions),
    .idempotent = true,
    .run = run,
};
