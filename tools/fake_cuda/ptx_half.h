// SPDX-License-Identifier: Apache-2.0
/* 16-bit floats of the emulator and of the libraries beside it. */
#ifndef FAKE_PTX_HALF_H
#define FAKE_PTX_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ptx_from_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    uint32_t bits = (rest << 13) + (112u << 23);
    float x;
    if (rest < 0x400) { /* subnormal */
        x = (float)rest * 0x1p-24f;
        memcpy(&bits, &x, sizeof bits);
    } else if (rest >= 0x7c00) {
        bits |= 0x7f800000;
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float ptx_from_bfloat(uint16_t bfloat) {
    const uint32_t bits = (uint32_t)bfloat << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounded once, to nearest, ties to even. */
uint16_t ptx_to_half(long double x);
uint16_t ptx_to_bfloat(long double x);
/* The same of floats, faster. */
uint16_t ptx_half_of(float x);
uint16_t ptx_bfloat_of(float x);

#endif
