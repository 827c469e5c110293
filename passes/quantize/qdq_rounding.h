// SPDX-License-Identifier: Apache-2.0
/* Which weights can be rounded on data, and doing it: from a plan's constants to requests for second moments
 * (data_rounding.h), and from these to numbers (gptq.h). */
#ifndef DEMI_QDQ_ROUNDING_H
#define DEMI_QDQ_ROUNDING_H

#include "data_rounding.h"
#include "pass.h"
#include "qdq_numbers.h"

/* A constant that is stored as integers or float8. */
typedef struct QdqRounded {
    const Value *value;
    QdqNumbers *numbers; /* found by qdq_numbers_find, with their bytes */
    int32_t axis;        /* QdqWeight's */
    uint64_t scale_count;
    VEC(const Node *)
    products; /* that read it as their weights; not through anything else where it is no matrix */
    /* found */
    bool can;
    uint64_t key;
    MomentRequest request;
    size_t number; /* of the request, among those that differ */
} QdqRounded;

/* Sets `can` and the request: whether what its products multiply it by is known. Its tensor and layout are set. In
 * `arena`. */
void qdq_rounding_describe(QdqRounded *item, Arena *arena);

/* Rounds those that can be, which have been rounded to nearest: as was kept, or by moments that are measured now. What
 * is neither stays as it is, and a remark counts such constants. False with the error set where measuring or reading
 * fails. */
bool qdq_rounding_run(PassCtx *ctx, QdqRounded *items, size_t count, Err *err);

#endif
