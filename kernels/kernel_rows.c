// SPDX-License-Identifier: Apache-2.0
/* Runs functions over whole tensors; see kernel_rows.h. */
#include "kernel_rows.h"

#include "kernel_parts.h"

enum { UNARY_WEIGHT = 2 }; /* between a negation and an error function */

bool kernel_unary(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT], Dtype result,
                  const UnaryNumbers *numbers) {
    static const UnaryNumbers none = {0, 0};
    const KernelTensor *in = kernel_input(call, 0), *out = kernel_result(call, 0);
    if (!in || !out) return kernel_fail(call, "an operand is missing");
    if (!functions[in->dtype] || out->dtype != (result == DTYPE_UNDEFINED ? in->dtype : result))
        return kernel_fail(call, "it is not defined from %s to %s", dtype_name(in->dtype),
                           dtype_name(out->dtype));
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    const UnaryFunction function = functions[in->dtype];
    const size_t from = kernel_element_size(in->dtype), to = kernel_element_size(out->dtype);
    const unsigned parts = kernel_parts(call->threads, out->count, UNARY_WEIGHT);
    if (parts == 1) { /* a region of one thread costs a team all the same */
        if (out->count) function(out->data, in->data, out->count, numbers ? numbers : &none);
        return true;
    }
#pragma omp parallel for num_threads(parts)
    for (unsigned part = 0; part < parts; part++) {
        uint64_t first = kernel_part_begin(out->count, KERNEL_PART_GRAIN, part, parts);
        uint64_t end = kernel_part_begin(out->count, KERNEL_PART_GRAIN, part + 1, parts);
        if (end > first)
            function((char *)out->data + first * to, (const char *)in->data + first * from,
                     end - first, numbers ? numbers : &none);
    }
    return true;
}
