// SPDX-License-Identifier: Apache-2.0
/* What goes by indices on a CUDA device (GatherElements, GatherND, ScatterElements, ScatterND), and
 * along an axis: ArgMax, ArgMin, TopK, CumSum. Indices are read by the device, which can't refuse
 * them: see index_args.h. */
#include "cuda_functions.h"
#include "index_args.h"
#include "table_blocks.h"

enum { THREADS = 256, FEW = 64, GRID = 1 << 20 };

_Static_assert((int)SCATTER_MAX == (int)REDUCE_MAX && (int)SCATTER_NONE == (int)REDUCE_NONE,
               "they are the same numbers");

static bool launch(KernelCall *call, const char *kernel, const char *suffix, uint64_t count,
                   const void *args) {
    const CudaName name = cuda_name(kernel, suffix, "");
    const CudaLaunch launch = {.family = CUDA_index,
                               .kernel = name.text,
                               .blocks = {cuda_blocks_full(call, count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = args};
    return !count || cuda_launch(call, &launch);
}

/* ---- an index each element ------------------------------------------------------------------- */

/* `there`: what the indices look up. */
static bool elements(KernelCall *call, const KernelTensor *there, int64_t wanted,
                     ElementsArgs *args) {
    const KernelTensor *indices = &call->inputs[1];
    uint32_t axis;
    if (!kernel_axis(call, wanted, there->rank, &axis)) return false;
    if (there->rank > INDEX_RANK || indices->rank != there->rank)
        return kernel_decline(
            call, "the device does not support so many axes, or axes that differ from the data's");
    for (uint32_t i = 0; i < there->rank; i++) {
        if (i != axis && indices->dims[i] > there->dims[i])
            return kernel_fail(call, "axis %u has %lld indices of %lld elements", i,
                               (long long)indices->dims[i], (long long)there->dims[i]);
        args->sizes[i] = indices->dims[i];
        args->own[i] = (int64_t)kernel_stride(indices, i);
        args->strides[i] = (int64_t)kernel_stride(there, i);
    }
    args->indices = indices->data;
    args->count = (int64_t)indices->count;
    args->size = there->dims[axis];
    args->rank = (int32_t)there->rank;
    args->axis = (int32_t)axis;
    args->wide = indices->dtype == DTYPE_INT64;
    return true;
}

bool cuda_gather_elements(KernelCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    ElementsArgs args = {.x = x->data, .y = y->data};
    return elements(call, x, attrs->axis, &args) &&
           launch(call, "gather_elements", cuda_size_suffix(x->dtype), y->count, &args);
}

/* What all scatters begin with: the data, to be changed. */
static bool begin(KernelCall *call, int64_t reduction) {
    const KernelTensor *x = &call->inputs[0], *updates = kernel_input(call, 2);
    const uint64_t size = x->count * kernel_element_size(x->dtype);
    if (reduction < 0) return kernel_fail(call, "the reduction is unknown");
    if (!updates || updates->dtype != x->dtype)
        return kernel_fail(call, "the types of the updates and the data differ");
    cuda_between(call, updates->count * kernel_element_size(x->dtype));
    return !size || cuda_copy(call, call->outputs[0].data, x->data, size);
}

bool cuda_scatter_elements(KernelCall *call) {
    const ScatterAttrs *attrs = call->attrs;
    const KernelTensor *indices = &call->inputs[1], *updates = kernel_input(call, 2);
    const KernelTensor *y = &call->outputs[0];
    if (!begin(call, attrs->reduction)) return false;
    ElementsArgs args = {.x = updates->data, .y = y->data, .how = (int32_t)attrs->reduction};
    if (!elements(call, y, attrs->axis, &args)) return false;
    for (uint32_t i = 0; i < y->rank; i++)
        if (updates->rank != y->rank || updates->dims[i] != indices->dims[i])
            return kernel_fail(call, "the numbers of updates and indices differ");
    if (!indices->count) return true;
    args.lines = attrs->reduction != REDUCE_NONE;
    if (args.lines) args.count /= args.sizes[args.axis];
    return launch(call, "scatter_elements", cuda_suffix(y->dtype), (uint64_t)args.count, &args);
}

/* ---- an index each block --------------------------------------------------------------------- */

static bool blocks(KernelCall *call, const KernelTensor *there, uint32_t batch, BlocksArgs *args) {
    const KernelTensor *indices = &call->inputs[1];
    if (!indices->rank || batch >= indices->rank || batch > there->rank)
        return kernel_fail(call, "indices of no axes, or too many batches");
    const int64_t depth = indices->dims[indices->rank - 1];
    if (depth < 0 || depth > there->rank - batch || depth > INDEX_RANK)
        return kernel_fail(call, "indices of %lld axes for rank %u", (long long)depth, there->rank);
    for (uint32_t i = 0; i < batch; i++)
        if (there->dims[i] != indices->dims[i])
            return kernel_fail(call, "batch axis %u differs: %lld and %lld", i,
                               (long long)there->dims[i], (long long)indices->dims[i]);
    for (uint32_t i = 0; i < (uint32_t)depth; i++) {
        args->sizes[i] = there->dims[batch + i];
        args->strides[i] = (int64_t)kernel_stride(there, batch + i);
    }
    args->indices = indices->data;
    args->tuples = (int64_t)kernel_span(indices, batch, indices->rank - 1);
    args->block = (int64_t)kernel_span(there, batch + (uint32_t)depth, there->rank);
    args->batch = (int64_t)kernel_span(there, batch, there->rank);
    args->depth = (int32_t)depth;
    args->wide = indices->dtype == DTYPE_INT64;
    return true;
}

bool cuda_gather_nd(KernelCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    BlocksArgs args = {.x = x->data, .y = y->data, .count = (int64_t)y->count};
    if (attrs->batch_dims < 0 || attrs->batch_dims >= x->rank)
        return kernel_fail(call, "batch_dims is %lld", (long long)attrs->batch_dims);
    return blocks(call, x, (uint32_t)attrs->batch_dims, &args) &&
           launch(call, "gather_blocks", cuda_size_suffix(x->dtype), y->count, &args);
}

bool cuda_scatter_nd(KernelCall *call) {
    const ScatterAttrs *attrs = call->attrs;
    const KernelTensor *updates = kernel_input(call, 2), *y = &call->outputs[0];
    if (!begin(call, attrs->reduction)) return false;
    BlocksArgs args = {.x = updates->data, .y = y->data, .how = (int32_t)attrs->reduction};
    if (!blocks(call, y, 0, &args)) return false;
    uint64_t needed;
    if (__builtin_mul_overflow((uint64_t)args.tuples, (uint64_t)args.block, &needed) ||
        needed != updates->count)
        return kernel_fail(call, "the number of updates does not match the indices");
    if (!needed) return true;
    args.count = args.how == SCATTER_NONE ? (int64_t)needed : args.block;
    return launch(call, "scatter_blocks", cuda_suffix(y->dtype), (uint64_t)args.count, &args);
}

/* ---- one of a line is marked ------------------------------------------------------------------ */

/* The depth, which the host reads, is y's axis. */
bool cuda_one_hot(KernelCall *call) {
    const SelectAttrs *attrs = call->attrs;
    const KernelTensor *indices = &call->inputs[0], *values = &call->inputs[2];
    const KernelTensor *y = &call->outputs[0];
    uint32_t axis;
    if (!kernel_axis(call, attrs->axis, indices->rank + 1, &axis)) return false;
    if (values->count != 2 || values->dtype != y->dtype)
        return kernel_fail(call, "the number of values is not two, or their type differs");
    if (y->rank != indices->rank + 1) return kernel_fail(call, "the result has different dims");
    const OneHotArgs args = {.indices = indices->data,
                             .values = values->data,
                             .y = y->data,
                             .count = (int64_t)y->count,
                             .depth = y->dims[axis],
                             .inner = (int64_t)kernel_span(indices, axis, indices->rank),
                             .type = (int32_t)indices->dtype};
    return launch(call, "one_hot", cuda_size_suffix(y->dtype), y->count, &args);
}

/* com.microsoft's GatherBlockQuantized. */
bool cuda_gather_blocks(KernelCall *call) {
    const KernelTensor *indices = &call->inputs[TABLE_INDICES],
                       *zeros = kernel_input(call, TABLE_ZEROS), *y = &call->outputs[0];
    TableBlocks b;
    if (!table_blocks_find(call, &b)) return false;
    if (y->count > UINT32_MAX || 4 * call->inputs[TABLE_NUMBERS].count > UINT32_MAX ||
        b.block > UINT32_MAX)
        return kernel_decline(call, "the device does not support tables of so many numbers");
    const TableArgs args = {.numbers = call->inputs[TABLE_NUMBERS].data,
                            .zeros = zeros ? zeros->data : NULL,
                            .scales = call->inputs[TABLE_SCALES].data,
                            .indices = indices->data,
                            .y = y->data,
                            .count = (int64_t)y->count,
                            .along = (uint32_t)b.along,
                            .inner = (uint32_t)b.inner,
                            .block = (uint32_t)b.block,
                            .blocks = (uint32_t)b.blocks,
                            .axis = (uint32_t)b.axis,
                            .row = (uint32_t)b.row,
                            .picks = (uint32_t)b.picks,
                            .bits = (int32_t)b.bits,
                            .spread = !b.packed     ? 0
                                      : b.bits == 2 ? 2
                                                    : 1,
                            .is_signed = b.is_signed,
                            .wide = indices->dtype == DTYPE_INT64,
                            .middle = b.middle};
    const CudaLaunch launch = {.family = CUDA_index,
                               .kernel = "gather_table",
                               .blocks = {cuda_blocks_full(call, y->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return !y->count || cuda_launch(call, &launch);
}

/* ---- along an axis --------------------------------------------------------------------------- */

static bool find_best(KernelCall *call, BestArgs *args, int64_t wanted) {
    const KernelTensor *x = &call->inputs[0];
    uint32_t axis;
    if (!kernel_axis(call, wanted, x->rank, &axis)) return false;
    args->x = x->data;
    args->n = x->dims[axis];
    args->inner = (int64_t)kernel_span(x, axis + 1, x->rank);
    args->lines = (int64_t)kernel_span(x, 0, axis) * args->inner;
    if (!args->lines || !args->k) return true;
    if (args->k > args->n)
        return kernel_fail(call, "%lld of %lld elements", (long long)args->k, (long long)args->n);
    const CudaName name = cuda_name("best", cuda_suffix(x->dtype), "");
    const CudaLaunch launch = {.family = CUDA_index,
                               .kernel = name.text,
                               .blocks = {args->lines < GRID ? (uint32_t)args->lines : GRID},
                               .threads = {args->n <= FEW          ? 32
                                           : args->n < 4 * THREADS ? FEW
                                                                   : THREADS},
                               .args = args};
    return cuda_launch(call, &launch);
}

static bool arg(KernelCall *call, bool smallest) {
    const ArgAttrs *attrs = call->attrs;
    const KernelTensor *y = &call->outputs[0];
    BestArgs args = {.indices = y->data,
                     .k = 1,
                     .smallest = smallest,
                     .last = attrs->last != 0,
                     .nan_wins = true};
    KernelTensor one = call->inputs[0];
    if (!y->count) return true;
    if (one.rank) return find_best(call, &args, attrs->axis);
    static const int64_t dims[] = {1}; /* one element, whatever the axis: -1 and 0 are accepted */
    KernelCall flat = *call;
    one.rank = 1;
    one.dims = dims;
    flat.inputs = &one;
    return find_best(&flat, &args, 0);
}
bool cuda_arg_max(KernelCall *call) {
    return arg(call, false);
}
bool cuda_arg_min(KernelCall *call) {
    return arg(call, true);
}

bool cuda_topk(KernelCall *call) {
    const TopKAttrs *attrs = call->attrs;
    const KernelTensor *values = kernel_result(call, 0), *indices = kernel_result(call, 1);
    const KernelTensor *any = values ? values : indices;
    uint32_t axis;
    if (!any || !any->count) return true;
    if (!kernel_axis(call, attrs->axis, any->rank, &axis)) return false;
    BestArgs args = {.values = values ? values->data : NULL,
                     .indices = indices ? indices->data : NULL,
                     .k = any->dims[axis],
                     .smallest = !attrs->largest};
    return find_best(call, &args, attrs->axis);
}

bool cuda_cum_sum(KernelCall *call) {
    const CumAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *where = &call->inputs[1], *y = &call->outputs[0];
    const int64_t *items = kernel_ints(call, where);
    uint32_t axis;
    if (!items || where->count != 1) return kernel_fail(call, "its axis is not a single number");
    if (!kernel_axis(call, items[0], x->rank, &axis)) return false;
    SumsArgs args = {.x = x->data,
                     .y = y->data,
                     .n = x->dims[axis],
                     .inner = (int64_t)kernel_span(x, axis + 1, x->rank),
                     .exclusive = attrs->exclusive != 0,
                     .reverse = attrs->reverse != 0};
    args.lines = (int64_t)kernel_span(x, 0, axis) * args.inner;
    return !x->count || launch(call, "sums", cuda_suffix(x->dtype), (uint64_t)args.lines, &args);
}
