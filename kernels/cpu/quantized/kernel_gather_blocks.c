// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's GatherBlockQuantized: rows of a table of 2, 4 or 8 bits, picked by index, as floats.
 * Blocks along one axis share a scale and a zero point. Bytes hold one element each or several, the
 * first in the lowest bits, and zero points of bytes are packed as elements are. What an index out of
 * range picks is zeros. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_parts.h"
#include "kernel_reals.h"

enum { DATA, INDICES, SCALES, ZEROS };

/* The table's flat elements are [outer][along][inner], seen from the axis of blocks, and [before][axis]
 * [row], seen from that of indices. */
typedef struct Blocks {
    const uint8_t *data, *zeros;
    const float *scales;
    const int64_t *index;
    float *y;
    bool is_signed, packed;
    uint32_t bits;
    float middle; /* the zero point where there are none */
    uint64_t along, inner, block, blocks;
    uint64_t axis, row, picks;
} Blocks;

/* ---- reading --------------------------------------------------------------------------------- */

/* Element i of a line of which each has whole bytes. */
static int packed_at(const Blocks *b, const uint8_t *line, uint64_t i) {
    const uint32_t each = 8 / b->bits, at = (uint32_t)(i % each) * b->bits;
    return line[i / each] >> at & ((1 << b->bits) - 1);
}

/* One of a byte of its own; of 4 bits, the lower ones are. */
static int plain_at(const Blocks *b, const uint8_t *data, uint64_t i) {
    if (b->bits > 4) return data[i];
    return b->is_signed ? ((data[i] & 15) ^ 8) - 8 : data[i] & 15;
}

static float zero_of(const Blocks *b, uint64_t outer, uint64_t block, uint64_t inner) {
    if (!b->zeros) return b->middle;
    if (!b->packed)
        return (float)plain_at(b, b->zeros, (outer * b->blocks + block) * b->inner + inner);
    const uint64_t each = 8 / b->bits, bytes = b->blocks / each + (b->blocks % each != 0);
    return (float)packed_at(b, b->zeros + outer * bytes, block);
}

static float element_of(const Blocks *b, uint64_t i) {
    const uint64_t inner = i % b->inner, at = i / b->inner % b->along,
                   outer = i / b->inner / b->along, block = at / b->block;
    const int number = b->packed ? packed_at(b, b->data, i) : plain_at(b, b->data, i);
    const float scale = b->scales[(outer * b->blocks + block) * b->inner + inner];
    return ((float)number - zero_of(b, outer, block, inner)) * scale;
}

static void gather_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Blocks *b = data;
    (void)lane;
    for (uint64_t n = first; n < end; n++) {
        int64_t index = b->index[n % b->picks];
        float *to = b->y + n * b->row;
        if (index < 0) index += (int64_t)b->axis;
        if (index < 0 || (uint64_t)index >= b->axis) {
            memset(to, 0, b->row * sizeof *to);
            continue;
        }
        const uint64_t from = (n / b->picks * b->axis + (uint64_t)index) * b->row;
        for (uint64_t i = 0; i < b->row; i++) to[i] = element_of(b, from + i);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static bool read_types(KernelCall *call, Blocks *b) {
    const GatherBlocksAttrs *attrs = call->attrs;
    const Dtype dtype = call->inputs[DATA].dtype;
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

static bool read_dims(KernelCall *call, Blocks *b) {
    const GatherBlocksAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[DATA], *zeros = kernel_input(call, ZEROS);
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
    b->row = kernel_span(x, axis + 1, x->rank) * each;
    if (!has_blocks(x, &call->inputs[SCALES], along, b->blocks) ||
        (zeros && !has_blocks(x, zeros, along, b->blocks / each + (b->blocks % each != 0))))
        return kernel_fail(call, "scales or zero points do not have %llu blocks",
                           (unsigned long long)b->blocks);
    const uint64_t before = kernel_span(x, 0, axis);
    return kernel_want_count(call, &call->outputs[0], before * call->inputs[INDICES].count * b->row,
                             "the output");
}

bool kernel_gather_blocks(KernelCall *call) {
    Blocks b = {0};
    const KernelTensor *zeros = kernel_input(call, ZEROS), *y = &call->outputs[0];
    if (!read_types(call, &b) || !read_dims(call, &b)) return false;
    if (!(b.index = kernel_ints(call, &call->inputs[INDICES]))) return false;
    if (y->count == 0) return true;
    b.data = call->inputs[DATA].data;
    b.scales = call->inputs[SCALES].data;
    b.zeros = zeros ? zeros->data : NULL;
    b.picks = call->inputs[INDICES].count;
    b.y = y->data;
    const uint64_t rows = y->count / b.row;
    kernel_run_parts(call->workers, kernel_work_cut(call, 4 * (double)y->count, rows), gather_part,
                     &b);
    return true;
}
