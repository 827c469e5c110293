// SPDX-License-Identifier: Apache-2.0
/* Operands and attributes that fused products share; see fused_operands.h. */
#include "fused_operands.h"

#include "half.h"

bool fused_read_activation(KernelCall *call, const ActivationChoice *choice, Epilogue *epilogue) {
    if (choice->activation < 0) return kernel_fail(call, "activation has an unknown name");
    epilogue->activation = (Activation)choice->activation;
    epilogue->quick = !call->faithful;
    return epilogue_params(epilogue, choice->params.items, choice->params.count) ||
           kernel_fail(call, "activation_params has %u numbers", choice->params.count);
}

/* Operand 3, which is added to y. */
bool fused_check_residual(KernelCall *call) {
    const KernelTensor *z = kernel_input(call, 3), *y = &call->outputs[0];
    if (!z) return true;
    bool same = z->rank == y->rank;
    for (uint32_t i = 0; same && i < z->rank; i++) same = z->dims[i] == y->dims[i];
    return same || kernel_fail(call, "the shapes of Z and Y differ");
}

const float *fused_floats(KernelCall *call, const KernelTensor *operand) {
    if (!operand || operand->dtype == DTYPE_FLOAT) return operand ? operand->data : NULL;
    float *wide = ARENA_ARRAY(call->scratch, float, operand->count + 1);
    bfloat_convert_to_float(wide, operand->data, operand->count);
    return wide;
}

bool fused_read_bias(KernelCall *call, Epilogue *epilogue) {
    const KernelTensor *bias = kernel_input(call, 2), *y = &call->outputs[0];
    if (!bias) return true;
    uint64_t columns = y->rank ? (uint64_t)y->dims[y->rank - 1] : 1;
    uint64_t last = bias->rank ? (uint64_t)bias->dims[bias->rank - 1] : 1;
    if (bias->count != last || (last != 1 && last != columns) || call->inputs[1].rank < 2)
        return kernel_fail(call, "Bias has %llu elements for %llu columns",
                           (unsigned long long)bias->count, (unsigned long long)columns);
    epilogue->bias = fused_floats(call, bias);
    if (last == columns) return true;
    float *each = ARENA_ARRAY(call->scratch, float, columns + 1);
    for (uint64_t i = 0; i < columns; i++) each[i] = epilogue->bias[0];
    epilogue->bias = each;
    return true;
}
