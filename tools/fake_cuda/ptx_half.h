// SPDX-License-Identifier: Apache-2.0
/* 16-bit floats of the emulator and of the libraries beside it. */
#ifndef FAKE_PTX_HALF_H
#define FAKE_PTX_HALF_H

#include <stdint.h>

float ptx_from_half(uint16_t half);
float ptx_from_bfloat(uint16_t bfloat);
/* Rounded once, to nearest, ties to even. */
uint16_t ptx_to_half(long double x);
uint16_t ptx_to_bfloat(long double x);
/* The same of floats, faster. */
uint16_t ptx_half_of(float x);
uint16_t ptx_bfloat_of(float x);

#endif
