// SPDX-License-Identifier: Apache-2.0
/* What to expect of a converted model: sentences on when it will not be faster. They are drawn from
 * the nodes' notes and the processor this runs on, never from a measurement.
 */
#ifndef DEMI_REPORT_ADVICE_H
#define DEMI_REPORT_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "graph.h"

typedef struct AdviceFacts {
    uint64_t low, full;             /* nodes given the low precision, and float */
    uint64_t own_low, own_double;   /* nodes whose author gave them 16 bit, and double */
    bool smaller;                   /* than before */
    bool here;                      /* it runs on this machine */
    uint64_t heavy_low, heavy_full; /* of them, convolutions and matrix products */
    uint64_t float16, bfloat16;     /* nodes given each */
    uint64_t casts;                 /* inserted casts left */
    uint64_t faults;                /* nodes that ONNX Runtime fails on (peer_fault.h) */
    const char *fault;              /* what to call the first of them */
    uint64_t uneven;                /* 16-bit products of weights that advice_uneven gives */
    uint64_t uneven_elements, low_elements; /* of weights: of these, and of all 16-bit products */
    const char *uneven_label;               /* what to call the largest of them, and its type */
    const Type *uneven_type;
    uint64_t norms; /* in bfloat16, that --fold would fold into the preceding convolution */
    bool integer;   /* the model is int8 already, which a remark says */
} AdviceFacts;

typedef enum Advice {
    ADVICE_NOTHING_LOW,
    ADVICE_HEAVY_FULL,
    ADVICE_CASTS,
    ADVICE_PROCESSOR,
    ADVICE_BFLOAT16_CPU,
    ADVICE_FAULT,
    ADVICE_UNEVEN,
    ADVICE_FOLD,
    ADVICE_COUNT
} Advice;

/* The type of a 16-bit product's weights where a size of them is no multiple of 8, in which tensor
 * cores take matrices (MXNet's guide to float16); NULL for others, for such as have a size of 1, as
 * depthwise filters and vectors, and for filters of up to 4 channels, which libraries pad. */
const Type *advice_uneven(const Node *node);

/* Counts a node that has a note. */
void advice_take_node(AdviceFacts *facts, const Node *node);

/* The sentence of that kind, in `arena` or static, or NULL where it does not apply. */
const char *advice_text(const AdviceFacts *facts, Advice kind, Arena *arena);

#endif
