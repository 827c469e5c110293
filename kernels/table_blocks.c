// SPDX-License-Identifier: Apache-2.0
/* See table_blocks.h. */
#include "table_blocks.h"

#include "kernel_index.h"
#include "op_attrs.h"

static bool read_types(KernelCall *call, TableBlocks *b) {
    const GatherBlocksAttrs *attrs = call->attrs;
    const Dtype dtype = call->inputs[TABLE_NUMBERS].dtype;
    const bool bytes = dtype == DTYPE_UINT8;
    if (attrs->bits != 4 && !(bytes && (attrs->bits == 2 || attrs->bits == 8)))
        return kernel_fail(call, "elements of %lld bits", (long long)attrs->bits);
    if (attrs->block < 1) return kernel_fail(call, "blocks of %lld", (long long)attrs->block);
    b->bits = (uint32_t)attrs->bits;
    b->packed = bytes && b->bits < 8;
    b->is_signed = dtype == DTYPE_INT4;
    b->middle = bytes ? (float)(1u << (b->bits - 1)) : 0;
    b->block = (uint64_t)attrs->block;
    return true;
}

/* Whether the tensor has the table's dims but along the axis of blocks, where it has `count`. */
static bool has_blocks(const KernelTensor *x, const KernelTensor *t, uint32_t along,
                       uint64_t count) {
    if (t->rank != x->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (i == along ? (uint64_t)t->dims[i] != count : t->dims[i] != x->dims[i]) return false;
    return true;
}

static bool read_dims(KernelCall *call, TableBlocks *b) {
    const GatherBlocksAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[TABLE_NUMBERS], *zeros = kernel_input(call, TABLE_ZEROS);
    const uint64_t each = b->packed ? 8 / b->bits : 1;
    uint32_t axis, along;
    if (x->rank == 0) return kernel_fail(call, "a table of rank 0");
    if (!kernel_axis(call, attrs->axis, x->rank, &axis) ||
        !kernel_axis(call, attrs->along, x->rank, &along))
        return false;
    if (b->packed && (along + 1 != x->rank || axis == along))
        return kernel_fail(call, "packed elements with blocks along an axis other than the last");
    b->along = (uint64_t)x->dims[along] * each;
    b->blocks = b->along / b->block + (b->along % b->block != 0);
    b->inner = kernel_span(x, along + 1, x->rank);
    b->axis = (uint64_t)x->dims[axis];
    b->picks = call->inputs[TABLE_INDICES].count;
    b->row = kernel_span(x, axis + 1, x->rank) * each;
    if (!has_blocks(x, &call->inputs[TABLE_SCALES], along, b->blocks) ||
        (zeros && !has_blocks(x, zeros, along, b->blocks / each + (b->blocks % each != 0))))
        return kernel_fail(call, "scales or zero points do not have %llu blocks",
                           (unsigned long long)b->blocks);
    const uint64_t before = kernel_span(x, 0, axis);
    const uint64_t want = before * call->inputs[TABLE_INDICES].count * b->row;
    return call->outputs[0].count == want ||
           kernel_fail(call, "the output has %llu elements, not %llu",
                       (unsigned long long)call->outputs[0].count, (unsigned long long)want);
}

bool table_blocks_find(KernelCall *call, TableBlocks *blocks) {
    *blocks = (TableBlocks){0};
    return read_types(call, blocks) && read_dims(call, blocks);
}
