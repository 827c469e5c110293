// SPDX-License-Identifier: Apache-2.0
/* Runs functions over whole tensors; see kernel_rows.h. */
#include "kernel_rows.h"

#include "kernel_parts.h"

enum { UNARY_WEIGHT = 2 }; /* between a negation and an error function */

typedef struct UnaryJob {
    UnaryFunction function;
    const UnaryNumbers *numbers;
    char *to;
    const char *from;
    size_t to_size, from_size;
} UnaryJob;

static void unary_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const UnaryJob *job = data;
    (void)lane;
    job->function(job->to + first * job->to_size, job->from + first * job->from_size, end - first,
                  job->numbers);
}

bool kernel_unary(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                  const UnaryNumbers *numbers) {
    return kernel_unary_quick(call, functions, numbers, NULL);
}

bool kernel_unary_quick(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                        const UnaryNumbers *numbers, UnaryFunction quick) {
    static const UnaryNumbers none = {0, 0};
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (!functions[in->dtype])
        return kernel_fail(call, "it is not defined for %s", dtype_name(in->dtype));
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    const bool is_quick = quick && in->dtype == DTYPE_FLOAT && !call->faithful;
    const UnaryJob job = {.function = is_quick ? quick : functions[in->dtype],
                          .numbers = numbers ? numbers : &none,
                          .to = out->data,
                          .from = in->data,
                          .to_size = kernel_element_size(out->dtype),
                          .from_size = kernel_element_size(in->dtype)};
    const unsigned parts = kernel_parts(kernel_threads(call), out->count, UNARY_WEIGHT);
    kernel_run_parts(call->workers, (KernelCut){out->count, KERNEL_PART_GRAIN, parts}, unary_part,
                     &job);
    return true;
}
