// SPDX-License-Identifier: Apache-2.0
/* Discrete Fourier transforms of many lines of one length, computed in double.
 *
 * Lengths are taken apart into factors of 4, 2, 3, 5 and primes up to FOURIER_PRIME (Stockham's
 * algorithm, which needs no reordering). With larger primes they are Bluestein's: a convolution
 * with a chirp by transforms of a length that has none, so that no length costs more than O(n log
 * n). Real lines of even length are complex ones of half of it. Several lines are transformed side
 * by side in vectors; all bits are the same however many there are and whatever thread has them.
 */
#ifndef DEMI_FOURIER_H
#define DEMI_FOURIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOURIER_PRIME = 23, FOURIER_PASSES = 32, FOURIER_LANES = 8 };

typedef struct FourierPass {
    uint64_t radix, before, behind; /* before * radix * behind is the length */
    const double *re, *im;          /* [radix - 1][behind]: roots that results are rotated by */
    const double *cosines, *sines;  /* [radix]: of a radix without code of its own; else NULL */
} FourierPass;

/* The tables of complex transforms of n elements. */
typedef struct Fourier {
    uint64_t n;
    uint32_t pass_count;
    FourierPass passes[FOURIER_PASSES];
    struct Fourier *inner;               /* Bluestein's transform; NULL where there are passes */
    const double *chirp_re, *chirp_im;   /* [n] */
    const double *filter_re, *filter_im; /* [inner->n] */
} Fourier;

typedef enum FourierKind {
    FOURIER_COMPLEX,   /* forward */
    FOURIER_BACK,      /* and divided by n */
    FOURIER_REAL,      /* forward, of real elements: the first half of the result, and one more */
    FOURIER_REAL_BACK, /* from that, divided by n */
    FOURIER_KIND_COUNT
} FourierKind;

/* All that depends on a length and kind. */
typedef struct FourierTables {
    uint64_t n;
    FourierKind kind;
    bool halved;           /* real lines of even length */
    Fourier complex;       /* of n, or of n / 2 */
    const double *re, *im; /* [n / 2 + 1] roots where halved */
} FourierTables;

/* Bytes that the tables take; 0 where they can't be. n is at least 1. */
uint64_t fourier_bytes(uint64_t n, FourierKind kind);
/* Makes them in that memory, which is aligned to 8 bytes. */
FourierTables *fourier_make(void *memory, uint64_t n, FourierKind kind);

/* Where elements are: part p of element k of line l is at l / inner * outer_step +
 * l % inner * inner_step + k * step + p. */
typedef struct FourierSide {
    void *data;
    bool is_double; /* else float */
    uint64_t inner, outer_step, inner_step, step, parts;
    uint64_t count; /* of elements; what lies behind is zero, or not wanted */
} FourierSide;

typedef struct FourierJob {
    const FourierTables *tables;
    FourierSide from, to;
    const double *window; /* [n], which lines are multiplied with; NULL: none */
    uint64_t lines;
} FourierJob;

/* Bytes of working memory for so many lines side by side, 1 or FOURIER_LANES. */
uint64_t fourier_space(const FourierTables *tables, unsigned lanes);
/* How many lines of so many are best done side by side. */
unsigned fourier_lanes(const FourierTables *tables, uint64_t lines);

/* Transforms lines [first, end); the last may be fewer than `lanes`. `space` is aligned to 64. */
void fourier_lines(const FourierJob *job, uint64_t first, uint64_t end, unsigned lanes,
                   double *space);

#endif
