// SPDX-License-Identifier: Apache-2.0
/* What the machine can do at most, measured: the two lines of a roofline.
 *
 * Arithmetic: every thread multiplies and adds vectors of the best instruction set in registers, 12
 * independent chains of them, for about 20 ms, of which the fastest stretch of some tens of
 * microseconds counts; an addition and a multiplication are two. Each type has a peak of its own:
 * that of float where the processor has no sums of products of the type, or demi uses none, and 0,
 * unknown, where it has tiles (AMX), which are not measured. Memory: every thread reads its own part
 * of 256 MiB, which few caches hold, six times; the fastest counts. The cache: the same of as much as
 * a run touches, where a cache holds that, again and again.
 */
#ifndef DEMI_MACHINE_PEAK_H
#define DEMI_MACHINE_PEAK_H

#include <stdint.h>

#include "arena.h"

typedef enum PeakType {
    PEAK_FLOAT, /* float16's, too, which is computed in float */
    PEAK_DOUBLE,
    PEAK_BFLOAT16,
    PEAK_INT8,
    PEAK_TYPES
} PeakType;

/* "float", "double", "bfloat16", "int8". */
const char *peak_type_name(PeakType type);

typedef struct MachinePeak {
    double flops[PEAK_TYPES]; /* a second; 0: not known */
    double bytes;             /* a second, read from memory */
    double cached;            /* a second, of what a cache holds; 0: not measured */
} MachinePeak;

/* Bytes of the processor's last-level cache; 0 where it is not known. */
uint64_t machine_cache(void);

/* With so many threads. cached: bytes that a cache is to be measured with; 0: it is not. Takes about
 * two tenths of a second, and the memory in `scratch`. */
MachinePeak machine_peak(Arena *scratch, unsigned threads, uint64_t cached);

#endif
