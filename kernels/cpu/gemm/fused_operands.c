// SPDX-License-Identifier: Apache-2.0
/* Operands and attributes that fused products share; see fused_operands.h. */
#include "fused_operands.h"

bool fused_read_activation(KernelCall *call, const ActivationChoice *choice, Epilogue *epilogue) {
    if (choice->activation < 0) return kernel_fail(call, "activation names none");
    epilogue->activation = (Activation)choice->activation;
    return epilogue_params(epilogue, choice->params.items, choice->params.count) ||
           kernel_fail(call, "activation_params has %u numbers", choice->params.count);
}

/* Operand 3, which is added to y. */
bool fused_check_residual(KernelCall *call) {
    const KernelTensor *z = kernel_input(call, 3), *y = &call->outputs[0];
    if (!z) return true;
    bool same = z->rank == y->rank;
    for (uint32_t i = 0; same && i < z->rank; i++) same = z->dims[i] == y->dims[i];
    return same || kernel_fail(call, "Z has another shape than Y");
}
