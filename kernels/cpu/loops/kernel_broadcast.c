// SPDX-License-Identifier: Apache-2.0
/* Plans and runs broadcasting loops; see kernel_broadcast.h. */
#include "kernel_broadcast.h"

#include "kernel_functions.h"
#include "kernel_parts.h"

/* The operand's strides for each of the output's dims. */
static bool align(KernelCall *call, const KernelTensor *out, const BroadcastOperand *operand,
                  uint64_t *strides) {
    const KernelTensor *tensor = operand->tensor;
    if (tensor->rank > out->rank || operand->trailing > out->rank - tensor->rank)
        return kernel_fail(call, "a tensor of rank %u can't broadcast to rank %u", tensor->rank,
                           out->rank);
    uint32_t first = out->rank - tensor->rank - operand->trailing;
    uint64_t stride = 1;
    for (uint32_t k = tensor->rank; k-- > 0;) {
        int64_t dim = tensor->dims[k], wanted = out->dims[first + k];
        if (dim != wanted && dim != 1)
            return kernel_fail(call, "dim %u of size %lld can't broadcast to %lld", k,
                               (long long)dim, (long long)wanted);
        strides[first + k] = dim == 1 ? 0 : stride;
        stride *= (uint64_t)dim;
    }
    return true;
}

/* True where dim `inner` continues dim `outer` in every operand. */
static bool continues(uint64_t *const *strides, uint32_t count, uint32_t outer, uint32_t inner,
                      uint64_t size) {
    for (uint32_t i = 0; i < count; i++)
        if (strides[i][outer] != strides[i][inner] * size) return false;
    return true;
}

/* Leaves dims larger than 1, neighbours merged where they can be; returns how many. Dims from
 * `first` on are used; there are two unused ones before them. */
static uint32_t collapse(uint64_t *dims, uint64_t *const *strides, uint32_t count, uint32_t rank) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < rank; k++) {
        if (dims[k] == 1) continue;
        bool merge = kept && continues(strides, count, kept - 1, k, dims[k]);
        uint32_t to = merge ? kept - 1 : kept++;
        dims[to] = merge ? dims[to] * dims[k] : dims[k];
        for (uint32_t i = 0; i < count; i++) strides[i][to] = strides[i][k];
    }
    return kept;
}

bool kernel_broadcast_plan(KernelCall *call, const BroadcastOperand *operands, uint32_t count,
                           Broadcast *plan) {
    const KernelTensor *out = operands[0].tensor;
    /* two dims more, in front, for outputs of rank 0 and 1 */
    uint64_t *dims = ARENA_ARRAY(call->scratch, uint64_t, (size_t)out->rank + 2);
    uint64_t *strides[BROADCAST_OPERANDS];
    *plan = (Broadcast){.count = count, .tiles = out->count ? 1 : 0, .workers = call->workers};
    dims[0] = dims[1] = 1;
    for (uint32_t i = 0; i < count; i++) {
        strides[i] = ARENA_ARRAY(call->scratch, uint64_t, (size_t)out->rank + 2);
        if (!align(call, out, &operands[i], strides[i] + 2)) return false;
        strides[i] += 2;
        plan->data[i] = operands[i].tensor->data;
        plan->size[i] = kernel_element_size(operands[i].tensor->dtype);
    }
    for (uint32_t k = 0; k < out->rank; k++) dims[2 + k] = (uint64_t)out->dims[k];
    uint32_t kept = out->count ? collapse(dims + 2, strides, count, out->rank) : 0;
    uint32_t front = kept < 2 ? 2 - kept : 0; /* dims of 1 to have two */
    plan->rank = kept + front;
    plan->dims = dims + 2 - front;
    for (uint32_t i = 0; i < count; i++) plan->strides[i] = strides[i] - front;
    for (uint32_t k = 0; plan->tiles && k + 2 < plan->rank; k++) plan->tiles *= plan->dims[k];
    return true;
}

/* Rows of all tiles, and their columns. */
typedef struct BroadcastPart {
    uint64_t row, row_end, column, column_end;
} BroadcastPart;

static void run_part(const Broadcast *plan, BroadcastPart part, BroadcastFunction function,
                     const void *context) {
    const uint32_t outer = plan->rank - 2;
    const uint64_t rows = plan->dims[outer];
    BroadcastTile tile = {.columns = part.column_end - part.column};
    for (uint32_t i = 0; i < plan->count; i++) {
        tile.row_step[i] = plan->strides[i][outer];
        tile.step[i] = plan->strides[i][outer + 1];
    }
    for (; part.row < part.row_end; part.row += tile.rows) {
        uint64_t place[BROADCAST_OPERANDS], rest = part.row / rows, first = part.row % rows;
        tile.rows = rows - first;
        if (tile.rows > part.row_end - part.row) tile.rows = part.row_end - part.row;
        for (uint32_t i = 0; i < plan->count; i++)
            place[i] = first * tile.row_step[i] + part.column * tile.step[i];
        for (uint32_t k = outer; k-- > 0; rest /= plan->dims[k])
            for (uint32_t i = 0; i < plan->count; i++)
                place[i] += rest % plan->dims[k] * plan->strides[i][k];
        for (uint32_t i = 0; i < plan->count; i++)
            tile.at[i] = plan->data[i] + place[i] * plan->size[i];
        function(&tile, context);
    }
}

typedef struct BroadcastJob {
    const Broadcast *plan;
    BroadcastFunction function;
    const void *context;
    uint64_t rows, columns;
    bool by_rows; /* parts are of rows, else of columns */
} BroadcastJob;

static void broadcast_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const BroadcastJob *job = data;
    (void)lane;
    const BroadcastPart part = job->by_rows ? (BroadcastPart){first, end, 0, job->columns}
                                            : (BroadcastPart){0, job->rows, first, end};
    run_part(job->plan, part, job->function, job->context);
}

void kernel_broadcast_run(const Broadcast *plan, BroadcastFunction function, const void *context) {
    const uint64_t rows = plan->tiles * plan->dims[plan->rank - 2];
    const uint64_t columns = plan->dims[plan->rank - 1];
    if (!plan->tiles) return;
    const unsigned threads = plan->workers ? workers_lanes(plan->workers) : 1;
    const unsigned parts = kernel_parts(threads, rows * columns, 1);
    const bool by_rows = rows >= parts;
    const BroadcastJob job = {plan, function, context, rows, columns, by_rows};
    const KernelCut cut = {.count = by_rows ? rows : columns,
                           .grain = by_rows ? 1 : KERNEL_PART_GRAIN,
                           .parts = parts};
    kernel_run_parts(plan->workers, cut, broadcast_part, &job);
}

bool kernel_broadcast_trailing(KernelCall *call, uint32_t *trailing) {
    *trailing = 0;
    if (call->row->layout != &op_attrs_broadcast) return true;
    const BroadcastAttrs *attrs = call->attrs;
    uint32_t rank = call->inputs[0].rank, inner = call->inputs[1].rank;
    if (attrs->axis == ATTR_ABSENT || !attrs->broadcast) return true;
    int64_t axis = attrs->axis < 0 ? attrs->axis + (int64_t)rank : attrs->axis;
    if (axis < 0 || inner > rank || axis > (int64_t)(rank - inner))
        return kernel_fail(call, "axis %lld for an operand of rank %u in one of rank %u",
                           (long long)attrs->axis, inner, rank);
    *trailing = rank - inner - (uint32_t)axis;
    return true;
}

bool kernel_broadcast_binary(KernelCall *call, const BroadcastFunction functions[DTYPE_COUNT]) {
    uint32_t trailing;
    if (!kernel_broadcast_trailing(call, &trailing)) return false;
    const KernelTensor *a = &call->inputs[0];
    if (!functions[a->dtype])
        return kernel_fail(call, "it is not defined for %s", dtype_name(a->dtype));
    BroadcastOperand operands[] = {{&call->outputs[0], 0}, {a, 0}, {&call->inputs[1], trailing}};
    Broadcast plan;
    if (!kernel_broadcast_plan(call, operands, 3, &plan)) return false;
    kernel_broadcast_run(&plan, functions[a->dtype], NULL);
    return true;
}
