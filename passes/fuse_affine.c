// SPDX-License-Identifier: Apache-2.0
/* fuse-affine: a batch normalisation that no convolution took into its weights, and the activation
 * behind it, become one step.
 *
 *   Relu(BatchNormalization(X, scale, bias, mean, var))
 *       ->  demi.fused.Affine <axis = 1> (X, mean, scale / sqrt(var + epsilon), bias)
 *
 * Such are before convolutions (DenseNet), behind other activations and sums, and behind products of
 * matrices (LeViT). It has the operator's bits, in float; and choose-layouts can have its channels
 * last, so that a region of convolutions goes on through it. All operands but X are constant. */
#include <math.h>

#include "constants.h"
#include "fuse_graph.h"

enum { SCALE = 1, BIAS, MEAN, VAR, OPERANDS };

/* One number a channel from a constant; NULL where it is none, or has more or less. */
static const float *read_channels(const Fuse *fuse, const Value *value, uint64_t channels) {
    Arena *scratch = fuse->ctx->scratch;
    if (!value || !value_is_constant(value) || !fuse_takes(value) || fuse_rank(value) != 1)
        return NULL;
    const Tensor *tensor = constant_tensor(value, scratch);
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) != channels) return NULL;
    float *items = ARENA_ARRAY(scratch, float, channels + 1);
    return tensor_read_floats(tensor, 0, channels, items, NULL) ? items : NULL;
}

static Value *new_floats(const Fuse *fuse, Graph *graph, const float *items, uint64_t count) {
    Model *model = fuse->ctx->model;
    const int64_t dim = (int64_t)count;
    Dim *shape = ARENA_NEW(&model->arena, Dim);
    *shape = (Dim){.kind = DIM_KNOWN, .size = dim};
    Value *value = value_new(graph, sym_fresh(&model->syms, "affine"));
    value_set_type(value, type_new_shaped(&model->arena, DTYPE_FLOAT, shape, 1));
    value_set_init(
        value, tensor_new_raw(&model->arena, DTYPE_FLOAT, &dim, 1, items, count * sizeof *items));
    return value;
}

static void visit(Fuse *fuse, Node *norm) {
    const float *from[OPERANDS];
    float epsilon;
    if (fuse->faithful || !fuse_is(norm, "BatchNormalization") || !fuse_is_inference(norm)) return;
    Value *x = fuse_input(norm, 0);
    const int64_t channels = x && fuse_takes(x) && fuse_rank(x) > 1 ? fuse_dim(x, 1) : -1;
    if (channels < 1 || !fuse_attr_float(norm, "epsilon", 1e-5f, &epsilon)) return;
    for (uint32_t i = SCALE; i < OPERANDS; i++)
        if (!(from[i] = read_channels(fuse, fuse_input(norm, i), (uint64_t)channels))) return;
    float *scale = ARENA_ARRAY(fuse->ctx->scratch, float, (uint64_t)channels);
    for (int64_t c = 0; c < channels; c++)
        scale[c] = (float)((double)from[SCALE][c] / sqrt((double)from[VAR][c] + (double)epsilon));
    FuseActivation activation;
    Node *old[1 + sizeof activation.nodes / sizeof *activation.nodes] = {norm};
    size_t count = 1;
    if (!fuse_find_activation(fuse, norm->outputs[0], &activation)) activation.name = NULL;
    for (uint32_t i = 0; activation.name && i < activation.node_count; i++)
        old[count++] = activation.nodes[i];
    Node *made = fuse_new(fuse, old[count - 1], "Affine", norm, 4);
    node_set_input(made, 0, x);
    node_set_input(made, 1, new_floats(fuse, norm->graph, from[MEAN], (uint64_t)channels));
    node_set_input(made, 2, new_floats(fuse, norm->graph, scale, (uint64_t)channels));
    node_set_input(made, 3, new_floats(fuse, norm->graph, from[BIAS], (uint64_t)channels));
    fuse_set_activation(made, &activation);
    fuse_replace(fuse, made, old, count);
}

FUSE_PASS(fuse_affine, "fuse-affine",
          "make batch normalisations and their activations one step, for plans", visit);
