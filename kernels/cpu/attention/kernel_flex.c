// SPDX-License-Identifier: Apache-2.0
/* FlexAttention's arithmetic; see kernel_flex.h. Key head h of sample b follows the others' in
 * order, so a query's row number over length and group is that of its keys. */
#include "kernel_flex.h"

#include <math.h>

#include "kernel_clones.h"
#include "kernel_math.h"

#include "real_float.inc"
#include "real_dot.inc"
#include "real_row.inc"
#include "kernel_flex_body.inc"
#include "real_end.inc"
#include "real_double.inc"
#include "real_dot.inc"
#include "real_row.inc"
#include "kernel_flex_body.inc"
#include "real_end.inc"

bool flex_fits(const int64_t *const dims[3]) {
    const int64_t *q = dims[0], *k = dims[1], *v = dims[2];
    return q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3] &&
           k[1] > 0 && q[1] % k[1] == 0;
}

void flex_scores(const KernelTensor *q, const KernelTensor *k, double scale, KernelTensor *scores) {
    if (scores->count == 0) return;
    if (scores->dtype == DTYPE_FLOAT)
        scores_float(q, k, scale, scores);
    else
        scores_double(q, k, scale, scores);
}

void flex_softmax(KernelTensor *scores) {
    if (scores->count == 0) return;
    if (scores->dtype == DTYPE_FLOAT)
        softmax_float(scores);
    else
        softmax_double(scores);
}

void flex_output(const KernelTensor *probs, const KernelTensor *v, KernelTensor *y) {
    if (y->count == 0) return;
    if (y->dtype == DTYPE_FLOAT)
        output_float(probs, v, y);
    else
        output_double(probs, v, y);
}
