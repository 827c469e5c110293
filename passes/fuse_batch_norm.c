// SPDX-License-Identifier: Apache-2.0
/* fuse-batch-norm: a batch normalization that no convolution took into its weights, and the activation
 * behind it, become one step.
 *
 *   Relu(BatchNormalization(X, scale, bias, mean, var))
 *       ->  demi.fused.Affine <axis = 1> (X, mean, scale / sqrt(var + epsilon), bias)
 *
 * Such are before convolutions (DenseNet), behind other activations and sums, and behind products of
 * matrices (LeViT). It has the operator's bits, in float; and choose-layouts can have its channels
 * last, so that a region of convolutions goes on through it. All operands but X are constant. */
#include <math.h>

#include "fuse_graph.h"

enum { SCALE = 1, BIAS, MEAN, VAR, OPERANDS };

static void visit(Fuse *fuse, Node *norm) {
    const float *from[OPERANDS];
    float epsilon;
    if (fuse->faithful || !fuse_is(norm, "BatchNormalization") || !fuse_is_inference(norm)) return;
    Value *x = fuse_input(norm, 0);
    const int64_t channels = x && fuse_takes(x) && fuse_rank(x) > 1 ? fuse_dim(x, 1) : -1;
    if (channels < 1 || !fuse_attr_float(norm, "epsilon", 1e-5f, &epsilon)) return;
    for (uint32_t i = SCALE; i < OPERANDS; i++)
        if (!(from[i] = fuse_channels(fuse, fuse_input(norm, i), (uint64_t)channels))) return;
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
    node_set_input(made, 1, fuse_new_floats(fuse, norm->graph, from[MEAN], &channels, 1));
    node_set_input(made, 2, fuse_new_floats(fuse, norm->graph, scale, &channels, 1));
    node_set_input(made, 3, fuse_new_floats(fuse, norm->graph, from[BIAS], &channels, 1));
    fuse_set_activation(made, &activation);
    fuse_replace(fuse, made, old, count);
}

FUSE_PASS(fuse_batch_norm, "fuse-batch-norm",
          "fuse BatchNormalization with its activation, for plans", visit);
