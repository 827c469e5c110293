// SPDX-License-Identifier: Apache-2.0
/* The parts of FlexAttention between its graphs, which only the host can run. All tensors of one
 * call are float, or all double; Q (B, Hq, L, E), K (B, Hk, S, E), V (B, Hk, S, D), scores (B, Hq,
 * L, S), Y (B, Hq, L, D), Hq a multiple of Hk. flex_fits checks that. */
#ifndef DEMI_KERNEL_FLEX_H
#define DEMI_KERNEL_FLEX_H

#include "kernel.h"

/* dims [3]: those of Q, K and V, each [4]. False where they do not fit together. */
bool flex_fits(const int64_t *const dims[3]);

/* scores = scale * Q K^T */
void flex_scores(const KernelTensor *q, const KernelTensor *k, double scale, KernelTensor *scores);
/* Softmax over the last axis, in place. */
void flex_softmax(KernelTensor *scores);
/* y = probs V */
void flex_output(const KernelTensor *probs, const KernelTensor *v, KernelTensor *y);

#endif
