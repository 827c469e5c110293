// SPDX-License-Identifier: Apache-2.0
/* AMX's tiles, beside AVX-512's vectors: registers of 16 rows of 16 words. Which one is meant is written as a
 * number, as the instructions have it; steps are the bytes from row to row in memory. */
#ifndef DEMI_SIMD_AMX_H
#define DEMI_SIMD_AMX_H

#include "simd_avx512.h"

#define tiles_configure(shapes)    _tile_loadconfig(shapes) /* as LDTILECFG reads them */
#define tiles_release()            _tile_release()
#define tile_load(tile, at, step)  _tile_loadd(tile, at, step)
#define tile_store(tile, at, step) _tile_stored(tile, at, step)
#define tile_zero(tile)            _tile_zero(tile)
/* sum += the rows of a, of four uint8 or of two bfloat16 a word, by the columns of b */
#define tile_dot_quads(sum, a, b)   _tile_dpbusd(sum, a, b)
#define tile_dot_bfloats(sum, a, b) _tile_dpbf16ps(sum, a, b)

#endif
