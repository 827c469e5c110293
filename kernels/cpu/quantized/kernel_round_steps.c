// SPDX-License-Identifier: Apache-2.0
/* demi.fused's RoundSteps: what QuantizeLinear and DequantizeLinear of one scale make of floats, in one
 * step and without the integers between. */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "round_steps.h"

enum { X, STEP, LOW, HIGH, OPERANDS, MOST_STEPS = 1 << 17, ROUND_WEIGHT = 2 };

typedef struct RoundJob {
    const float *x;
    float *y;
    RoundSteps by;
} RoundJob;

static void round_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const RoundJob *job = data;
    (void)lane;
    round_steps(job->y + first, job->x + first, end - first, job->by);
}

bool kernel_round_steps(KernelCall *call) {
    float numbers[OPERANDS];
    for (uint32_t i = STEP; i < OPERANDS; i++) {
        if (call->inputs[i].count != 1)
            return kernel_fail(call, "steps and bounds must be one number each");
        numbers[i] = *(const float *)call->inputs[i].data;
    }
    if (!(isnormal(numbers[STEP]) && fabsf(numbers[LOW]) <= MOST_STEPS &&
          fabsf(numbers[HIGH]) <= MOST_STEPS))
        return kernel_fail(call, "a step of %g from %g to %g of them", (double)numbers[STEP],
                           (double)numbers[LOW], (double)numbers[HIGH]);
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *x = &call->inputs[X];
    const RoundJob job = {
        x->data, call->outputs[0].data, {numbers[STEP], numbers[LOW], numbers[HIGH]}};
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, ROUND_WEIGHT);
    kernel_run_parts(call->workers,
                     kernel_element_cut(x->count, KERNEL_PART_GRAIN, parts, x->count), round_part,
                     &job);
    return true;
}
