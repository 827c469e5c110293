// SPDX-License-Identifier: Apache-2.0
/* Loops over vectors, written once for all instruction sets.
 *
 * A body is a file *_simd.inc. The build compiles it once for each row of isas.def, behind that row's header,
 * which defines
 *
 *     SIMD_LANES, SIMD_REGISTERS        elements of 32 bits in a vector; how many vectors registers hold
 *     Floats, Words, Lanes              vectors of float and of int32_t (or of what 32 bits are), and a choice
 *                                       of lanes
 *     floats_*, words_*, lanes_*        what is done with them: simd_portable.h, which is plain C, says what
 *                                       each of them is
 *
 * and of which a body asks by SIMD_GIVES & SIMD_FLOATS and the like whether this row has loops of its own for
 * that. What a body has for others to see is a pointer of every row, NULL where there is nothing:
 *
 *     SIMD_OFFER(gemm_loops) = &table;
 *
 * among which isa_pick() chooses (simd_offers.inc). */
#ifndef DEMI_SIMD_H
#define DEMI_SIMD_H

#include <stdint.h>

/* Kinds of loops. */
#define SIMD_FLOATS  1  /* over float */
#define SIMD_PAIRS   2  /* sums of products of pairs of int16: words_dot_pairs */
#define SIMD_QUADS   4  /* sums of products of four bytes: words_dot_quads */
#define SIMD_BFLOATS 8  /* sums of products of pairs of bfloat16: floats_dot_bfloats */
#define SIMD_HALVES  16 /* conversions from and to 16 bits: halves_of_16, bfloats_of_16, and so on */
#define SIMD_TILES   32 /* AMX's tiles, which share no loops with vectors */

/* SIMD_NAME(x) is the wrapper's: x with the row's name behind it. */
#define SIMD_OFFER(x)                                                                              \
    extern const void *const SIMD_NAME(x);                                                         \
    const void *const SIMD_NAME(x)

#define SIMD_INLINE static inline __attribute__((always_inline, unused))

/* The next loop, of at most 16 rounds, is unrolled; each compiler wants it said in its own way.
 * Without it a tile of sums would not stay in registers. Under a sanitizer nothing stays there, and
 * what is unrolled takes minutes to compile. */
#if defined(DEMI_SANITIZED)
#define SIMD_UNROLL
#elif defined(__clang__)
#define SIMD_UNROLL _Pragma("unroll")
#else
#define SIMD_UNROLL _Pragma("GCC unroll 16")
#endif

/* For who reads memory once, front to back, and is at `at`: fetches a line that is soon wanted to the
 * first-level cache, and one further on to the second. By the latter the next page is known before it is
 * read; on a machine with 4 KiB pages a product of one row read its weights by it 1.1 times (float) and
 * 1.2 times (bfloat16) as fast as by the former alone. */
SIMD_INLINE void simd_fetch_stream(const void *at) {
    enum { NEAR = 2048, FAR = 6144 }; /* bytes */
    __builtin_prefetch((const char *)at + FAR, 0, 2);
    __builtin_prefetch((const char *)at + NEAR, 0, 3);
}

#endif
