// SPDX-License-Identifier: Apache-2.0
/* Transposed convolutions of channels-last data as convolutions: outputs that lie a stride apart see the
 * same taps, so that they are a convolution of stride 1 of its own, a phase. Along one axis or two; one
 * counts as two, the first of size 1. Of one group. */
#ifndef DEMI_CONV_PHASES_H
#define DEMI_CONV_PHASES_H

#include "igemm.h"
#include "window.h"

enum { PHASE_AXES = 2, PHASE_STRIDE_MOST = 16 /* more would be many small ones */ };

/* Outputs `first`, first + stride, … along an axis: taps t, t + step, … in descending order. */
typedef struct ConvPhase {
    WindowAxis axis;          /* as a convolution */
    int64_t first, tap, step; /* tap: the last of them; axis.taps are 1, none of them real, if: */
    bool empty;
} ConvPhase;

/* All phases one after the other, those of the last axis first. */
typedef struct ConvPhases {
    const WindowAxis
        *axes; /* [PHASE_AXES]: of the convolution whose inverse it is, as window.h has it */
    int64_t place[PHASE_AXES];
    ConvPhase at[PHASE_AXES];
} ConvPhases;

/* The axes of a window of one or two. */
void conv_phases_axes(const Window *window, WindowAxis axes[PHASE_AXES]);

/* The first phase, which has most outputs, and the next one; false after the last. */
ConvPhases conv_phases_first(const WindowAxis axes[PHASE_AXES]);
bool conv_phases_next(ConvPhases *phases);

/* The convolution that the phase at hand is; its axes are copied to `axes`. */
Window conv_phase_window(const ConvPhases *phases, WindowAxis axes[PHASE_AXES]);

/* True of a phase that sees no tap: its results are 0, or what is added. */
bool conv_phase_empty(const ConvPhases *phases);

/* Weights (channels, filters, rows, columns) of the phase at hand as [tap][channel][filter]: `pairs` of
 * channels and filters of `size` bytes, 1, 2 or 4. Zeros where it sees no tap. */
void conv_phase_pick(const ConvPhases *phases, uint64_t pairs, size_t size, const void *from,
                     void *to);

/* The same as igemm.h packs them, with the kind and data that the caller sets. */
IgemmWeights conv_phase_weights(const ConvPhases *phases, uint64_t channels, uint64_t filters);

/* What of the axes decides how weights are picked, as a number of 32 bits: strides are at most
 * PHASE_STRIDE_MOST. */
uint64_t conv_phases_variant(const WindowAxis axes[PHASE_AXES]);

/* False with the error set: there are no phases of that window, which conv_phases_axes takes otherwise. */
bool conv_phases_check(KernelCall *call, const Window *window);

/* Results of the phase at hand, (images, rows, columns, filters) of `size` bytes, to their places. */
typedef struct PhaseResults {
    uint64_t images, filters;
    bool last; /* y is channels-last, else (images, filters, spatial …) */
    size_t size;
    const void *made;
    void *y;
} PhaseResults;
void conv_phase_spread(KernelCall *call, const ConvPhases *phases, const PhaseResults *results);

#endif
