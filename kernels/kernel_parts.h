// SPDX-License-Identifier: Apache-2.0
/* Cutting elementwise work into parts of neighbouring elements, one a thread: always the same ones,
 * so that what one step leaves in a core's cache the next one finds there. */
#ifndef DEMI_KERNEL_PARTS_H
#define DEMI_KERNEL_PARTS_H

#include "kernel.h"

/* Elements that are worth a thread: some microseconds' work, as starting one costs a few. */
enum { KERNEL_PART_LEAST = 16384, KERNEL_PART_GRAIN = 16 };

/* Parts to cut work on so many elements into, at least 1; `weight` times the work that adding two
 * numbers is. */
static inline unsigned kernel_parts(unsigned threads, uint64_t elements, unsigned weight) {
    uint64_t most = elements / KERNEL_PART_LEAST * weight;
    if (threads > most) threads = (unsigned)most;
    return threads ? threads : 1;
}

/* Where part `part` of `parts` begins, of `count` items in groups of `grain`; that of part `parts`
 * is the end. */
static inline uint64_t kernel_part_begin(uint64_t count, uint64_t grain, unsigned part,
                                         unsigned parts) {
    uint64_t groups = count / grain + (count % grain != 0);
    uint64_t begin = groups / parts * part + groups % parts * part / parts;
    return begin * grain < count ? begin * grain : count;
}

#endif
