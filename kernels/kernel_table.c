// SPDX-License-Identifier: Apache-2.0
/* The table of kernels, made of kernels.def. */
#include <stdio.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_rows_find.h"

static const KernelRow rows[] = {
#define KERNEL(domain, op, since, function, layout, types, flags)                                  \
    {domain, op, since, kernel_##function, &op_attrs_##layout, types, flags, #function, NULL, 0},
#define KERNEL_PREPARED(domain, op, since, function, layout, types, flags, prepare)                \
    {domain, op,    since,     kernel_##function,         &op_attrs_##layout,                      \
     types,  flags, #function, &kernel_prepare_##prepare, 0},
#include "kernels.def"
#undef KERNEL
#undef KERNEL_PREPARED
};

enum { ROW_COUNT = sizeof rows / sizeof *rows };

const KernelRow *kernel_find(const char *domain, const char *op, int64_t opset, size_t *count) {
    return kernel_rows_find(rows, ROW_COUNT, domain, op, opset, count);
}

size_t kernel_row_count(void) {
    return ROW_COUNT;
}
const KernelRow *kernel_row(size_t index) {
    return index < ROW_COUNT ? &rows[index] : NULL;
}

/* FNV-1a over what rows mean to a plan: which operators there are, from which version, and how many
 * choices each row has. */
uint64_t kernel_table_version(void) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char text[160];
        int length = snprintf(text, sizeof text, "%s.%s.%d.%u;", rows[i].domain, rows[i].op,
                              (int)rows[i].since, rows[i].prepare ? rows[i].prepare->choices : 0);
        for (int k = 0; k < length; k++)
            hash = (hash ^ (unsigned char)text[k]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* The row behind, if it is of the same operator and since. */
static const KernelRow *row_behind(const KernelRow *row) {
    const KernelRow *next = row + 1;
    bool same = next < rows + ROW_COUNT && strcmp(next->domain, row->domain) == 0 &&
                strcmp(next->op, row->op) == 0 && next->since == row->since;
    return same ? next : NULL;
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

bool kernel_run_once(KernelCall *call) {
    if (!kernel_check(call, kernel_signature_find(call->row->domain, call->row->op, call->opset),
                      false))
        return false;
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
    return kernel_fail(call, "no kernel of it takes these operands");
}
