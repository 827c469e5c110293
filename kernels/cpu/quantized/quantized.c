// SPDX-License-Identifier: Apache-2.0
/* Helpers of 8-bit products; see quantized.h. */
#include "quantized.h"

#include "kernel_clones.h"

void quantized_widen(int16_t *to, const WideRows *r, uint64_t width) {
    for (uint64_t i = 0; i < r->rows; i++, to += width) {
        const int64_t *zeros = r->zeros.points + i * r->zeros.row;
        uint64_t step = r->zeros.column;
        int32_t zero = (int32_t)zeros[0];
        const int8_t *s = (const int8_t *)r->from + i * r->columns;
        const uint8_t *u = (const uint8_t *)r->from + i * r->columns;
        bool is_signed = r->dtype == DTYPE_INT8;
        for (uint64_t j = 0; j < r->columns && step; j++)
            to[j] = (int16_t)((is_signed ? s[j] : u[j]) - (int32_t)zeros[j * step]);
        for (uint64_t j = 0; j < r->columns && !step && is_signed; j++)
            to[j] = (int16_t)(s[j] - zero);
        for (uint64_t j = 0; j < r->columns && !step && !is_signed; j++)
            to[j] = (int16_t)(u[j] - zero);
        for (uint64_t j = r->columns; j < width; j++) to[j] = 0;
    }
}

void quantized_pack_rows(const void *source, const GemmBlock *block, void *to) {
    const PairRows *p = source;
    const int16_t *from = p->rows + p->offsets[block->batch] + block->lane;
    for (uint64_t j = 0; j < block->lanes; j += block->width) {
        uint64_t lanes = block->lanes - j < block->width ? block->lanes - j : block->width;
        for (uint64_t k = 0; k < block->depth; k++) {
            int16_t *pair = (int16_t *)to + (j * block->depth + k * block->width) * 2;
            uint64_t row = 2 * (block->k + k);
            const int16_t *low = from + row * p->width + j;
            bool alone = row + 1 >= p->count;
            const int16_t *high = alone ? low : low + p->width;
            for (uint64_t i = 0; i < lanes; i++) pair[2 * i] = low[i];
            for (uint64_t i = 0; i < lanes; i++) pair[2 * i + 1] = alone ? 0 : high[i];
        }
    }
}

/* What is out of this range saturates whatever the zero point is. Adding and subtracting 1.5 * 2^52
 * rounds to an integer, to even between two, without a library call that no vector can have. */
KERNEL_INLINE double whole(double x) {
    const double most = 1024, magic = 6755399441055744.0;
    x = x > -most ? x : -most;
    x = x < most ? x : most;
    return (x + magic) - magic;
}

/* The value between low and high, which are so near to 0 that int32_t holds it. */
KERNEL_INLINE int32_t requantize(int32_t sum, double scale, const Requantize *how, double low,
                                 double high) {
    double x = whole(sum * scale) + how->zero;
    x = x > low ? x : low;
    return (int32_t)(x < high ? x : high);
}

enum { STORE_BLOCK = 256 };

/* Numbers first, then bytes: both loops are ones that vectors can have. */
KERNEL_CLONES
void quantized_store(const Requantize *how, const int32_t *sums, uint8_t *to, uint64_t count) {
    double low = how->dtype == DTYPE_INT8 ? INT8_MIN : 0;
    double high = how->dtype == DTYPE_INT8 ? INT8_MAX : UINT8_MAX;
    int32_t values[STORE_BLOCK];
    for (uint64_t i = 0; i < count; i += STORE_BLOCK) {
        uint64_t n = count - i < STORE_BLOCK ? count - i : STORE_BLOCK;
        if (how->scales)
            for (uint64_t k = 0; k < n; k++)
                values[k] =
                    requantize(sums[i + k], how->scale * how->scales[i + k], how, low, high);
        else
            for (uint64_t k = 0; k < n; k++)
                values[k] = requantize(sums[i + k], how->scale, how, low, high);
        for (uint64_t k = 0; k < n; k++) to[i + k] = (uint8_t)values[k];
    }
}
