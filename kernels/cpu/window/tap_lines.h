// SPDX-License-Identifier: Apache-2.0
/* Loops over windows (tap_loops.h) that stop where the run ends: some lines of outputs at a time. */
#ifndef DEMI_TAP_LINES_H
#define DEMI_TAP_LINES_H

#include "kernel.h"
#include "tap_loops.h"

/* Calls loop(to, taps), for a few of its outputs after the other where it is much work. False where
 * the run ended before all were made. */
static inline bool tap_lines(const KernelCall *call, unsigned lane,
                             void (*loop)(float *to, const Taps *taps), float *to,
                             const Taps *taps) {
    enum { OUTPUTS = 64 }; /* at once, or more */
    const double most = 1 << 24, each = (double)taps->rows * (double)taps->taps;
    if (each * (double)taps->count * (double)taps->lines <= most) {
        loop(to, taps);
        return true;
    }
    const uint64_t at_once = each < most / OUTPUTS ? (uint64_t)(most / each) : OUTPUTS;
    const uint64_t columns = at_once < taps->count ? at_once / OUTPUTS * OUTPUTS : taps->count;
    for (uint64_t l = 0; l < taps->lines; l++)
        for (uint64_t i = 0; i < taps->count; i += columns) {
            Taps part = *taps;
            part.from += l * taps->line + i * taps->stride;
            part.lines = 1;
            part.count = taps->count - i < columns ? taps->count - i : columns;
            loop(to + l * taps->count + i, &part);
            if (kernel_ended(call, lane)) return false;
        }
    return true;
}

#endif
