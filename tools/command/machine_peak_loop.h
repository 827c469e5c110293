// SPDX-License-Identifier: Apache-2.0
/* The loops that machine_peak.c times, which each instruction set has its own of. */
#ifndef DEMI_MACHINE_PEAK_LOOP_H
#define DEMI_MACHINE_PEAK_LOOP_H

/* PEAK_CHAINS x PEAK_ROUNDS multiplications and additions of vectors. Something that they made goes to `sink`, of
 * 16 floats, so that compilers keep them; returns how many operations of numbers they were. */
enum { PEAK_CHAINS = 12, PEAK_ROUNDS = 20000 };
typedef double PeakBurn(float *sink);

typedef struct PeakLoop {
    PeakBurn *burn;
} PeakLoop;

#endif
