// SPDX-License-Identifier: Apache-2.0
/* TILE_UNROLL: the next loop, of at most 8 rounds, is unrolled; each compiler wants it said in its
 * own way. Without it a tile of C would not stay in registers. */
#ifndef DEMI_GEMM_UNROLL_H
#define DEMI_GEMM_UNROLL_H

#if defined(__clang__)
#define TILE_UNROLL _Pragma("unroll")
#else
#define TILE_UNROLL _Pragma("GCC unroll 8")
#endif

#endif
