// SPDX-License-Identifier: Apache-2.0
/* The numbers of quantization: scales of ranges, and weights as integers, float8 or float4.
 *
 * A quantized element q of a scale s and a zero point z stands for (q - z) * s. Zero is always
 * among what can be said exactly, so that padding and Relu stay what they are. */
#ifndef DEMI_QDQ_SCALE_H
#define DEMI_QDQ_SCALE_H

#include "dtype.h"
#include "quantized_format.h"

typedef struct QdqScale {
    float scale; /* a normal number above 0 */
    int32_t zero;
} QdqScale;

/* The ends of an integer type of up to 16 bits. */
int32_t qdq_least(Dtype dtype);
int32_t qdq_most(Dtype dtype);

/* The least number of `floats` (FLOAT, or a reduced type) that is no smaller than the scale, so that what the
 * scale was made for still fits; the type's largest one where there is none. */
float qdq_scale_as(Dtype floats, float scale);

/* The scale for values of [low, high], and of 0. `symmetric`: the zero point is 0, or the middle of
 * an unsigned type. Of float8, the largest magnitude becomes the largest number, and the zero point is 0. A range of
 * nothing but 0 has the scale 1. False where an end is not finite. */
bool qdq_scale_of_range(Dtype dtype, bool symmetric, double low, double high, QdqScale *scale);

/* The same with a scale that is a number of `floats`. */
bool qdq_scale_in(Dtype floats, Dtype dtype, bool symmetric, const double range[2],
                  QdqScale *scale);

/* Weights as (outer, axis, inner), which have a scale for each place along the axis, or for each
 * `block` of places (outer, axis / block rounded up, inner) where that is not 0. */
typedef struct QdqWeights {
    const float *items;
    uint64_t outer, axis, inner, block;
    Dtype dtype;  /* an integer of up to 16 bits, float8e4m3fn or float4e2m1 */
    Dtype floats; /* of the scales: FLOAT, or the reduced type of the weights */
    Dtype stored; /* what scales of blocks are stored in; UNDEFINED: `floats` */
    float
        whole; /* with two levels of scales, those of blocks are so many times what is stored; else 0 */
    const float
        *importance; /* [block]: what squared errors at the places of a block count, finite and not
                                below 0; NULL: all the same */
} QdqWeights;

/* Bits of a byte and less in raw_data's order: element `at` of `bits` bits. What lies beside it stays. */
static inline uint8_t qdq_code_at(const unsigned char *bytes, unsigned bits, uint64_t at) {
    return (uint8_t)(bytes[at * bits / 8] >> at * bits % 8 & ((1u << bits) - 1));
}

static inline void qdq_put_code(unsigned char *bytes, unsigned bits, uint64_t at, uint32_t code) {
    const unsigned shift = (unsigned)(at * bits % 8), mask = ((1u << bits) - 1) << shift;
    unsigned char *byte = &bytes[at * bits / 8];
    *byte = (unsigned char)((*byte & ~mask) | (code << shift & mask));
}

/* The least power of two that is no smaller than a normal number. */
float qdq_power_from(float step);

/* The scale of all scales with which the largest weight still is a number at the largest scale: a power of two, with
 * which scales and weights are exact in float16 and bfloat16, too. */
float qdq_whole_scale(const QdqWeights *weights, float peak);

/* Bytes of a scale as it is stored, and scales, which are numbers of that, so. */
uint64_t qdq_scale_size(const QdqWeights *weights);
void qdq_store_scales(const QdqWeights *weights, const float *scales, uint64_t count, void *out);

/* The number that the largest magnitude becomes; and a scale as it can be stored: 1 for nothing. */
float qdq_top(Dtype dtype);
float qdq_normal_scale(double scale);

uint64_t qdq_scale_count(const QdqWeights *weights);

/* True where all are finite. */
bool qdq_weights_finite(const float *items, uint64_t count);

/* The largest magnitude of each place along the axis, in `peaks` where that is larger than what is
 * there: weights may come in parts. Then the symmetric scales with which those magnitudes become the
 * type's largest number: at least least[i], where that is not NULL, and 1 where all weights are 0. */
void qdq_add_peaks(const QdqWeights *weights, float *peaks);
void qdq_scales_of_peaks(const QdqWeights *weights, const float *least, float *peaks);
/* Both at once. */
void qdq_find_channel_scales(const QdqWeights *weights, const float *least, float *scales);

/* Scales for each block, and zero points of uint4 and uint2, in `zeros` (one a byte), which is not used for
 * other types (qdq_blocks.c). Of 4 bits and less, and where scales have a type of their own, they are those of a
 * few ranges that leave the least squared error: each block by itself, so that weights may come in parts. */
void qdq_find_block_scales(const QdqWeights *weights, float *scales, uint8_t *zeros);

/* The elements by their scales, nearest, ties to even, saturated; symmetric integers do not use
 * their type's least number. `out` is as raw_data has it; elements of less than a byte are packed, the first
 * in the low bits. */
void qdq_store_weights(const QdqWeights *weights, const float *scales, const uint8_t *zeros,
                       void *out);

/* Elements that follow each other, of scales and zero points that do, or that share one (step 0). */
typedef struct QdqRow {
    const float *items, *scales;
    const uint8_t *zeros; /* NULL: all 0 */
    uint64_t count, step;
    float low, high; /* of numbers: qdq_set_limits */
} QdqRow;

void qdq_set_limits(const QdqWeights *weights, QdqRow *row);

/* Stores them as elements `first` and further of `out`. Of a byte that has another element, too, that one
 * stays as it is. */
void qdq_store_row(const QdqRow *row, Dtype dtype, uint64_t first, void *out);

/* What the weights of a channel, and what storing adds to them, are multiplied by before they are added up:
 * item i is that of place i of (outer, inner), and after `group` of the axis' places follow those `stride`
 * further on. */
typedef struct QdqFactors {
    const float *weights, *growths;
    uint64_t first, group, stride; /* the weights' first place along the axis; group: not 0 */
} QdqFactors;

/* That sum, of weights that are stored by channels, in units of the channel's scale: sums[axis]. */
void qdq_find_drifts(const QdqWeights *weights, const float *scales, const QdqFactors *factors,
                     float *sums);

/* bias / scales, as int32; false where one does not fit. scales[i % scale_count]. */
bool qdq_store_bias(const float *bias, uint64_t count, const float *scales, uint64_t scale_count,
                    int32_t *out);

#endif
