// SPDX-License-Identifier: Apache-2.0
/* The largest magnitude of floats. */
#ifndef DEMI_BASE_FLOAT_SIZE_H
#define DEMI_BASE_FLOAT_SIZE_H

#include <stdint.h>
#include <string.h>

/* Infinite where one is infinite or NaN; 0 of none. Magnitudes are ordered as their bits are, which
 * vectors compare without asking for NaN. */
static inline float floats_largest(const float *items, uint64_t count) {
    int32_t most = 0;
    float largest;
    for (uint64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &items[i], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    if (most > 0x7f800000) most = 0x7f800000;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

#endif
