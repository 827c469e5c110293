// SPDX-License-Identifier: Apache-2.0
/* Runs functions over whole tensors; see kernel_rows.h. */
#include "kernel_rows.h"

#include "half_pieces.h"
#include "kernel_parts.h"

enum { UNARY_WEIGHT = 2 }; /* between a negation and an error function */

typedef struct UnaryJob {
    UnaryFunction function;
    const UnaryNumbers *numbers;
    char *to;
    const char *from;
    size_t to_size, from_size;
    Dtype to_dtype, from_dtype;
} UnaryJob;

static void unary_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const UnaryJob *job = data;
    (void)lane;
    job->function(job->to + first * job->to_size, job->from + first * job->from_size, end - first,
                  job->numbers);
}

/* A function of floats where 16-bit floats are read, given, or both: piece by piece. */
static void unary_half_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const UnaryJob *job = data;
    const bool widen = half_is(job->from_dtype), narrow = half_is(job->to_dtype);
    float from[HALF_PIECE], to[HALF_PIECE];
    (void)lane;
    for (uint64_t n; first < end; first += n) {
        const char *in = job->from + first * job->from_size;
        char *out = job->to + first * job->to_size;
        n = end - first < HALF_PIECE ? end - first : HALF_PIECE;
        if (widen) half_widen(from, job->from_dtype, (HalfRows){(void *)in, 1, n, 0});
        job->function(narrow ? (void *)to : out, widen ? (const void *)from : in, n, job->numbers);
        if (narrow) half_narrow((HalfRows){out, 1, n, 0}, job->to_dtype, to);
    }
}

bool kernel_unary(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                  const UnaryNumbers *numbers) {
    return kernel_unary_quick(call, functions, numbers, NULL);
}

bool kernel_unary_quick(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                        const UnaryNumbers *numbers, UnaryFunction quick) {
    static const UnaryNumbers none = {0, 0};
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    const bool widens = half_is(in->dtype) && !functions[in->dtype];
    const Dtype dtype = widens ? DTYPE_FLOAT : in->dtype; /* the function's */
    const bool halves = widens || (dtype == DTYPE_FLOAT && half_is(out->dtype));
    if (!functions[dtype])
        return kernel_fail(call, "it is not defined for %s", dtype_name(in->dtype));
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    const bool is_quick = quick && dtype == DTYPE_FLOAT && !call->faithful;
    const UnaryJob job = {.function = is_quick ? quick : functions[dtype],
                          .numbers = numbers ? numbers : &none,
                          .to = out->data,
                          .from = in->data,
                          .to_size = kernel_element_size(out->dtype),
                          .from_size = kernel_element_size(in->dtype),
                          .to_dtype = out->dtype,
                          .from_dtype = in->dtype};
    const unsigned parts = kernel_parts(kernel_threads(call), out->count, UNARY_WEIGHT);
    kernel_run_parts(call->workers,
                     kernel_element_cut(out->count, KERNEL_PART_GRAIN, parts, out->count),
                     halves ? unary_half_part : unary_part, &job);
    return true;
}
