// SPDX-License-Identifier: Apache-2.0
/* Cast, CastLike and BitCast: the output's dtype says to what. Numbers by kernel_convert.h, text by
 * kernel_cast_text.h. */
#include "kernel_cast_text.h"
#include "kernel_convert.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

#include <string.h>

typedef struct CastJob {
    const KernelTensor *in, *out;
    ConvertRules rules;
} CastJob;

static void cast_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const CastJob *job = data;
    const KernelTensor *in = job->in, *out = job->out;
    (void)lane;
    kernel_convert(out->dtype, (char *)out->data + first * kernel_element_size(out->dtype),
                   in->dtype, (const char *)in->data + first * kernel_element_size(in->dtype),
                   end - first, &job->rules);
}

bool kernel_cast(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    const CastAttrs *attrs = call->attrs;
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    if (attrs->round < 0) return kernel_fail(call, "round_mode is not up, down, or nearest");
    if (in->dtype == DTYPE_STRING && out->dtype == DTYPE_STRING) {
        if (in->count) memcpy(out->data, in->data, in->count * sizeof(KernelString));
        return true;
    }
    if (in->dtype == DTYPE_STRING) return kernel_cast_from_text(call, in, out);
    if (out->dtype == DTYPE_STRING) return kernel_cast_to_text(call, in, out);
    const CastJob job = {in, out, {!attrs->saturate, (ConvertRound)attrs->round}};
    if (!kernel_convert(out->dtype, out->data, in->dtype, in->data, 0, &job.rules))
        return kernel_fail(call, "cannot convert %s to %s", dtype_name(in->dtype),
                           dtype_name(out->dtype));
    const unsigned parts = kernel_parts(kernel_threads(call), in->count, 1);
    kernel_run_parts(call->workers,
                     kernel_element_cut(in->count, KERNEL_PART_GRAIN, parts, in->count), cast_part,
                     &job);
    return true;
}

bool kernel_bit_cast(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    unsigned bits = dtype_bits(in->dtype);
    if (bits == 0 || bits != dtype_bits(out->dtype) || in->count != out->count)
        return kernel_fail(call, "cannot convert %s to %s", dtype_name(in->dtype),
                           dtype_name(out->dtype));
    if (in->count) memcpy(out->data, in->data, in->count * kernel_element_size(in->dtype));
    return true;
}
