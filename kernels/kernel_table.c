// SPDX-License-Identifier: Apache-2.0
/* The table of kernels: the KERNEL rows of operators/. */
#include <stdio.h>

#include "kernel_functions.h"
#include "kernel_rows_find.h"

#define KERNEL(since, function, layout, types, flags)                                              \
    ROW(since, kernel_##function, &op_attrs_##layout, types, flags, #function, NULL, 0)
#define KERNEL_PREPARED(since, function, layout, types, flags, prepare)                            \
    ROW(since, kernel_##function, &op_attrs_##layout, types, flags, #function,                     \
        &kernel_prepare_##prepare, 0)
#define OP_TABLE_TYPE KernelRow
#define OP_TABLE      kernels
#include "op_table.inc"

const KernelRow *kernel_find(const char *domain, const char *op, int64_t opset, size_t *count) {
    return kernel_rows_find(kernels, kernels_of[op_id(domain, op)], opset, count);
}

const KernelRow *kernel_rows(OpId op, size_t *count) {
    *count = kernels_of[op].count;
    return &kernels[kernels_of[op].first];
}

/* FNV-1a over what rows mean to a plan: which operators there are, from which version, and how many
 * choices each row has. */
uint64_t kernel_table_version(void) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int op = OP_NONE + 1; op < OP_ID_COUNT; op++) {
        size_t count;
        const KernelRow *rows = kernel_rows((OpId)op, &count);
        for (size_t i = 0; i < count; i++) {
            char text[160];
            int length =
                snprintf(text, sizeof text, "%s.%s.%d.%u;", op_domain((OpId)op), op_name((OpId)op),
                         (int)rows[i].since, rows[i].prepare ? rows[i].prepare->choices : 0);
            for (int k = 0; k < length; k++)
                hash = (hash ^ (unsigned char)text[k]) * UINT64_C(1099511628211);
        }
    }
    return hash;
}

/* The row behind, if it is of the same operator and since. */
static const KernelRow *row_behind(const KernelRow *row) {
    const size_t at = (size_t)(row - kernels);
    int op = OP_NONE;
    while (at - kernels_of[op].first >= kernels_of[op].count) op++;
    const bool last = at + 1 == (size_t)kernels_of[op].first + kernels_of[op].count;
    return !last && row[1].since == row->since ? row + 1 : NULL;
}

bool kernel_row_takes(const KernelRow *row, const KernelCall *call) {
    if (row->flags & KERNEL_BYTES) return true;
    for (uint32_t i = 0; i < call->input_count; i++)
        if (call->inputs[i].present && !(row->types >> call->inputs[i].dtype & 1) &&
            !(i < 32 && row->host >> i & 1))
            return false;
    for (uint32_t i = 1; row->flags & KERNEL_FIRST && i < call->output_count; i++)
        if (call->outputs[i].present) return false;
    for (uint32_t i = 0; i < call->output_count; i++)
        if (call->outputs[i].present && !(row->types >> call->outputs[i].dtype & 1)) return false;
    return true;
}

bool kernel_run_once(KernelCall *call, const char *types) {
    if (!kernel_check(call, types, false)) return false;
    for (const KernelRow *row = call->row, *next; row; row = next) {
        next = row_behind(row);
        if (!kernel_row_takes(row, call)) continue;
        const KernelPrepare *prepare = row->prepare;
        call->row = row;
        KernelReady ready = prepare ? prepare->make(call) : KERNEL_READY;
        bool ok = ready == KERNEL_READY && row->run(call);
        if (prepare && prepare->release && call->prepared) prepare->release(call->prepared);
        call->prepared = NULL;
        if (ready != KERNEL_DECLINED) return ok;
        if (call->choice) next = row; /* by its rule */
        call->choice = 0;
    }
    return kernel_fail(call, "none of its kernels supports these operands");
}
