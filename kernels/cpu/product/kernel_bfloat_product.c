// SPDX-License-Identifier: Apache-2.0
/* MatMul and the fused MatMul of bfloat16 by a constant matrix, where the processor multiplies it:
 * sums are float, and so may the result be. All else is the rows' behind these. */
#include "fused_operands.h"
#include "kernel_functions.h"
#include "matmul_batches.h"
#include "packed_product.h"

static KernelReady make_matmul(KernelCall *call) {
    return packed_product_make_bfloats(call, false) ? KERNEL_READY : KERNEL_DECLINED;
}

static KernelReady make_fused_matmul(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const bool takes = !attrs->trans_a && attrs->alpha == 1 && call->inputs[0].rank > 1;
    return takes && packed_product_make_bfloats(call, attrs->trans_b != 0) ? KERNEL_READY
                                                                           : KERNEL_DECLINED;
}

const KernelPrepare kernel_prepare_bfloat_matmul = {make_matmul, NULL, PACKED_PRODUCT_CHOICES};
const KernelPrepare kernel_prepare_bfloat_fused_matmul = {make_fused_matmul, NULL,
                                                          PACKED_PRODUCT_CHOICES};

static bool multiply(KernelCall *call, bool transposed, const Epilogue *epilogue) {
    const KernelTensor *a = &call->inputs[0], *y = &call->outputs[0];
    const KernelTensor b = transposed ? matmul_transposed(call, &call->inputs[1]) : call->inputs[1];
    MatmulBatches s;
    return matmul_batches(call, a, &b, y, &s) &&
           packed_product_run(call, call->prepared, a->data, s.batches * s.m, epilogue);
}

bool kernel_bfloat_matmul(KernelCall *call) {
    return multiply(call, false, NULL);
}

bool kernel_bfloat_fused_matmul(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const KernelTensor *y = &call->outputs[0], *z = kernel_input(call, 3);
    Epilogue epilogue = {0};
    if (!fused_read_activation(call, &attrs->act, &epilogue) || !fused_check_residual(call) ||
        !fused_read_bias(call, &epilogue))
        return false;
    if (z && z->dtype == DTYPE_FLOAT) epilogue.residual = z->data;
    epilogue.residual_row = y->rank ? (uint64_t)y->dims[y->rank - 1] : 1;
    return multiply(call, attrs->trans_b != 0, &epilogue);
}
