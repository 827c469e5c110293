// SPDX-License-Identifier: Apache-2.0
/* Ways that channels go from a layer to the layers that read them, along which they may be scaled: what the layer
 * gives is divided by factors, and the weights that multiply it are multiplied by them (equalize.c).
 *
 * A layer is a Conv, MatMul or Gemm with constant weights, a normalization with a constant scale for each
 * channel, or a Mul by such a constant. Between two are operators that channels go through with their factors (OP_HOMOGENEOUS), and constants
 * that are added to channels or multiply them. Everything that reads a value on the way is such an operator or
 * layer. Constants are float32 initializers that nothing else reads. */
#ifndef DEMI_CHANNEL_PATHS_H
#define DEMI_CHANNEL_PATHS_H

#include "fuse_graph.h"

/* A constant with elements of channels: which, by its factors. */
typedef struct Scaled {
    Value *value;
    uint64_t each, count; /* as TensorFactors */
    bool grouped;         /* `count` is of rows and channels; else of channels */
    Node *
        reader; /* of a constant of one element: its operand `index` becomes a constant of channels */
    uint32_t index;
} Scaled;

typedef struct PathReader {
    Node *node;
    Scaled weights;
    int64_t axis; /* of the channels in what it reads */
} PathReader;

typedef struct ChannelPath {
    Fuse *fuse;
    Value *
        from; /* what is divided: what the layer gives, or any value, by a multiplication of its own */
    Node *layer;  /* NULL: none */
    bool product; /* the layer is one; else a normalization, or a Mul */
    int64_t axis; /* of the channels in `from` */
    uint64_t channels;
    VEC(Scaled)
    divided; /* a product's weights first; then vectors, of the layer and those added on the way */
    VEC(PathReader) readers; /* whose weights are multiplied; 1 at least */
    VEC(Value *) values;     /* on the way */
} ChannelPath;

/* The path from the node; false where there is none. Lists are in the passes' scratch memory. */
bool channel_path_find(Fuse *fuse, Node *layer, ChannelPath *path);

/* The path from a value to the products that read it themselves, but for those that are `taken` ([node_count]): what else
 * reads it does not matter. */
bool channel_path_into(Fuse *fuse, Value *value, const bool *taken, ChannelPath *path);

/* How the elements of a product's weights lie. */
typedef struct WeightOrder {
    uint64_t outputs, inputs, taps; /* inputs: of a group */
    uint64_t groups;
    bool outputs_first; /* [outputs][inputs][taps]; else [inputs][outputs] */
} WeightOrder;

/* False of what is no product, or one whose weights lie otherwise. */
bool weight_order_find(const Node *product, WeightOrder *order);

/* The output and the input, of its group, of element k. */
uint64_t weight_order_output(const WeightOrder *order, uint64_t k);
uint64_t weight_order_input(const WeightOrder *order, uint64_t k);

/* The channel of such an element of a constant on the path. */
uint64_t channel_path_at(const ChannelPath *path, const Scaled *constant, uint64_t element);

#endif
