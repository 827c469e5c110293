// SPDX-License-Identifier: Apache-2.0
/* Bytes that stand for floats, between QuantizeLinear and DequantizeLinear: what passes that compute
 * with the bytes themselves ask and make.
 *
 * Only float values of float scales are looked at. A scale for all is a constant within
 * QUANTIZED_LEAST and QUANTIZED_MOST, so that products and quotients of three are floats, too.
 */
#ifndef DEMI_QUANTIZED_VALUE_H
#define DEMI_QUANTIZED_VALUE_H

#include "fuse_graph.h"

#define QUANTIZED_LEAST 0x1p-40f
#define QUANTIZED_MOST  0x1p40f

/* What a QuantizeLinear or DequantizeLinear says of bytes. */
typedef struct Quantized {
    Node *node;
    Value *bytes; /* int8 or uint8 */
    Value *scale, *zero;
    Dtype dtype;
    bool single;    /* one scale for all, which is: */
    float step;     /* not for others */
    int32_t offset; /* the zero point, likewise */
    int64_t axis;   /* of the bytes, that has the scales, where they are not single */
} Quantized;

/* The DequantizeLinear that makes `value`, or the QuantizeLinear that `node` is. False where it is
 * another operator, of other types or by blocks. NULL is none. */
bool quantized_source(const Fuse *fuse, const Value *value, Quantized *found);
bool quantized_target(const Fuse *fuse, Node *node, Quantized *found);

/* True where the value is another one, rounded: by a DequantizeLinear of what a QuantizeLinear alike
 * gives it alone, also of 16 bits. *found is of that one. */
bool quantized_rounding(const Fuse *fuse, const Value *value, Quantized *found);

/* True where both are single, of one type, scale and zero point: the same bytes mean the same. */
bool quantized_alike(const Quantized *a, const Quantized *b);

/* True where the value is known to have one element. */
bool quantized_is_number(const Value *value);

/* Constants in the graph. A byte is of the dtype given. */
Value *quantized_new_float(Fuse *fuse, Graph *graph, float number);
Value *quantized_new_byte(Fuse *fuse, Graph *graph, Dtype dtype, int32_t number);
/* Floats of channels, as dim 1 of `rank` ones, or the only one where rank is 1. */
typedef struct Channels {
    uint64_t count;
    int64_t rank;
} Channels;
Value *quantized_new_channels(Fuse *fuse, Graph *graph, const float *items,
                              const Channels *channels);
/* `dims` [rank]; as many bytes as they say. */
Value *quantized_new_bytes(Fuse *fuse, Graph *graph, const Type *type, const void *bytes);
/* One more of the same elements. */
Value *quantized_new_like(Fuse *fuse, Graph *graph, const Value *constant);

/* The zero point as an operand; NULL where it is 0, which an operand that is absent is. */
Value *quantized_zero(const Quantized *quantized);

/* Operands that follow YZero in demi.fused's operators: the least and the greatest result, and its
 * zero point, which is the result's type. Where `to` is NULL the result is float. */
typedef struct QuantizedResult {
    const Quantized *to;
    const FuseActivation *activation; /* name NULL: none */
} QuantizedResult;

/* The activation behind a value that bounds can stand for; false, and no name, where there is
 * none. */
bool quantized_find_bounds(const Fuse *fuse, const Value *value, FuseActivation *found);

/* Sets inputs `low` and the one behind it, the bounds, input `zero`, and the attribute `to`. */
void quantized_set_result(Fuse *fuse, Node *made, const QuantizedResult *result,
                          const uint32_t places[2]);
enum { QUANTIZED_ZERO, QUANTIZED_LOW }; /* of `places` */

#endif
