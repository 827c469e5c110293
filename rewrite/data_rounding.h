// SPDX-License-Identifier: Apache-2.0
/* Rounding of weights on data, between passes, which know the weights, and those who can run the model: second moments
 * of what weights multiply, which a pass asks for, and the weights that it rounded by them. These are kept for
 * further conversions of the model, so that data is needed once. */
#ifndef DEMI_DATA_ROUNDING_H
#define DEMI_DATA_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "err.h"

/* Windows of a convolution, along up to MOMENT_AXES spatial axes. */
enum { MOMENT_AXES = 3 };
typedef struct MomentWindow {
    uint32_t axes;
    int64_t kernel[MOMENT_AXES], strides[MOMENT_AXES], dilations[MOMENT_AXES];
    int64_t pads[2 * MOMENT_AXES]; /* of the begins, then of the ends */
    int32_t same; /* pads follow from sizes: 1 as SAME_UPPER, -1 as SAME_LOWER; else 0 */
} MomentWindow;

/* Vectors that a product multiplies its weights by, each `size` numbers of a value. */
typedef struct MomentRows {
    const char *value; /* its name in the model */
    bool columns; /* along the first axis of a matrix; else along the last one of any tensor, or */
    MomentWindow
        window; /* axes not 0: what windows see of channels, which are axis 1; [channels][taps...] */
} MomentRows;

/* Moments to be measured: of all vectors of these, added up. Vectors of `groups` times `size` numbers are several, each
 * with moments of its own. */
typedef struct MomentRequest {
    const MomentRows *rows; /* [count] */
    size_t count;
    uint64_t size, groups;
} MomentRequest;

/* What was measured of a request: sums of x_a x_b, [groups][size][size], over so many vectors; NULL where the model has
 * no such values. */
typedef struct Moments {
    const float *sums;
    uint64_t vectors;
} Moments;

/* Receives the moments of request i, which end with the call. */
typedef bool MomentTake(void *data, size_t i, const Moments *moments, Err *err);

/* Who can run the model: calls take(data, i, …) once for each request, in any order. False with the error set
 * where that fails or `take` does; ERR_MODEL where values are not finite. */
typedef struct MomentSource {
    bool (*measure)(void *user, const MomentRequest *requests, size_t count, MomentTake *take,
                    void *data, Err *err);
    void *user;
} MomentSource;

/* A constant that was rounded. */
typedef struct RoundedWeights {
    struct RoundedWeights *next;
    const char *name;
    uint64_t key; /* of what it was before, and how it is stored */
    const unsigned char *bytes;
    const float *scales;
    const uint8_t *zeros;
    uint64_t size, scale_count, zero_count;
    double nearest, chosen; /* what results are off by: sums of squares */
} RoundedWeights;

typedef struct DataRounding {
    Arena *arena;               /* of what is kept; a pass that keeps something lends it its trap */
    const MomentSource *source; /* NULL: there is nothing but what is kept */
    RoundedWeights *kept;       /* the newest first */
} DataRounding;

/* What was kept under that name and key; NULL: nothing. */
const RoundedWeights *data_rounding_find(const DataRounding *rounding, const char *name,
                                         uint64_t key);

/* Keeps a copy. */
void data_rounding_keep(DataRounding *rounding, const RoundedWeights *weights);

#endif
