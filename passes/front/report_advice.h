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
    uint64_t heavy_low, heavy_full; /* of them, convolutions and matrix products */
    uint64_t float16, bfloat16;     /* nodes given each */
    uint64_t casts;                 /* inserted casts left */
    uint64_t faults;                /* nodes that ONNX Runtime fails on (peer_fault.h) */
    const char *fault;              /* what to call the first of them */
} AdviceFacts;

typedef enum Advice {
    ADVICE_NOTHING_LOW,
    ADVICE_HEAVY_FULL,
    ADVICE_CASTS,
    ADVICE_PROCESSOR,
    ADVICE_BFLOAT16_CPU,
    ADVICE_FAULT,
    ADVICE_COUNT
} Advice;

/* Counts a node that has a note. */
void advice_take_node(AdviceFacts *facts, const Node *node);

/* The sentence of that kind, in `arena` or static, or NULL where it does not apply. */
const char *advice_text(const AdviceFacts *facts, Advice kind, Arena *arena);

#endif
