// SPDX-License-Identifier: Apache-2.0
/* 16-bit floats of the emulator: apart from the project's own, which the kernels are held against. */
#include <math.h>
#include <string.h>

#include "ptx_code.h"

/* With so many bits of a fraction, and 2^least the first power with all of them. */
static uint16_t round_to(long double x, int fraction, int least, int most) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const uint16_t infinite = (uint16_t)((most - least + 2) << fraction);
    if (isnan(x)) return 0x7fff;
    x = fabsl(x);
    if (isinf(x)) return sign | infinite;
    if (x == 0) return sign;
    int exponent = ilogbl(x);
    if (exponent < least) exponent = least;
    const long double units =
        rintl(ldexpl(x, fraction - exponent)); /* carries go to the exponent */
    const uint64_t bits =
        ((uint64_t)(exponent - least) << fraction) + (uint64_t)units; /* 2^fraction: exponent 1 */
    return sign | (bits >= infinite ? infinite : (uint16_t)bits);
}

uint16_t ptx_to_half(long double x) {
    return round_to(x, 10, -14, 15);
}
uint16_t ptx_to_bfloat(long double x) {
    return round_to(x, 7, -126, 127);
}

/* The same of floats, which is what most are. */
uint16_t ptx_half_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return 0x7fff;
    if (bits >= 0x477ff000) return sign | 0x7c00; /* 65520, half way to what would be next */
    if (bits < 0x38800000) return sign | (uint16_t)rintf(fabsf(x) * 0x1p24f);
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits - (112u << 23)) >> 13);
}
uint16_t ptx_bfloat_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
