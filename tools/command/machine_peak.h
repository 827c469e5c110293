// SPDX-License-Identifier: Apache-2.0
/* What the machine can do at most, measured: the two lines of a roofline.
 *
 * Arithmetic: every thread multiplies and adds float vectors of the best instruction set in
 * registers, 12 independent chains of them, for about 20 ms, of which the fastest stretch of some
 * tens of microseconds counts; an addition and a multiplication are two. Memory: every thread reads
 * its own part of 256 MiB, which few caches hold, six times; the fastest counts.
 */
#ifndef DEMI_MACHINE_PEAK_H
#define DEMI_MACHINE_PEAK_H

#include "arena.h"

typedef struct MachinePeak {
    double flops; /* a second */
    double bytes; /* a second, read from memory */
} MachinePeak;

/* With so many threads. Takes about a tenth of a second, and the memory in `scratch`. */
MachinePeak machine_peak(Arena *scratch, unsigned threads);

#endif
