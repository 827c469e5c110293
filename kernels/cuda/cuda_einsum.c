// SPDX-License-Identifier: Apache-2.0
/* Einsum on a CUDA device: products of matrices in batches (cuda_product.h), of operands that a reduction
 * brings into order where they are not (einsum_terms.h). What is between two products is float. */
#include "cuda_functions.h"
#include "cuda_product.h"
#include "cuda_reduce.h"
#include "einsum_terms.h"

/* The way through all operands: once to get products ready, and once in every run. */
typedef struct Walk {
    KernelCall *call;
    Einsum e;
    CudaInner *products; /* [inputs - 1] */
    bool runs;
} Walk;

/* The operand's elements by the labels `order`, summed over `sums`, of type `to`, at y. */
static bool sum_up(Walk *w, const EinsumOperand *operand, const EinsumLabels *order,
                   const EinsumLabels *sums, const KernelTensor *y) {
    ReduceArgs args = {.x = operand->data,
                       .y = y->data,
                       .results = (int64_t)order->size,
                       .reduced = (int64_t)sums->size,
                       .op = REDUCTION_SUM,
                       .x_type = (int32_t)operand->dtype,
                       .y_type = (int32_t)y->dtype};
    bool fits = true;
    for (uint32_t i = 0; i < order->count; i++)
        fits &= cuda_reduce_push(args.kept_sizes, args.kept_strides, &args.kept_rank,
                                 (int64_t)w->e.dims[order->items[i]],
                                 (int64_t)operand->strides[order->items[i]]);
    for (uint32_t i = 0; i < sums->count; i++)
        fits &= cuda_reduce_push(args.sizes, args.strides, &args.rank,
                                 (int64_t)w->e.dims[sums->items[i]],
                                 (int64_t)operand->strides[sums->items[i]]);
    if (!fits)
        return kernel_decline(w->call, "the device does not support this arrangement of axes");
    return !order->size || !w->runs || cuda_reduce_launch(w->call, &args);
}

/* The same in memory of the call's, or where it is: what becomes a factor. */
static bool arrange(Walk *w, const EinsumOperand *operand, const EinsumLabels *order,
                    const EinsumLabels *sums, EinsumOperand *made) {
    *made = *operand;
    if (einsum_in_order(&w->e, operand, order, sums)) return true;
    made->dtype = sums->size == 1 ? operand->dtype : DTYPE_FLOAT;
    const uint64_t bytes = order->size * kernel_element_size(made->dtype);
    KernelTensor y = {.dtype = made->dtype};
    if (w->runs) {
        y.data = kernel_workspace(w->call, bytes);
        if (!y.data) return false;
        cuda_between(w->call, bytes);
    }
    made->data = y.data;
    return sum_up(w, operand, order, sums, &y);
}

/* Whether the product of the last operand is the result as it is. */
static bool is_end(Walk *w, uint32_t number, const EinsumStep *step, bool *end) {
    const EinsumOperand made = einsum_operand(&w->e, NULL, DTYPE_FLOAT, &step->result);
    EinsumLabels order, sums;
    *end = false;
    if (number + 1 < w->call->input_count) return true;
    if (!einsum_end(&w->e, &made, &order, &sums)) return false;
    *end = einsum_in_order(&w->e, &made, &order, &sums);
    return true;
}

/* a = a times the operand of that number. */
static bool contract(Walk *w, EinsumOperand *a, uint32_t number) {
    const KernelTensor *out = &w->call->outputs[0];
    CudaInner *product = &w->products[number - 1];
    EinsumStep step;
    EinsumOperand left, right;
    bool end;
    if (!einsum_step(&w->e, a, number, &step) || !is_end(w, number, &step, &end) ||
        !arrange(w, a, &step.left, &step.only_a, &left) ||
        !arrange(w, &w->e.operands[number], &step.right, &step.only_b, &right))
        return false;
    const Dtype dtype = end ? out->dtype : DTYPE_FLOAT;
    const uint64_t bytes = step.result.size * kernel_element_size(dtype);
    void *y = NULL;
    if (!w->runs) {
        const CudaInnerShape shape = {.types = {left.dtype, right.dtype, dtype},
                                      .batches = step.batch.size,
                                      .m = step.rows.size,
                                      .n = step.columns.size,
                                      .k = step.inner.size};
        cuda_inner_init(product, &shape);
        if (cuda_inner_ready(w->call, product) != KERNEL_READY) return false;
    } else if (step.result.size) {
        y = end ? out->data : kernel_workspace(w->call, bytes);
        if (!y || !cuda_inner_run(w->call, product, left.data, right.data, y)) return false;
        if (!end) cuda_between(w->call, bytes);
    }
    *a = einsum_operand(&w->e, y, dtype, &step.result);
    return true;
}

static bool walk(KernelCall *call, CudaInner *products, bool runs) {
    Walk w = {.call = call, .products = products, .runs = runs};
    const KernelTensor *out = &call->outputs[0];
    EinsumLabels order, sums;
    if (!einsum_read(call, &w.e)) return false;
    EinsumOperand result = w.e.operands[0];
    for (uint32_t i = 1; i < call->input_count; i++)
        if (!contract(&w, &result, i)) return false;
    if (!einsum_end(&w.e, &result, &order, &sums)) return false;
    return !out->count || (runs && result.data == out->data) ||
           sum_up(&w, &result, &order, &sums, out);
}

static KernelReady make_einsum(KernelCall *call) {
    const uint64_t count = call->input_count - 1;
    CudaInner *products = kernel_keep(call, (count + 1) * sizeof *products);
    if (!products) return KERNEL_FAILED;
    call->prepared = products;
    return walk(call, products, false) ? KERNEL_READY : KERNEL_FAILED;
}

/* The one behind the last is empty. */
static void release(void *prepared) {
    for (CudaInner *product = prepared; product->y.present; product++) cuda_inner_release(product);
}
const KernelPrepare cuda_prepare_einsum = {make_einsum, release, 0};

bool cuda_einsum(KernelCall *call) {
    return walk(call, call->prepared, true);
}
