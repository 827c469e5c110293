// SPDX-License-Identifier: Apache-2.0
/* Cast, CastLike and BitCast: the output's dtype says to what. Numbers by kernel_convert.h, text by
 * kernel_cast_text.h. */
#include "kernel_cast_text.h"
#include "kernel_convert.h"
#include "kernel_functions.h"

#include <string.h>

bool kernel_cast(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    const CastAttrs *attrs = call->attrs;
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    if (attrs->round < 0) return kernel_fail(call, "round_mode is none of up, down and nearest");
    if (in->dtype == DTYPE_STRING && out->dtype == DTYPE_STRING) {
        if (in->count) memcpy(out->data, in->data, in->count * sizeof(KernelString));
        return true;
    }
    if (in->dtype == DTYPE_STRING) return kernel_cast_from_text(call, in, out);
    if (out->dtype == DTYPE_STRING) return kernel_cast_to_text(call, in, out);
    ConvertRules rules = {!attrs->saturate, (ConvertRound)attrs->round};
    return kernel_convert(out->dtype, out->data, in->dtype, in->data, in->count, &rules) ||
           kernel_fail(call, "%s can't become %s", dtype_name(in->dtype), dtype_name(out->dtype));
}

bool kernel_bit_cast(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    unsigned bits = dtype_bits(in->dtype);
    if (bits == 0 || bits != dtype_bits(out->dtype) || in->count != out->count)
        return kernel_fail(call, "%s can't become %s", dtype_name(in->dtype),
                           dtype_name(out->dtype));
    if (in->count) memcpy(out->data, in->data, in->count * kernel_element_size(in->dtype));
    return true;
}
