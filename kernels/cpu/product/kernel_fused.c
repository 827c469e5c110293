// SPDX-License-Identifier: Apache-2.0
/* The operators of demi.fused (rewrite/base/operators/fused.def): the plain operator's kernel, then what
 * was fused into it. All is float here; the host widens 16-bit operands and rounds the result,
 * once. */
#include "conv_direct.h"
#include "epilogue.h"
#include "fused_operands.h"
#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_rows.h"
#include "matmul_batches.h"
#include "packed_product.h"

/* ---- residuals ------------------------------------------------------------------------------- */

static bool read_residual(KernelCall *call, Epilogue *epilogue) {
    const KernelTensor *z = kernel_input(call, 3);
    if (z) epilogue->residual = z->data;
    return fused_check_residual(call);
}

/* ---- Conv ------------------------------------------------------------------------------------ */

bool kernel_fused_conv(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *y = &call->outputs[0];
    Epilogue epilogue = {0};
    if (!fused_read_activation(call, &attrs->act, &epilogue) || !read_residual(call, &epilogue))
        return false;
    epilogue.residual_row = kernel_span(y, 2, y->rank);
    return conv_run(call, epilogue_is_empty(&epilogue) ? NULL : &epilogue);
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

ROW_CLONES static void scale(float *y, uint64_t count, float alpha) {
    ROW_EACH(count, y[i] = alpha * y[i])
}

/* The product, and what follows it; with alpha that comes in between. */
static bool multiply(KernelCall *call, const GemmAttrs *attrs, const Epilogue *epilogue) {
    const KernelTensor *y = &call->outputs[0];
    KernelTensor a = call->inputs[0], b = call->inputs[1];
    bool transpose_a = attrs->trans_a != 0, transpose_b = attrs->trans_b != 0;
    MatmulBatches s;
    /* rows of a transposed A do not go on from matrix to matrix, as matmul_batches may have them */
    if ((transpose_a && a.rank != 2) || (transpose_b && b.rank < 2))
        return kernel_fail(call, "cannot transpose an operand of rank %u here",
                           transpose_a ? a.rank : b.rank);
    if (transpose_a) a = matmul_transposed(call, &a);
    if (transpose_b) b = matmul_transposed(call, &b);
    if (!matmul_batches(call, &a, &b, y, &s)) return false;
    if (y->count == 0) return true;
    const Epilogue *at_once = attrs->alpha == 1 ? epilogue : NULL;
    const PackedProduct *packed = call->prepared;
    const GemmMatrices g = {
        .batches = s.batches,
        .m = s.m,
        .n = s.n,
        .k = s.k,
        .a = {a.data, s.a, transpose_a ? 1 : s.k, transpose_a ? s.m : 1, DTYPE_UNDEFINED},
        .b = {b.data, s.b, transpose_b ? 1 : s.n, transpose_b ? s.k : 1, gemm_narrow(&b)},
        .c = y->data,
        .epilogue = at_once};
    if (packed && packed->weights
            ? !packed_product_run(call, packed, a.data, s.batches * s.m, at_once)
            : !gemm_matrices(call, &g))
        return false;
    if (attrs->alpha == 1) return true;
    scale(y->data, y->count, attrs->alpha);
    const EpilogueBlock whole = {
        .y = y->data, .y_row = s.n, .rows = y->count / s.n, .columns = s.n};
    epilogue_run(call, epilogue, &whole);
    return true;
}

bool kernel_fused_matmul(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const KernelTensor *y = &call->outputs[0];
    Epilogue epilogue = {0};
    if (!fused_read_activation(call, &attrs->act, &epilogue) || !read_residual(call, &epilogue) ||
        !fused_read_bias(call, &epilogue))
        return false;
    epilogue.residual_row =
        call->inputs[1].rank > 1 && y->rank ? (uint64_t)y->dims[y->rank - 1] : 1;
    return multiply(call, attrs, &epilogue);
}
